"""ConsumerGroupHeartbeat as a table of what is refused, and the walks of single members through a group."""

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.consumer.commands import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    MemberAnswer,
    MemberHeartbeat,
)
from headwater.coordination.groups.consumer.events import (
    REBALANCE,
    SESSION,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberDeadlineSet,
    MemberForgotten,
    MemberState,
    MemberStored,
    RegexForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
    TopicsSeen,
)
from headwater.coordination.groups.consumer.subscriptions import REGEXES_MAX
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from tests.coordination.groups.consumer.walks import count, refused, settle
from tests.support.coordination.consumer_driver import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Driver,
    Topics,
    heartbeat,
)

ANN, BOB = MemberId("ann"), MemberId("bob")


@pytest.fixture
def topics() -> Topics:
    return Topics({"a": 4, "b": 2, "__internal": 1})


@pytest.fixture
def driver(topics: Topics) -> Driver:
    return Driver(topics)


# -- invalid requests


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (heartbeat("", topics=["a"]), ErrorCode.INVALID_REQUEST),
        (heartbeat("", 5, new_member_id="new"), ErrorCode.INVALID_REQUEST),
        (heartbeat("", LEAVE_EPOCH, new_member_id="new"), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"], instance=""), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"], rack=""), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"], timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"])._replace(owned=None), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"], owned={next(iter(Topics({"a": 1}).by_id)): frozenset({0})}),
         ErrorCode.INVALID_REQUEST),
        (heartbeat("ann"), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", LEAVE_STATIC_EPOCH), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", -3), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["x" * 600_000, "y" * 600_000]), ErrorCode.INVALID_REQUEST),
        (heartbeat("ann", topics=["a"], assignor="sticky"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (heartbeat("ann", regex="("), ErrorCode.INVALID_REGULAR_EXPRESSION),
        (heartbeat("ann", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (heartbeat("ann", 1, instance="i"), ErrorCode.UNKNOWN_MEMBER_ID),
        (heartbeat("ann", LEAVE_EPOCH), ErrorCode.UNKNOWN_MEMBER_ID),
        (heartbeat("ann", LEAVE_STATIC_EPOCH, instance="i"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)  # fmt: skip
def test_an_invalid_heartbeat_is_refused(driver: Driver, request_: MemberHeartbeat, code: ErrorCode) -> None:
    assert refused(driver, request_) is code


# -- joining


def test_the_first_member_gets_all_partitions_and_each_step_is_an_event(topics: Topics, driver: Driver) -> None:
    request = heartbeat("ann", topics=["a", "missing"], rack="east", assignor="range")
    decision = driver.group.decide_member_heartbeat(request, driver.now)

    all_of_a = {topics.id_of("a"): frozenset(range(4))}
    hashed = decision.events[0]
    assert isinstance(hashed, ConsumerGroupStored)
    assert decision.events == [
        ConsumerGroupStored(GROUP, 1, hashed.metadata_hash),
        TopicsSeen(GROUP, topics.version),
        MemberStored(
            GROUP,
            ANN,
            None,
            "east",
            "client",
            "/127.0.0.1",
            frozenset({TopicName("a"), TopicName("missing")}),
            None,
            60_000,
            "range",
        ),
        TargetStored(GROUP, ANN, all_of_a),
        TargetEpochStored(GROUP, 1, driver.now.wall_ms),
        CurrentStored(GROUP, ANN, 1, 0, MemberState.STABLE, all_of_a),
        MemberDeadlineSet(GROUP, SESSION, ANN, SESSION_TIMEOUT_MS),
    ]
    assert decision.result == MemberAnswer(ANN, 1, 5000, all_of_a)
    assert driver.group.state is GroupState.EMPTY, "deciding must not mutate"


def test_a_member_without_an_id_gets_one(driver: Driver) -> None:
    assert driver.join("", topics=["a"], new_member_id="made-up").member_id == "made-up"
    assert list(driver.group.roster.members) == ["made-up"]


def test_a_member_may_join_without_any_topics(driver: Driver) -> None:
    assert driver.join("ann", topics=[]) == MemberAnswer(ANN, 1, 5000, {})
    assert driver.join("bob", regex="") == MemberAnswer(BOB, 1, 5000, {})
    assert driver.group.state is GroupState.STABLE


def test_a_second_member_waits_until_the_first_has_revoked(driver: Driver) -> None:
    all_of_a = driver.join("ann", topics=["a"]).assignment
    joined = driver.join("bob", topics=["a"])

    assert (joined.epoch, joined.assignment) == (2, {})
    assert driver.group.state is GroupState.RECONCILING
    assert driver.group.roster.members[BOB].current.state is MemberState.UNRELEASED_PARTITIONS

    told = driver.heartbeat(heartbeat("ann", 1))
    assert (told.epoch, count(told.assignment)) == (1, 2), "ann is to give up two, in the epoch that she is in"
    assert driver.heartbeat(heartbeat("ann", 1, owned=all_of_a)).assignment is None, "nothing new to tell"
    assert driver.heartbeat(heartbeat("bob", 2)).assignment is None, "bob has nothing as long as she holds on"

    done = driver.heartbeat(heartbeat("ann", 1, owned=told.assignment))
    assert (done.epoch, done.assignment) == (2, None)
    given = driver.heartbeat(heartbeat("bob", 2))
    assert (given.epoch, count(given.assignment)) == (2, 2)
    assert driver.group.state is GroupState.STABLE


def test_a_plain_heartbeat_of_a_stable_member_only_renews_its_session(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.advance(1000)

    decision = driver.group.decide_member_heartbeat(heartbeat("ann", 1), driver.now)

    assert decision.events == [MemberDeadlineSet(GROUP, SESSION, ANN, 1000 + SESSION_TIMEOUT_MS)]
    assert decision.result == MemberAnswer(ANN, 1, 5000)


def test_a_full_heartbeat_is_answered_in_full(driver: Driver) -> None:
    assignment = driver.join("ann", topics=["a"]).assignment

    full = heartbeat("ann", 1, topics=["a"], owned=assignment, timeout_ms=REBALANCE_TIMEOUT_MS)
    assert driver.heartbeat(full).assignment == assignment
    assert driver.heartbeat(full._replace(topic_names=None)).assignment is None
    assert driver.heartbeat(full._replace(topic_names=None, topic_regex="")).assignment == assignment


def test_a_change_other_than_the_subscription_is_stored_without_a_new_epoch(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.heartbeat(heartbeat("ann", 1, rack="west", client_id="other", assignor="range", timeout_ms=7))

    details = driver.group.roster.members[ANN].details
    assert (details.rack_id, details.client_id, details.assignor, details.rebalance_timeout_ms) == (
        "west", "other", "range", 7,
    )  # fmt: skip
    assert driver.group.roster.epoch == 1


def test_a_new_subscription_gets_a_new_epoch_and_revokes_unwanted_partitions(topics: Topics, driver: Driver) -> None:
    owned = driver.join("ann", topics=["a"]).assignment
    told = driver.heartbeat(heartbeat("ann", 1, topics=["b"], owned=owned))

    assert (told.epoch, told.assignment) == (1, {})
    given = driver.heartbeat(heartbeat("ann", 1, owned={}))
    assert given == MemberAnswer(ANN, 2, 5000, {topics.id_of("b"): frozenset({0, 1})})


def test_a_join_to_a_full_group_is_refused(topics: Topics) -> None:
    driver = Driver(topics, GroupDefaults(group_consumer_max_size=1))
    driver.join("ann", topics=["a"], instance="one")

    assert refused(driver, heartbeat("bob", topics=["a"])) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused(driver, heartbeat("bob", 3)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.heartbeat(heartbeat("ann", 1, instance="one"))
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    assert driver.join("bob", topics=["a"], instance="one").epoch == 1, "takes the place of its former self"


# -- epochs


def test_a_heartbeat_with_a_wrong_epoch_is_fenced(driver: Driver) -> None:
    driver.join("ann", topics=["a"])

    assert refused(driver, heartbeat("ann", 2)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_previous_epoch_is_accepted_where_the_answer_may_have_been_lost(topics: Topics, driver: Driver) -> None:
    owned = driver.join("ann", topics=["a"]).assignment
    driver.heartbeat(heartbeat("ann", 1, topics=["a", "b"]))
    assert driver.group.roster.members[ANN].current.epoch == 2

    assert driver.heartbeat(heartbeat("ann", 1, owned=owned)).epoch == 2
    assert refused(driver, heartbeat("ann", 1)) is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it owns"
    beyond = {**(owned or {}), topics.put("c", 1): frozenset({0})}
    assert refused(driver, heartbeat("ann", 1, owned=beyond)) is ErrorCode.FENCED_MEMBER_EPOCH
    driver.heartbeat(heartbeat("ann", 2, topics=["a"]))
    settle(driver, "ann")
    assert refused(driver, heartbeat("ann", 1, owned=owned)) is ErrorCode.FENCED_MEMBER_EPOCH, "too long ago"


def test_a_member_that_missed_an_answer_gets_its_assignment_again(topics: Topics, driver: Driver) -> None:
    driver.heartbeat(heartbeat("ann", topics=("orders",)))
    before = driver.heartbeat(heartbeat("ann", 1)).epoch
    topics.put("orders", 12)
    lost = driver.heartbeat(heartbeat("ann", before, owned={}))

    again = driver.heartbeat(heartbeat("ann", before, owned={}))

    assert again.epoch == lost.epoch == before + 1
    assert again.assignment == lost.assignment is not None


def test_the_number_of_regular_expressions_of_a_group_is_bounded(driver: Driver) -> None:
    for number in range(REGEXES_MAX):
        driver.heartbeat(heartbeat(f"m{number}", topics=(), regex=f"orders-{number}"))
    driver.heartbeat(heartbeat("same", topics=(), regex="orders-0"))

    with pytest.raises(Refusal) as refused:
        driver.heartbeat(heartbeat("more", topics=(), regex="another"))

    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_member_that_rejoins_under_its_id_continues(driver: Driver) -> None:
    assignment = driver.join("ann", topics=["a"]).assignment

    assert driver.join("ann", topics=["a"]) == MemberAnswer(ANN, 1, 5000, assignment)


# -- leaving


def test_a_member_that_leaves_is_forgotten_and_the_next_heartbeat_brings_the_new_target(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.join("bob", topics=["a"], regex="b.*")
    settle(driver, "ann", "bob")
    epoch = driver.group.roster.epoch

    decision = driver.group.decide_member_heartbeat(heartbeat("bob", LEAVE_EPOCH), driver.now)
    assert decision.events[1:] == [
        RegexForgotten(GROUP, "b.*"),
        CurrentForgotten(GROUP, BOB),
        TargetForgotten(GROUP, BOB),
        MemberForgotten(GROUP, BOB),
    ]
    assert decision.result == MemberAnswer(BOB, LEAVE_EPOCH, 0)

    driver.apply(decision.events)
    assert driver.group.state is GroupState.ASSIGNING
    assert driver.group.roster.epoch == epoch + 1
    assert count(settle(driver, "ann")["ann"].assignment) == 4
    assert (GROUP, SESSION, BOB) not in driver.deadlines


def test_the_last_member_leaves_an_empty_group(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    assert driver.group.state is GroupState.EMPTY
    assert len(driver.deadlines) == 0
    assert driver.join("bob", topics=["a"]).epoch == 3


# -- time


def test_a_silent_member_is_removed_when_its_session_ends(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.advance(SESSION_TIMEOUT_MS - 1)
    driver.heartbeat(heartbeat("ann", 1))
    driver.advance(SESSION_TIMEOUT_MS - 1)
    assert ANN in driver.group.roster.members

    driver.advance(1)
    assert driver.group.state is GroupState.EMPTY
    assert refused(driver, heartbeat("ann", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_removed(driver: Driver) -> None:
    owned = driver.join("ann", topics=["a"], timeout_ms=20_000).assignment
    driver.join("bob", topics=["a"])
    driver.heartbeat(heartbeat("ann", 1, owned=owned))
    for _ in range(19):
        driver.advance(1000)
        driver.heartbeat(heartbeat("ann", 1, owned=owned))
        driver.heartbeat(heartbeat("bob", 2))
    assert ANN in driver.group.roster.members

    driver.advance(1000)

    assert list(driver.group.roster.members) == [BOB]
    assert count(driver.heartbeat(heartbeat("bob", 2)).assignment) == 4


def test_a_member_that_revokes_in_time_has_no_rebalance_deadline_any_more(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.join("bob", topics=["a"])
    told = driver.heartbeat(heartbeat("ann", 1))
    assert (GROUP, REBALANCE, ANN) in driver.deadlines

    driver.heartbeat(heartbeat("ann", 1, owned=told.assignment))
    assert (GROUP, REBALANCE, ANN) not in driver.deadlines
