"""How classic groups lose members, and end."""

import pytest

from headwater.coordination.groups.classic.commands import JoinResult, LeaveResult, SyncResult
from headwater.coordination.groups.classic.events import ClassicGroupForgotten, GenerationStored
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from tests.coordination.groups.classic.driver import GROUP, SESSION_MS, WALL_MS, ClassicDriver

# -- leaving


def test_the_other_members_rejoin_when_a_member_leaves() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    assert driver.leave("ann") == [ErrorCode.NONE]

    assert driver.state is GroupState.PREPARING_REBALANCE
    bob = driver.join("bob")
    assert (driver.joined[bob].leader, driver.joined[bob].generation) == ("bob", 2)


def test_the_last_member_leaves_an_empty_generation() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    assert driver.leave("ann", "bob") == [ErrorCode.NONE, ErrorCode.NONE]

    assert driver.state is GroupState.EMPTY
    assert len(driver.deadlines) == 0
    stored = GenerationStored(GROUP, "consumer", 2, None, None, WALL_MS + driver.now_ms, [])
    assert driver.durable[-1] == stored


def test_a_second_leave_of_a_member_is_refused() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    left = driver.leave_as(("ann", None), ("ann", None), ("stranger", None), (NO_MEMBER, None))

    assert left == [
        LeaveResult(MemberId("ann"), None, ErrorCode.NONE),
        LeaveResult(MemberId("ann"), None, ErrorCode.UNKNOWN_MEMBER_ID),
        LeaveResult(MemberId("stranger"), None, ErrorCode.UNKNOWN_MEMBER_ID),
        LeaveResult(NO_MEMBER, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]


def test_a_leave_of_unknown_members_changes_nothing() -> None:
    driver = ClassicDriver().stable("ann")
    events_before = len(driver.log)

    assert driver.leave("stranger") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert len(driver.log) == events_before


def test_a_pending_member_leaves_without_a_rebalance() -> None:
    driver = ClassicDriver().stable("ann")
    driver.join(new_id="bob", needs_id=True)

    assert driver.leave("bob") == [ErrorCode.NONE]

    assert driver.state is GroupState.STABLE
    assert len(driver.deadlines) == 1


def test_a_pending_member_of_an_empty_group_leaves() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", needs_id=True)

    driver.leave("ann")

    assert driver.state is GroupState.EMPTY
    assert len(driver.deadlines) == 0


def test_the_rebalance_ends_when_the_last_awaited_member_leaves() -> None:
    driver = ClassicDriver().stable("ann", "bob", "cid")
    ann = driver.join("ann")
    driver.join(new_id="dan", needs_id=True)
    cid = driver.join("cid")

    driver.leave("bob", "dan")

    assert driver.joined[ann].generation == driver.joined[cid].generation == 2


def test_the_waiting_request_of_a_leaving_member_is_answered() -> None:
    driver = ClassicDriver().completing("ann", "bob", "cid")
    bob = driver.sync("bob")
    driver.leave("bob")
    assert driver.synced[bob] == SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
    ann = driver.join("ann")

    driver.leave("ann")

    assert driver.joined[ann] == JoinResult(NO_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID)
    assert driver.members == ["cid"]


def test_a_group_whose_last_member_leaves_does_not_wait_for_pending_ids() -> None:
    driver = ClassicDriver().stable("ann")
    driver.join(new_id="bob", needs_id=True)
    driver.leave("ann")

    driver.advance(0)

    assert driver.state is GroupState.EMPTY
    bob = driver.join("bob")
    assert driver.is_waiting(bob), "it is still welcome"


def test_expired_sessions_empty_a_group_as_leaving_does() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    driver.advance(SESSION_MS)

    assert driver.state is GroupState.EMPTY
    assert len(driver.deadlines) == 0


# -- the end of a group


def test_an_empty_group_can_be_deleted() -> None:
    driver = ClassicDriver().stable("ann")
    driver.leave("ann")
    driver.join(new_id="bob", needs_id=True)

    events = driver.group.decide_delete()
    assert events == [ClassicGroupForgotten(GROUP)]
    driver.group.apply(events[0])

    assert driver.state is GroupState.DEAD
    assert len(driver.deadlines) == 0


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE])
def test_a_group_with_members_cannot_be_deleted(state: GroupState) -> None:
    driver = ClassicDriver().completing("ann")
    if state is not GroupState.COMPLETING_REBALANCE:
        driver.sync("ann")
    if state is GroupState.PREPARING_REBALANCE:
        driver.join(new_id="bob")
    assert driver.state is state

    with pytest.raises(Refusal, match="stop its consumers") as refusal:
        driver.group.decide_delete()

    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP


def dead() -> ClassicDriver:
    driver = ClassicDriver()
    driver.group.apply(ClassicGroupForgotten(GROUP))
    return driver


def test_a_dead_group_sends_its_members_to_look_for_the_coordinator() -> None:
    driver = dead()

    for attempt in (
        driver.join,
        lambda: driver.join("ann"),
        lambda: driver.sync("ann"),
        lambda: driver.heartbeat("ann"),
        lambda: driver.leave("ann"),
        lambda: driver.commit("ann", 1),
    ):
        with pytest.raises(Refusal) as refusal:
            attempt()
        assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Refusal) as refusal:
        driver.group.decide_delete()
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_dissolved_group_answers_all_waiting_requests() -> None:
    joining = ClassicDriver().stable("ann", "bob")
    ann = joining.join("ann")
    syncing = ClassicDriver().completing("ann", "bob")
    bob = syncing.sync("bob")

    for driver in (joining, syncing):
        driver.perform(lambda driver=driver: driver.group.decide_dissolve(ErrorCode.REBALANCE_IN_PROGRESS, driver.now))
        assert driver.state is GroupState.DEAD
        assert len(driver.deadlines) == 0

    assert joining.joined[ann] == JoinResult(MemberId("ann"), ErrorCode.REBALANCE_IN_PROGRESS)
    assert syncing.synced[bob] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_rebalance_can_be_requested_by_the_broker() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    driver.perform(lambda: driver.group.decide_rebalance(driver.now))

    assert driver.state is GroupState.PREPARING_REBALANCE
