"""A consumer group as a whole: permission to commit, its description, its end, and its return from the log."""

from uuid import UUID

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH, ConsumerDescription, ConsumerMemberDescription
from headwater.coordination.groups.consumer.events import (
    REBALANCE,
    SESSION,
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberDeadlineCancelled,
    MemberForgotten,
    MemberState,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from headwater.coordination.groups.consumer.member import new_details
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicId, TopicName
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
    return Topics({"a": 4})


@pytest.fixture
def driver(topics: Topics) -> Driver:
    return Driver(topics)


# -- offsets


def commit(
    driver: Driver, member_id: str, epoch: int, *, is_transactional: bool = False, knows_epochs: bool = True
) -> ErrorCode:
    try:
        commit = Commit(MemberId(member_id), None, epoch, (), knows_epochs=knows_epochs)
        events = driver.group.decide_commit(commit, is_transactional=is_transactional, now=driver.now)
    except Refusal as refusal:
        return refusal.code
    assert list(events) == [], "a commit is no heartbeat"
    return ErrorCode.NONE


def test_only_a_member_in_its_epoch_may_commit(driver: Driver) -> None:
    driver.join("ann", topics=["a"])

    assert commit(driver, "ann", 1) is ErrorCode.NONE
    assert commit(driver, "ann", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "ann", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "ann", -1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "bob", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(driver, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID, "an administrator must wait until the group is empty"


def test_an_administrator_may_commit_to_an_empty_group(driver: Driver) -> None:
    assert commit(driver, "", -1) is ErrorCode.NONE
    assert commit(driver, "ann", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transactional_producer_may_commit_without_naming_a_member(driver: Driver) -> None:
    driver.join("ann", topics=["a"])

    assert commit(driver, "", -1, is_transactional=True) is ErrorCode.NONE
    assert commit(driver, "ann", 0, is_transactional=True) is ErrorCode.ILLEGAL_GENERATION


def test_a_consumer_member_may_not_commit_in_a_version_without_epochs(driver: Driver) -> None:
    driver.join("ann", topics=["a"])

    assert commit(driver, "ann", 1, knows_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(driver, "ann", 1, knows_epochs=False, is_transactional=True) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("ann", 1, None),
        ("ann", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("bob", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_in_their_epoch_and_administrators_may_fetch_offsets(
    driver: Driver, member_id: str | None, epoch: int, code: ErrorCode | None
) -> None:
    driver.join("ann", topics=["a"])
    fetcher = None if member_id is None else MemberId(member_id)

    if code is None:
        driver.group.check_fetch(fetcher, epoch)
        return
    with pytest.raises(Refusal) as refused:
        driver.group.check_fetch(fetcher, epoch)
    assert refused.value.code is code


def test_offsets_of_subscribed_topics_do_not_expire(driver: Driver) -> None:
    driver.join("ann", topics=["a"], regex="b.*")
    driver.topics.put("b1", 1)
    driver.heartbeat(heartbeat("ann", 1))

    rule = driver.group.expiry_rule()
    assert rule.empty_since_ms is None, "others are as old as their commit"
    assert rule.subscribed == {"a", "b1"}
    assert driver.group.is_subscribed_to(TopicName("b1"))
    assert not driver.group.is_subscribed_to(TopicName("b2"))


# -- description and end


def test_a_group_is_described_with_members_and_targets(driver: Driver, topics: Topics) -> None:
    driver.join("ann", topics=["a"], rack="east", instance="one")
    driver.join("bob", regex="a", assignor="range")
    a = topics.id_of("a")

    assert driver.group.describe() == ConsumerDescription(
        group_id=GROUP,
        state=GroupState.RECONCILING,
        epoch=2,
        assignment_epoch=2,
        assignor="range",
        members=[
            ConsumerMemberDescription(
                member_id=ANN,
                instance_id="one",
                rack_id="east",
                epoch=1,
                client_id="client",
                client_host="/127.0.0.1",
                topic_names=[TopicName("a")],
                topic_regex=None,
                assigned={a: frozenset(range(4))},
                target={a: frozenset({0, 1})},
                is_classic=False,
            ),
            ConsumerMemberDescription(
                member_id=BOB,
                instance_id=None,
                rack_id=None,
                epoch=2,
                client_id="client",
                client_host="/127.0.0.1",
                topic_names=[],
                topic_regex="a",
                assigned={},
                target={a: frozenset({2, 3})},
                is_classic=False,
            ),
        ],
    )


@pytest.mark.parametrize(
    ("chosen", "assignor"),
    [
        ([None, None], "uniform"),
        ([None, "range"], "range"),
        (["uniform", "range"], "uniform"),
        (["uniform", "range", "range"], "range"),
    ],
)
def test_the_assignor_named_by_most_members_is_used(driver: Driver, chosen: list[str | None], assignor: str) -> None:
    for number, each in enumerate(chosen):
        driver.join(f"m{number}", topics=["a"], assignor=each)

    assert driver.group.describe().assignor == assignor


def test_the_first_of_the_configured_assignors_is_the_default(topics: Topics) -> None:
    driver = Driver(topics, GroupDefaults(group_consumer_assignors=("range",)))
    driver.join("ann", topics=["a"])

    assert driver.group.describe().assignor == "range"
    with pytest.raises(Refusal):
        driver.join("bob", topics=["a"], assignor="uniform")


def test_members_get_partitions_in_their_rack(topics: Topics) -> None:
    for partition in range(4):
        topics.racks_of["a", partition] = frozenset({"east" if partition % 2 else "west"})
    driver = Driver(topics)
    driver.join("ann", topics=["a"], rack="east", assignor="range")
    driver.join("bob", topics=["a"], rack="west", assignor="range")

    targets = driver.group.roster.targets
    assert sum(map(len, targets[ANN].values())) == sum(map(len, targets[BOB].values())) == 2


def test_a_group_with_members_cannot_be_deleted(driver: Driver) -> None:
    driver.join("ann", topics=["a"])

    with pytest.raises(Refusal) as refused:
        driver.group.decide_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_deleting_an_empty_group_deletes_all_its_records(driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.heartbeat(heartbeat("ann", LEAVE_EPOCH))
    # Records left over by a torn log are deleted as well.
    driver.apply([TargetStored(GROUP, BOB, {}), RegexResolved(GROUP, "x", frozenset(), 1, 0)])

    events = driver.group.decide_delete()

    assert events == [
        TargetForgotten(GROUP, BOB),
        RegexForgotten(GROUP, "x"),
        TargetEpochForgotten(GROUP),
        ConsumerGroupForgotten(GROUP),
    ]
    driver.apply(events)
    membership = driver.group.roster
    assert (membership.epoch, membership.assignment_epoch, membership.targets, membership.regexes) == (0, 0, {}, {})


# -- time and the log


def test_after_a_load_sessions_and_rebalance_time_outs_start_anew(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.join("bob", topics=["a"])
    driver.heartbeat(heartbeat("ann", 1))

    loaded = Driver(topics, log=driver.log)

    assert set(loaded.deadlines._due_ms) == {(GROUP, SESSION, ANN), (GROUP, SESSION, BOB), (GROUP, REBALANCE, ANN)}
    assert loaded.deadlines.next_ms() == SESSION_TIMEOUT_MS
    loaded.heartbeat(heartbeat("ann", 1))
    loaded.advance(REBALANCE_TIMEOUT_MS)
    assert loaded.group.state is GroupState.EMPTY


def test_deadlines_of_a_removed_member_are_cancelled(driver: Driver) -> None:
    decision = driver.group.decide_expired(SESSION, "nobody", driver.now)

    assert decision.events == [MemberDeadlineCancelled(GROUP, SESSION, MemberId("nobody"))]


def test_a_group_is_rebuilt_from_a_compacted_log_in_any_order_of_keys(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    driver.join("bob", topics=["a"])
    told = driver.heartbeat(heartbeat("ann", 1))
    driver.heartbeat(heartbeat("ann", 1, owned=told.assignment))
    driver.heartbeat(heartbeat("bob", 2))
    driver.heartbeat(heartbeat("ann", 2, rack="east"))
    last = {(type(event), getattr(event, "member_id", None)): event for event in driver.log}
    compacted = [event for event in driver.log if last[type(event), getattr(event, "member_id", None)] is event]
    assert len(compacted) < len(driver.log)
    assert isinstance(compacted[-1], MemberStored), "what ann has comes before what she brought"

    loaded = Driver(topics, log=compacted)

    assert loaded.group.describe()._replace(members=[]) == driver.group.describe()._replace(members=[])
    assert loaded.group.roster.members == driver.group.roster.members
    assert loaded.group.state is GroupState.STABLE


def test_repeated_tombstones_are_accepted(driver: Driver) -> None:
    driver.apply(
        [
            CurrentForgotten(GROUP, ANN),
            TargetForgotten(GROUP, ANN),
            MemberForgotten(GROUP, ANN),
            RegexForgotten(GROUP, "x"),
            TargetEpochForgotten(GROUP),
            ConsumerGroupForgotten(GROUP),
        ]
    )

    assert driver.group.state is GroupState.EMPTY


def test_an_assignment_may_precede_its_member_in_the_log(driver: Driver) -> None:
    topic_id = TopicId(UUID(int=7))
    held = {topic_id: frozenset({0})}
    driver.apply([CurrentStored(GROUP, ANN, 3, 2, MemberState.STABLE, held)])
    assert driver.group.roster.members[ANN].details == new_details(GROUP, ANN)
    assert driver.group.roster.owner(topic_id, 0) == ANN

    driver.apply([CurrentForgotten(GROUP, ANN)])
    assert driver.group.roster.owner(topic_id, 0) is None


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], GroupState.EMPTY),
        ([ConsumerGroupStored(GROUP, 3, 0)], GroupState.EMPTY),
        ([ConsumerGroupStored(GROUP, 3, 0), new_details(GROUP, ANN)], GroupState.ASSIGNING),
        (
            [ConsumerGroupStored(GROUP, 3, 0), new_details(GROUP, ANN), TargetEpochStored(GROUP, 3)],
            GroupState.RECONCILING,
        ),
        (
            [
                ConsumerGroupStored(GROUP, 3, 0),
                TargetEpochStored(GROUP, 3),
                CurrentStored(GROUP, ANN, 3, 2, MemberState.UNRELEASED_PARTITIONS),
            ],
            GroupState.RECONCILING,
        ),
        (
            [
                ConsumerGroupStored(GROUP, 3, 0),
                TargetEpochStored(GROUP, 3),
                CurrentStored(GROUP, ANN, 3, 2, MemberState.STABLE),
            ],
            GroupState.STABLE,
        ),
    ],
)
def test_the_state_of_a_group(driver: Driver, events: list[object], state: GroupState) -> None:
    driver.apply(events)

    assert driver.group.state is state


def test_an_event_of_another_kind_is_a_bug(driver: Driver) -> None:
    with pytest.raises(AssertionError):
        driver.group.apply(NO_MEMBER)
