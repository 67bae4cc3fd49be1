"""Limits on the number of groups and on the memory of their members."""

from collections.abc import Callable

import pytest

from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.classic.commands import JoinResult, Sync
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from headwater.protocol.consumer_protocol import write_assignment
from tests.coordination.groups.machine_driver import MachineDriver
from tests.coordination.groups.one_group import OneGroup, offset
from tests.support.coordination.consumer_driver import Topics, heartbeat
from tests.support.coordination.migration_driver import CLASSIC_SESSION_TIMEOUT_MS, join_request

NAME = "payments"

Request = Callable[[OneGroup], object]


@pytest.fixture
def driver() -> MachineDriver:
    return MachineDriver(Topics({"a": 2, "b": 1}))


@pytest.fixture
def group(driver: MachineDriver) -> OneGroup:
    return driver.group(NAME)


# -- number of groups

BEGINNINGS: dict[str, Request] = {
    "join": lambda group: group.join(join_request(new_member_id="bob")),
    "join that is first told its id": lambda group: group.join(join_request(is_member_id_required=True)),
    "heartbeat": lambda group: group.heartbeat(heartbeat("ann", topics=["a"])),
    "commit": lambda group: group.commit(offset("a", 0, 1)),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_no_group_begins_beyond_the_limit_and_existing_ones_continue(
    driver: MachineDriver, group: OneGroup, begin: Request
) -> None:
    begin(group)
    driver.groups_max = 1

    with pytest.raises(Refusal, match=r"headwater\.groups\.max") as refused:
        begin(driver.group("another"))
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(driver.machine.groups) == [NAME]
    group.commit(offset("a", 0, 1)) if group.state is GroupState.EMPTY else begin(group)

    driver.groups_max = 2
    begin(driver.group("another"))
    assert list(driver.machine.groups) == [NAME, "another"]


def test_a_group_may_change_its_protocol_at_the_limit(driver: MachineDriver, group: OneGroup) -> None:
    group.empty_consumer()
    driver.groups_max = 1
    group.stable_classic()
    assert group.heartbeat(heartbeat("ann", topics=["a"])).epoch == 2


# -- memory


def test_the_memory_of_members_is_counted_and_released(driver: MachineDriver) -> None:
    """Whatever they bring, hold or wait for, in both protocols, and after they have changed from one to the other."""
    for begin in (OneGroup.stable_classic, OneGroup.stable_consumer):
        group = driver.group(begin.__name__)
        begin(group)
    assert driver.machine.weight == sum(group.weight for group in driver.machine.groups.values()) > 0
    driver.pass_time(10 * CLASSIC_SESSION_TIMEOUT_MS)
    assert driver.machine.weight == 0


def test_a_group_that_ends_releases_the_memory_of_its_members(driver: MachineDriver) -> None:
    upgraded, deleted = driver.group("upgraded"), driver.group("deleted")
    upgraded.stable_classic(assigned=write_assignment({TopicName("a"): [0]}))
    upgraded.heartbeat(heartbeat("ann", topics=["a"]))
    assert driver.machine.weight == upgraded.consumer.weight

    deleted.empty_classic()
    deleted.join(join_request(new_member_id="awaited", is_member_id_required=True))
    driver.delete("deleted")
    assert driver.machine.weight == upgraded.consumer.weight


def test_joins_beyond_the_memory_limit_are_refused(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_classic()
    driver.bytes_max = driver.machine.weight + 10

    with pytest.raises(Refusal, match=r"headwater\.groups\.memory\.max\.bytes") as refused:
        group.join(join_request(new_member_id="more"))
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    with pytest.raises(Refusal, match=r"headwater\.groups\.memory\.max\.bytes"):
        driver.group("another").heartbeat(heartbeat("ann", topics=["a" * 20]))
    with pytest.raises(Refusal, match=r"headwater\.groups\.memory\.max\.bytes"):
        group.machine.decide_sync(
            group.group_id,
            Sync(MemberId("bob"), None, 1, None, None, {MemberId("bob"): b"x" * 5000}),
            Ticket(99),
            driver.now,
        )
    group.join(join_request(member_id="bob"))


def test_a_group_without_any_member_leaves_no_trace(driver: MachineDriver) -> None:
    request = join_request(new_member_id="bob")._replace(is_member_id_required=True)
    told = driver.group("unborn").join(request)
    assert isinstance(told, JoinResult)
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert driver.machine.groups

    driver.pass_time(10 * CLASSIC_SESSION_TIMEOUT_MS)

    assert not driver.machine.groups
    assert driver.machine.next_deadline_ms() is None
    assert not driver.records
