"""The ends of groups, and what a restart rebuilds from their log."""

from collections.abc import Callable

import pytest

from headwater.coordination.groups.classic.events import ClassicGroupForgotten
from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH
from headwater.coordination.groups.consumer.events import ConsumerGroupForgotten, MemberForgotten, RegexForgotten
from headwater.coordination.groups.offsets.events import OffsetForgotten
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName
from tests.coordination.groups.machine_driver import MachineDriver
from tests.coordination.groups.one_group import OneGroup, offset
from tests.support.coordination.consumer_driver import SESSION_TIMEOUT_MS, Topics, heartbeat
from tests.support.coordination.migration_driver import CLASSIC_SESSION_TIMEOUT_MS

NAME = "payments"
PAYMENTS = GroupId(NAME)


@pytest.fixture
def driver() -> MachineDriver:
    return MachineDriver(Topics({"a": 2, "b": 1}))


@pytest.fixture
def group(driver: MachineDriver) -> OneGroup:
    return driver.group(NAME)


def refusal(request: Callable[[], object]) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        request()
    return refused.value.code


# -- the end of a group


@pytest.mark.parametrize("begin", [OneGroup.stable_classic, OneGroup.stable_consumer])
def test_a_group_with_members_is_not_deleted(
    driver: MachineDriver, group: OneGroup, begin: Callable[[OneGroup], None]
) -> None:
    begin(group)
    before = driver.snapshot()
    assert refusal(lambda: driver.delete(NAME)) is ErrorCode.NON_EMPTY_GROUP
    assert driver.snapshot() == before


def test_a_deleted_classic_group_takes_its_offsets_first(driver: MachineDriver, group: OneGroup) -> None:
    group.empty_classic()
    group.commit(offset("a", 0, 1), offset("b", 0, 2))

    assert driver.delete(NAME) == [
        OffsetForgotten(PAYMENTS, TopicName("a"), 0),
        OffsetForgotten(PAYMENTS, TopicName("b"), 0),
        ClassicGroupForgotten(PAYMENTS),
    ]
    for known in (driver, driver.restarted()):
        assert known.machine.groups == {}
        assert known.offsets() == {}


def test_a_deleted_consumer_group_takes_its_offsets_first_and_all_else_with_it(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.heartbeat(heartbeat("ann", topics=[], regex="a|b"))
    group.heartbeat(heartbeat("ann", LEAVE_EPOCH))
    group.commit(offset("a", 0, 1))

    kinds = [type(event) for event in driver.delete(NAME)]
    assert (kinds[0], kinds[-1]) == (OffsetForgotten, ConsumerGroupForgotten)
    assert RegexForgotten not in kinds, "it went with its last member"
    for known in (driver, driver.restarted()):
        assert known.machine.groups == {}
        assert known.offsets() == {}
    assert refusal(lambda: driver.delete(NAME)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_offsets_only_is_deleted_too(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset("a", 0, 1))
    driver.delete(NAME)
    assert driver.machine.groups == driver.offsets() == {}


# -- what is left of a group in a log


@pytest.mark.parametrize(
    "event",
    [
        ClassicGroupForgotten(PAYMENTS),
        ConsumerGroupForgotten(PAYMENTS),
        MemberForgotten(PAYMENTS, MemberId("ann")),
        OffsetForgotten(PAYMENTS, TopicName("a"), 0),
    ],
)
def test_tombstones_of_a_compacted_group_begin_no_group(driver: MachineDriver, event: object) -> None:
    driver.machine.apply(event)
    assert driver.machine.groups == {}


def test_the_end_of_a_group_does_not_affect_its_successor_of_the_other_protocol(driver: MachineDriver) -> None:
    driver.group("classic").stable_classic()
    driver.group("consumer").stable_consumer()
    before = driver.snapshot()
    driver.machine.apply(MemberForgotten(GroupId("classic"), MemberId("bob")))
    driver.machine.apply(ConsumerGroupForgotten(GroupId("classic")))
    driver.machine.apply(ClassicGroupForgotten(GroupId("consumer")))
    assert driver.snapshot() == before


def test_a_restart_brings_back_groups_of_both_protocols_and_starts_their_sessions(driver: MachineDriver) -> None:
    driver.group("classic").stable_classic(assigned=b"all")
    driver.group("consumer").stable_consumer()
    driver.pass_time(20_000)

    restarted = driver.restarted()

    assert restarted.durable() == driver.durable()
    assert restarted.deadlines == {
        (GroupId("classic"), "classic-session", "bob"): 20_000 + CLASSIC_SESSION_TIMEOUT_MS,
        (GroupId("consumer"), "consumer-session", "ann"): 20_000 + SESSION_TIMEOUT_MS,
    }
