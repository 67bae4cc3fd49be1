"""The size limit of a classic group."""

from headwater.coordination.groups.classic.commands import JoinResult
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode
from tests.coordination.groups.classic.driver import INITIAL_DELAY_MS, ClassicDriver


def test_a_full_group_refuses_newcomers_and_keeps_its_members() -> None:
    driver = ClassicDriver(max_size=2).stable("ann", "bob")

    refused = driver.join(new_id="cid")
    bob = driver.join("bob")

    assert driver.joined[refused] == JoinResult(NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert driver.joined[bob].error is ErrorCode.NONE
    assert driver.state is GroupState.STABLE


def test_during_a_rebalance_the_first_to_join_are_accepted() -> None:
    driver = ClassicDriver(max_size=2)
    ann, bob, cid = (driver.join(new_id=name) for name in ("ann", "bob", "cid"))
    again = driver.join("ann")

    driver.advance(2 * INITIAL_DELAY_MS)

    assert driver.joined[cid].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.joined[ann].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined[again].error is driver.joined[bob].error is ErrorCode.NONE


def test_a_pending_member_id_does_not_make_room_in_a_full_group() -> None:
    driver = ClassicDriver(max_size=2).stable("ann")
    driver.join(new_id="cid", needs_id=True)
    driver.join(new_id="bob")
    driver.join("ann")

    cid = driver.join("cid")

    assert driver.joined[cid].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.state is GroupState.COMPLETING_REBALANCE, "cid is not waited for any more"


def test_a_group_above_a_lowered_limit_shrinks_to_the_first_to_rejoin() -> None:
    driver = ClassicDriver().stable("ann", "bob", "cid", "dan")
    driver.config = ClassicDriver(max_size=2).config

    loaded = driver.reload()
    assert loaded.state is GroupState.PREPARING_REBALANCE
    tickets = [loaded.join(name) for name in ("dan", "cid", "bob", "ann")]

    assert [loaded.joined[ticket].error for ticket in tickets] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    assert loaded.members == ["cid", "dan"]
    assert loaded.joined[tickets[0]].leader == "cid"
