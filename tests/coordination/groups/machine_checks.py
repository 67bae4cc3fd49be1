"""Invariants of every group machine, and the state that a log must rebuild."""

from itertools import chain

from headwater.coordination.groups.consumer.group import ConsumerGroup
from tests.coordination.groups.group_checks import check_owners
from tests.coordination.groups.machine_driver import MachineDriver


def check_all_owners(driver: MachineDriver) -> None:
    for group in driver.machine.groups.values():
        if isinstance(group, ConsumerGroup):
            check_owners(group)


def check_offsets_have_groups(driver: MachineDriver) -> None:
    assert {group_id for group_id, _, _ in chain(driver.offsets(), driver.pending())} <= driver.machine.groups.keys()


def check_rebuilt(rebuilt: MachineDriver, live: MachineDriver) -> None:
    assert rebuilt.offsets() == live.offsets()
    assert rebuilt.pending() == live.pending()
    check_offsets_have_groups(rebuilt)
    known = rebuilt.durable()
    for group_id, view in live.durable().items():
        assert known[group_id] == view
    # Whatever else it knows, a group in which members are joining, was there before they began.
    for group_id in known:
        assert group_id in live.machine.groups
