"""SyncGroup and Heartbeat of classic groups: assignments for members, and their sessions."""

import pytest

from headwater.coordination.groups.classic.commands import SyncResult
from headwater.coordination.groups.classic.events import GenerationStored, StoredMember
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from tests.coordination.groups.classic.driver import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    ClassicDriver,
    protocols,
)


def test_followers_wait_until_the_leader_sends_the_assignments() -> None:
    driver = ClassicDriver().completing("ann", "bob", "cid")
    bob = driver.sync("bob")
    assert driver.is_waiting(bob)

    ann = driver.sync("ann", assignments={"ann": b"1", "bob": b"2", "stranger": b"3"})
    cid = driver.sync("cid")

    assert driver.state is GroupState.STABLE
    assert driver.synced[ann] == SyncResult(ErrorCode.NONE, "consumer", "range", b"1")
    assert driver.synced[bob] == SyncResult(ErrorCode.NONE, "consumer", "range", b"2")
    assert driver.synced[cid].assignment == b"", "the leader forgot about it"


def test_a_generation_with_its_assignments_is_stored() -> None:
    driver = ClassicDriver().completing("ann")

    driver.sync("ann", assignments={"ann": b"1"})

    metadata = RANGE[0].metadata
    ann = MemberId("ann")
    assert driver.durable == [
        GenerationStored(
            GROUP,
            "consumer",
            1,
            "range",
            ann,
            WALL_MS + driver.now_ms,
            [StoredMember(ann, None, "client", "/10.0.0.1", REBALANCE_MS, SESSION_MS, metadata, b"1")],
        )
    ]


def test_a_sync_of_a_stable_group_returns_the_assignment_again() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    events_before = len(driver.log)

    assert driver.synced[driver.sync("bob", protocol="range")].assignment == b"for bob"
    assert len(driver.log) == events_before


def test_a_repeated_sync_ends_the_wait_of_the_older_request() -> None:
    driver = ClassicDriver().completing("ann", "bob")
    first = driver.sync("bob")

    second = driver.sync("bob")

    assert driver.synced[first] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.is_waiting(second)


def test_a_sync_during_a_rebalance_is_told_to_rejoin() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    driver.join("ann")

    assert driver.synced[driver.sync("bob")] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize(
    ("member_id", "generation", "protocol_type", "protocol", "code"),
    [
        ("stranger", 1, None, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("ann", 0, None, None, ErrorCode.ILLEGAL_GENERATION),
        ("ann", 2, None, None, ErrorCode.ILLEGAL_GENERATION),
        ("ann", 1, "connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("ann", 1, "consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
@pytest.mark.parametrize("is_stable", [False, True])
def test_a_sync_that_does_not_fit_the_generation_is_refused(
    member_id: str,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    code: ErrorCode,
    is_stable: bool,
) -> None:
    driver = ClassicDriver()
    driver = driver.stable("ann", "bob") if is_stable else driver.completing("ann", "bob")

    with pytest.raises(Refusal) as refusal:
        driver.sync(member_id, generation, protocol_type=protocol_type, protocol=protocol)

    assert refusal.value.code is code


def test_a_sync_of_an_empty_group_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        ClassicDriver().sync("ann", 0)

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assignment_that_is_too_large_is_refused_and_the_group_waits_on() -> None:
    driver = ClassicDriver(metadata_max_bytes=1024).completing("ann", "bob")
    bob = driver.sync("bob")

    with pytest.raises(Refusal, match=r"headwater\.group\.metadata\.max\.bytes") as refusal:
        driver.sync("ann", assignments={"ann": b"", "bob": b"x" * 1025})

    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert driver.is_waiting(bob)
    driver.sync("ann", assignments={"bob": b"x" * 1024})
    assert len(driver.synced[bob].assignment) == 1024


# -- the end of the phase


def keep_alive(driver: ClassicDriver, *member_ids: str) -> None:
    for _ in range(REBALANCE_MS // 5000):
        for member_id in member_ids:
            driver.heartbeat(member_id)
        driver.advance(5000)


def test_members_that_do_not_sync_in_time_are_removed_and_the_others_rejoin() -> None:
    driver = ClassicDriver().completing("ann", "bob", "cid")
    bob = driver.sync("bob")

    keep_alive(driver, "ann", "bob", "cid")

    assert driver.synced[bob] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.members == ["bob"]
    assert driver.group.roster.leader == "bob"
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_followers_that_do_not_sync_in_time_are_removed_from_a_stable_group_too() -> None:
    driver = ClassicDriver().completing("ann", "bob", "cid")
    driver.sync("cid")
    driver.sync("ann")

    keep_alive(driver, "ann", "bob", "cid")

    assert driver.members == ["ann", "cid"]
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_a_group_in_which_no_member_syncs_ends_empty() -> None:
    driver = ClassicDriver().completing("ann", "bob")

    keep_alive(driver, "ann", "bob")

    assert driver.state is GroupState.EMPTY
    assert driver.generation == 2
    assert len(driver.deadlines) == 0


def test_the_sync_deadline_is_cancelled_when_all_members_have_synced() -> None:
    driver = ClassicDriver().stable("ann", "bob")

    keep_alive(driver, "ann", "bob")

    assert driver.state is GroupState.STABLE
    assert len(driver.deadlines) == 2


def test_a_member_that_waits_in_a_sync_does_not_expire_and_has_a_session_afterwards() -> None:
    driver = ClassicDriver().completing("ann", "bob")
    bob = driver.sync("bob")
    for _ in range(4):
        driver.heartbeat("ann")
        driver.heartbeat("bob")
        driver.advance(SESSION_MS - 1)
    driver.sync("ann", assignments={})
    assert driver.synced[bob].error is ErrorCode.NONE

    driver.heartbeat("ann")
    driver.advance(SESSION_MS - 1)
    driver.heartbeat("ann")
    assert driver.state is GroupState.STABLE
    driver.advance(1)

    assert driver.members == ["ann"]


def test_waiting_followers_are_told_to_rejoin_when_the_leader_leaves() -> None:
    driver = ClassicDriver().completing("ann", "bob")
    bob = driver.sync("bob")

    driver.advance(SESSION_MS)

    assert driver.synced[bob] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.members == ["bob"]
    rejoined = driver.join("bob")
    assert driver.joined[rejoined].leader == "bob"


# -- heartbeats


def test_heartbeats_extend_a_session_and_report_a_rebalance() -> None:
    driver = ClassicDriver().completing("ann", "bob")
    assert driver.heartbeat("ann") is ErrorCode.NONE, "between join and sync"
    driver.sync("ann")
    driver.sync("bob")
    assert driver.heartbeat("bob") is ErrorCode.NONE

    driver.join("ann")

    assert driver.heartbeat("bob") is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("member_id", "generation", "code"),
    [
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("ann", 0, ErrorCode.ILLEGAL_GENERATION),
        ("ann", 2, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_heartbeat_that_does_not_fit_the_generation_is_refused(
    member_id: str, generation: int, code: ErrorCode
) -> None:
    with pytest.raises(Refusal) as refusal:
        ClassicDriver().stable("ann").heartbeat(member_id, generation)

    assert refusal.value.code is code


def test_a_pending_member_cannot_send_heartbeats() -> None:
    driver = ClassicDriver()
    driver.join(new_id="ann", needs_id=True)

    with pytest.raises(Refusal) as refusal:
        driver.heartbeat("ann")

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_silent_for_its_session_is_removed() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    driver.advance(SESSION_MS - 1)
    driver.heartbeat("ann")
    assert driver.members == ["ann", "bob"]

    driver.advance(1)

    assert driver.members == ["ann"]
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_generations_are_numbered_consecutively() -> None:
    driver = ClassicDriver().stable("ann")
    for generation in (2, 3, 4):
        ticket = driver.join("ann", offers=protocols("range", topics=[f"t{generation}"]))
        assert driver.joined[ticket].generation == generation
        driver.sync("ann")

    driver.leave("ann")

    assert driver.generation == 5
    assert [event.generation for event in driver.durable if isinstance(event, GenerationStored)] == [1, 2, 3, 4, 5]
