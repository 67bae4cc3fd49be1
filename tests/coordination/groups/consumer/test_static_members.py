"""Static members of a consumer group: they leave for a while, come back, and are replaced."""

import pytest

from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberAnswer
from headwater.coordination.groups.consumer.events import REBALANCE
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode
from headwater.ids import MemberId
from tests.coordination.groups.consumer.walks import count, refused, settle
from tests.support.coordination.consumer_driver import GROUP, SESSION_TIMEOUT_MS, Driver, Topics, heartbeat

ANN, BOB = MemberId("ann"), MemberId("bob")


@pytest.fixture
def topics() -> Topics:
    return Topics({"a": 4, "b": 2, "__internal": 1})


@pytest.fixture
def driver(topics: Topics) -> Driver:
    return Driver(topics)


def test_a_static_member_that_leaves_temporarily_returns_to_its_partitions(driver: Driver) -> None:
    assignment = driver.join("ann", topics=["a"], instance="one").assignment
    gone = driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    assert gone == MemberAnswer(ANN, LEAVE_STATIC_EPOCH, 0)
    driver.advance(SESSION_TIMEOUT_MS - 1)
    assert refused(driver, heartbeat("ann", 1, instance="one")) is ErrorCode.FENCED_MEMBER_EPOCH

    back = driver.join("bob", topics=["a"], instance="one")

    assert back == MemberAnswer(BOB, 1, 5000, assignment)
    assert driver.group.roster.epoch == 1, "nobody else noticed"
    assert list(driver.group.roster.members) == ["bob"]
    assert refused(driver, heartbeat("ann", 1, instance="one")) is ErrorCode.FENCED_INSTANCE_ID
    assert refused(driver, heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one")) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_comes_back_under_the_same_id(driver: Driver) -> None:
    assignment = driver.join("ann", topics=["a"], instance="one").assignment
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    assert driver.join("ann", topics=["a"], instance="one") == MemberAnswer(ANN, 1, 5000, assignment)
    assert driver.group.state is GroupState.STABLE


def test_a_static_member_comes_back_with_another_subscription(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    back = driver.join("bob", topics=["b"], instance="one")

    assert back == MemberAnswer(BOB, 2, 5000, {topics.id_of("b"): frozenset({0, 1})})


def test_a_member_that_replaces_another_leaves_its_own_partitions_to_the_others(driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    driver.join("bob", topics=["a"])
    settle(driver, "ann", "bob")
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    driver.join("bob", topics=["a"], instance="one")

    assert count(settle(driver, "bob")["bob"].assignment or driver.group.roster.target_of(BOB)) == 4


def test_an_instance_is_held_until_its_member_leaves_or_its_session_ends(driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    assert refused(driver, heartbeat("bob", topics=["a"], instance="one")) is ErrorCode.UNRELEASED_INSTANCE_ID

    driver.advance(SESSION_TIMEOUT_MS)
    assert driver.join("bob", topics=["a"], instance="one").epoch == 3


def test_a_static_member_that_does_not_return_is_removed_when_its_session_ends(driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    driver.advance(SESSION_TIMEOUT_MS)

    assert driver.group.state is GroupState.EMPTY


def test_a_static_member_leaves_permanently(driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    driver.heartbeat(heartbeat("ann", LEAVE_EPOCH, instance="one"))

    assert driver.group.state is GroupState.EMPTY
    assert driver.group.roster.static_members == {}


def test_partitions_that_a_static_member_had_to_revoke_are_free_once_it_left(driver: Driver) -> None:
    driver.join("ann", topics=["a"], instance="one")
    driver.join("bob", topics=["a"])
    driver.heartbeat(heartbeat("ann", 1, instance="one"))
    assert driver.group.roster.members[ANN].current.pending_revocation
    driver.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    assert (GROUP, REBALANCE, ANN) not in driver.deadlines
    assert count(driver.heartbeat(heartbeat("bob", 2)).assignment) == 2
