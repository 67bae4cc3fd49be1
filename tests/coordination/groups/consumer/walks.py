"""Shared by tests of member life cycles: refusals that change nothing, and heartbeats until the group is stable."""

import pytest

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.consumer.commands import MemberAnswer, MemberHeartbeat
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from tests.support.coordination.consumer_driver import Driver, heartbeat


def refused(driver: Driver, request: MemberHeartbeat) -> ErrorCode:
    before = (dict(driver.group.roster.members), driver.group.roster.epoch)
    with pytest.raises(Refusal) as error:
        driver.heartbeat(request)
    assert (driver.group.roster.members, driver.group.roster.epoch) == before
    return error.value.code


def count(assignment: Assignment | None) -> int:
    assert assignment is not None
    return sum(map(len, assignment.values()))


def settle(driver: Driver, *member_ids: str) -> dict[str, MemberAnswer]:
    """All members follow their assignments until nothing changes any more."""
    membership = driver.group.roster
    answers: dict[str, MemberAnswer] = {}
    for _ in range(10):
        for member_id in member_ids:
            current = membership.members[MemberId(member_id)].current
            answers[member_id] = driver.heartbeat(heartbeat(member_id, current.epoch, owned=current.assigned))
        if driver.group.state is GroupState.STABLE:
            return answers
    raise AssertionError("the group did not settle")
