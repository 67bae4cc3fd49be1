"""JoinGroup of classic groups: permission to join, beginning and end of a rebalance, choice of leader and protocol."""

import pytest

from headwater.coordination.groups.classic.commands import JoinedMember, JoinResult
from headwater.coordination.groups.classic.events import MemberAwaited, SupportedProtocol
from headwater.coordination.groups.classic.join import AWAITED_MAX, NEWCOMER_TIMEOUT_MS
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from tests.coordination.groups.classic.driver import (
    GROUP,
    INITIAL_DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    protocols,
)

# -- refusals that do not depend on the group


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_a_session_time_out_beyond_the_bounds_is_refused(session_ms: int) -> None:
    with pytest.raises(Refusal, match=r"group\.min\.session\.timeout\.ms") as refusal:
        ClassicDriver().join(session_ms=session_ms)

    assert refusal.value.code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_protocols_that_are_too_large_together_are_refused() -> None:
    driver = ClassicDriver(metadata_max_bytes=1024)
    driver.join(offers=[SupportedProtocol("range", b"x" * 1019)])

    with pytest.raises(Refusal, match=r"headwater\.group\.metadata\.max\.bytes") as refusal:
        driver.join(offers=[SupportedProtocol("range", b"x" * 600), SupportedProtocol("sticky", b"x" * 600)])

    assert refusal.value.code is ErrorCode.INVALID_REQUEST


# -- member ids


def test_a_dynamic_member_without_id_gets_one_to_join_with() -> None:
    driver = ClassicDriver()

    asked = driver.join(new_id="ann", needs_id=True)
    joined = driver.join("ann")

    assert driver.joined[asked] == JoinResult(MemberId("ann"), ErrorCode.MEMBER_ID_REQUIRED)
    assert driver.is_waiting(joined)
    assert driver.members == ["ann"]


def test_a_pending_id_expires_after_its_session_time_out() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", needs_id=True)

    driver.advance(SESSION_MS)

    assert len(driver.deadlines) == 0
    with pytest.raises(Refusal) as refusal:
        driver.join("ann")
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_number_of_pending_ids_is_bounded() -> None:
    driver = ClassicDriver()
    for number in range(AWAITED_MAX):
        driver.group.apply(MemberAwaited(GROUP, MemberId(f"m{number}"), SESSION_MS))

    with pytest.raises(Refusal) as refusal:
        driver.join(new_id="ann", needs_id=True)
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the client tries again"

    driver.join("m7")
    driver.join(new_id="ann", needs_id=True)


def test_a_static_member_cannot_join_with_a_pending_id() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", needs_id=True)

    with pytest.raises(Refusal) as refusal:
        driver.join("ann", instance="i-ann")

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("member_ids", [(), ("ann",)])
def test_an_unknown_member_is_refused(member_ids: tuple[str, ...]) -> None:
    driver = ClassicDriver()
    if member_ids:
        driver.stable(*member_ids)

    with pytest.raises(Refusal, match="without a member id") as refusal:
        driver.join("stranger")

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_waits_for_pending_members() -> None:
    driver = ClassicDriver().stable("ann")
    driver.join(new_id="bob", needs_id=True)
    ann = driver.join("ann")
    assert driver.is_waiting(ann), "bob is expected"

    bob = driver.join("bob")

    assert driver.joined[ann].generation == driver.joined[bob].generation == 2


def test_the_rebalance_ends_when_a_pending_member_expires() -> None:
    driver = ClassicDriver().stable("ann")
    driver.join(new_id="bob", needs_id=True)
    ann = driver.join("ann")

    driver.advance(SESSION_MS)

    assert driver.joined[ann].generation == 2


# -- protocols


@pytest.mark.parametrize(
    ("protocol_type", "offers"),
    [("", RANGE), ("consumer", []), ("connect", RANGE), ("consumer", protocols("sticky"))],
)
def test_a_join_without_a_common_protocol_is_refused(protocol_type: str, offers: list[SupportedProtocol]) -> None:
    for member_id in (NO_MEMBER, "ann"):
        with pytest.raises(Refusal) as refusal:
            ClassicDriver().stable("ann", "bob").join(member_id, protocol_type=protocol_type, offers=offers)
        assert refusal.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("protocol_type", "offers"), [("", RANGE), ("consumer", [])])
def test_a_first_member_without_protocols_is_refused(protocol_type: str, offers: list[SupportedProtocol]) -> None:
    with pytest.raises(Refusal) as refusal:
        ClassicDriver().join(protocol_type=protocol_type, offers=offers)

    assert refusal.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_change_its_protocol_type() -> None:
    driver = ClassicDriver().stable("ann")
    driver.leave("ann")

    driver.join(new_id="bob", protocol_type="connect", offers=protocols("eager"))

    assert driver.group.protocol_type == "connect"


def test_the_common_protocol_with_the_most_votes_is_selected() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", offers=protocols("best-of-ann", "range", "sticky"))
    driver.join(new_id="bob", offers=protocols("sticky", "range"))
    cid = driver.join(new_id="cid", offers=protocols("sticky", "range", "best-of-cid"))

    driver.advance(2 * INITIAL_DELAY_MS)

    assert driver.joined[cid].protocol == "sticky"


def test_a_protocol_named_twice_by_a_member_counts_once() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", offers=[*protocols("sticky", topics=["a"]), *protocols("sticky", topics=["b"]), *RANGE])
    driver.join(new_id="bob", offers=RANGE)

    driver.advance(2 * INITIAL_DELAY_MS)

    assert driver.group.roster.protocol == "range"
    assert driver.group.roster.members[MemberId("ann")].protocols == (
        *protocols("sticky", topics=["a"]),
        *RANGE,
    )


def test_protocols_that_no_member_supports_any_more_are_forgotten() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    for round_ in range(5):
        driver.join("ann", offers=[*RANGE, *protocols(f"passing-{round_}")])
    driver.leave("bob")

    assert set(driver.group.roster.supporters) == {"range", "passing-4"}


# -- the first rebalance


def test_the_first_rebalance_waits_for_more_members_and_begins_a_generation() -> None:
    driver = ClassicDriver()
    ann = driver.join(new_id="ann")
    assert driver.state is GroupState.PREPARING_REBALANCE
    driver.advance(INITIAL_DELAY_MS - 1)
    assert driver.is_waiting(ann)

    driver.advance(1)

    assert driver.state is GroupState.COMPLETING_REBALANCE
    metadata = RANGE[0].metadata
    assert driver.joined[ann] == JoinResult(
        member_id=MemberId("ann"),
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader=MemberId("ann"),
        members=[JoinedMember(MemberId("ann"), None, metadata)],
    )


def test_the_first_rebalance_is_prolonged_while_members_join() -> None:
    driver = ClassicDriver()
    ann = driver.join(new_id="ann")
    driver.advance(INITIAL_DELAY_MS - 1)
    bob = driver.join(new_id="bob")
    driver.advance(INITIAL_DELAY_MS)
    assert driver.is_waiting(ann)

    driver.advance(1)

    assert [m.member_id for m in driver.joined[ann].members] == ["ann", "bob"]
    assert driver.joined[bob].members == (), "only the leader is told of the others"
    assert driver.joined[bob].leader == "ann"


def test_the_first_rebalance_is_not_prolonged_beyond_the_rebalance_time_out() -> None:
    driver = ClassicDriver()
    ann = driver.join(new_id="ann", rebalance_ms=10_000)
    for second in range(9):
        driver.advance(1000)
        driver.join(new_id=f"m{second}", rebalance_ms=10_000)
        assert driver.is_waiting(ann)

    driver.advance(1000)

    assert len(driver.joined[ann].members) == 10


def test_a_rebalance_time_out_shorter_than_the_initial_delay_does_not_shorten_it() -> None:
    driver = ClassicDriver()
    ann = driver.join(new_id="ann", rebalance_ms=-1)
    driver.advance(INITIAL_DELAY_MS - 1)
    assert driver.is_waiting(ann)

    driver.advance(1)

    assert driver.joined[ann].generation == 1


def test_without_an_initial_delay_a_group_begins_at_once() -> None:
    driver = ClassicDriver(initial_delay_ms=0)
    ann = driver.join(new_id="ann")

    driver.advance(0)

    assert driver.joined[ann].generation == 1


def test_a_group_left_by_all_members_during_the_initial_delay_ends_empty() -> None:
    driver = ClassicDriver()
    ann = driver.join(new_id="ann")
    driver.leave("ann")
    assert driver.joined[ann] == JoinResult(NO_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID)
    assert driver.state is GroupState.PREPARING_REBALANCE

    driver.advance(INITIAL_DELAY_MS)

    assert driver.state is GroupState.EMPTY
    assert len(driver.deadlines) == 0


# -- joining again


def test_an_unchanged_member_that_rejoins_before_the_assignment_gets_the_generation() -> None:
    driver = ClassicDriver().completing("ann", "bob")

    ann, bob = driver.join("ann"), driver.join("bob")

    assert [m.member_id for m in driver.joined[ann].members] == ["ann", "bob"]
    assert driver.joined[bob].generation == 1
    assert driver.joined[bob].members == ()
    assert driver.state is GroupState.COMPLETING_REBALANCE


def test_a_changed_member_that_rejoins_before_the_assignment_begins_a_rebalance() -> None:
    driver = ClassicDriver().completing("ann", "bob")
    syncing = driver.sync("bob")

    bob = driver.join("bob", offers=protocols("range", topics=["other"]))

    assert driver.synced[syncing].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state is GroupState.PREPARING_REBALANCE
    for _ in range(2):
        assert driver.heartbeat("ann") is ErrorCode.REBALANCE_IN_PROGRESS
        driver.advance(SESSION_MS - 1)
    assert driver.is_waiting(bob), "it waits, so it cannot be lost"


def test_an_unchanged_follower_that_rejoins_a_stable_group_gets_the_generation() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    bob = driver.join("bob")

    assert driver.joined[bob] == JoinResult(MemberId("bob"), ErrorCode.NONE, 1, "consumer", "range", MemberId("ann"))
    assert driver.state is GroupState.STABLE


@pytest.mark.parametrize(
    ("member_id", "offers"), [("ann", RANGE), ("bob", protocols("range", topics=["orders", "more"]))]
)
def test_the_leader_or_a_changed_follower_that_rejoins_begins_a_rebalance(
    member_id: str, offers: list[SupportedProtocol]
) -> None:
    driver = ClassicDriver().stable("ann", "bob")

    ticket = driver.join(member_id, offers=offers)

    assert driver.state is GroupState.PREPARING_REBALANCE
    assert driver.is_waiting(ticket)


def test_a_rebalance_ends_as_soon_as_all_members_have_rejoined() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    ann, cid = driver.join("ann"), driver.join(new_id="cid")

    bob = driver.join("bob", session_ms=20_000)

    assert {driver.joined[ticket].generation for ticket in (ann, bob, cid)} == {2}
    assert driver.group.roster.members[MemberId("bob")].session_timeout_ms == 20_000
    assert driver.state is GroupState.COMPLETING_REBALANCE


def test_a_repeated_join_ends_the_wait_of_the_older_request() -> None:
    driver = ClassicDriver()
    first = driver.join(new_id="ann")

    second = driver.join("ann")
    driver.advance(INITIAL_DELAY_MS)

    assert driver.joined[first] == JoinResult(MemberId("ann"), ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.joined[second].generation == 1


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    driver = ClassicDriver().stable("ann", "bob", "cid")
    bob = driver.join("bob", offers=protocols("range", topics=["more"]))
    for _ in range(REBALANCE_MS // 5000):
        assert driver.is_waiting(bob)
        assert driver.heartbeat("ann") is driver.heartbeat("cid") is ErrorCode.REBALANCE_IN_PROGRESS
        driver.advance(5000)

    assert driver.members == ["bob"]
    assert driver.joined[bob].leader == "bob", "the leader did not join again, so there is another"
    assert [m.member_id for m in driver.joined[bob].members] == ["bob"]


def test_a_member_that_waits_in_a_join_does_not_expire() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    ann = driver.join("ann")
    for _ in range(9):
        driver.advance(SESSION_MS // 2)
        driver.heartbeat("bob")
    assert driver.is_waiting(ann)

    driver.heartbeat("ann")
    driver.advance(REBALANCE_MS)

    assert driver.joined[ann].error is ErrorCode.NONE


def test_a_new_member_that_waits_for_too_long_is_removed() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    driver.join("ann", rebalance_ms=2 * NEWCOMER_TIMEOUT_MS)
    cid = driver.join(new_id="cid")
    driver.join("cid")
    for _ in range(NEWCOMER_TIMEOUT_MS // 5000):
        assert "cid" in driver.members
        driver.heartbeat("bob")
        driver.advance(5000)

    assert driver.joined[cid].error is ErrorCode.REBALANCE_IN_PROGRESS, "it asked twice"
    assert "cid" not in driver.members
