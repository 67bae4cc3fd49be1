"""What share-partitions decide, case by case."""

from collections.abc import Sequence

import pytest

from headwater.coordination.shares.commands import Acknowledged, RecordsAvailable
from headwater.coordination.shares.events import ShareSnapshotStored, ShareUpdated, StateBatch
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.terms import DeliveryState, SharePartitionId
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, TopicId
from tests.coordination.shares.driver import (
    ACCEPT,
    ANN,
    BOB,
    GAP,
    LOCK_MS,
    ORDERS,
    REJECT,
    RELEASE,
    RENEW,
    Driver,
)


def refusal_of(driver: Driver, *acknowledge: tuple[int, int, int | Sequence[int]]) -> ErrorCode:
    before = driver.states()
    with pytest.raises(Refusal) as refused:
        driver.acknowledge(ANN, *acknowledge)
    assert driver.states() == before, "all of the ranges count, or none does"
    return refused.value.code


# -- acquisition


def test_records_are_given_to_one_member_at_a_time() -> None:
    driver = Driver()
    assert driver.acquire(ANN, (0, 9)) == [(0, 9, 1)]
    assert driver.acquire(BOB, (0, 9), (10, 19)) == [(10, 19, 1)]
    assert driver.acquire(BOB, (0, 9), (10, 19)) == []
    assert driver.share.next_fetch_offset == 20


def test_a_batch_is_taken_whole_unless_the_member_wants_no_more_than_it_asked_for() -> None:
    assert Driver().acquire(ANN, (0, 9), (10, 19), (20, 29), records_max=11) == [(0, 19, 1)]
    assert Driver().acquire(ANN, (0, 9), (10, 19), (20, 29), records_max=11, is_strict=True) == [(0, 10, 1)]


def test_a_strict_limit_that_is_reached_by_what_is_left_of_a_batch_ends_there() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9), records_max=3, is_strict=True)
    driver.acknowledge(ANN, (0, 2, RELEASE))
    assert driver.acquire(ANN, (0, 9), records_max=3, is_strict=True) == [(0, 2, 2)]


def test_the_limit_of_locks_ends_an_acquisition() -> None:
    driver = Driver(ShareLimits(locks_max=15))
    assert driver.acquire(ANN, (0, 9), (10, 19), (20, 29)) == [(0, 19, 1)]
    assert not driver.share.has_room(15)
    assert driver.acquire(BOB, (20, 29)) == []
    driver.acknowledge(ANN, (3, 12, ACCEPT))
    assert driver.share.has_room(15), "what is done with takes no room, wherever it is"
    assert driver.acquire(BOB, (20, 29), is_strict=True) == [(20, 24, 1)]


def test_released_records_are_acquired_again_though_the_limit_of_locks_is_reached() -> None:
    driver = Driver(ShareLimits(locks_max=10))
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (4, 5, RELEASE))
    assert driver.share.has_room(10)
    assert driver.share.next_fetch_offset == 4
    assert driver.acquire(BOB, (0, 9), (10, 19)) == [(4, 5, 2)]


def test_offsets_without_a_record_to_deliver_are_passed_over_and_done_with() -> None:
    driver = Driver()
    assert driver.acquire(ANN, (0, 4), (5, 6, False), (7, 9)) == [(0, 4, 1), (7, 9, 1)]
    driver.acknowledge(ANN, (0, 4, ACCEPT), (7, 9, ACCEPT))
    assert driver.share.runs.start == 10


def test_neighbours_with_different_delivery_counts_are_told_apart() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (0, 1, ACCEPT), (2, 4, RELEASE))
    assert driver.acquire(BOB, (0, 9), (10, 12)) == [(2, 4, 2), (10, 12, 1)]
    driver.release_all(ANN)
    driver.release_all(BOB)
    assert driver.acquire(BOB, (0, 9), (10, 12)) == [(2, 4, 3), (5, 12, 2)]


def test_after_the_limit_was_lowered_a_record_is_not_delivered_above_it() -> None:
    driver = Driver(ShareLimits(delivery_count_max=5))
    for _ in range(3):
        driver.acquire(ANN, (0, 0))
        driver.acknowledge(ANN, (0, 0, RELEASE))
    driver.limits = ShareLimits(delivery_count_max=2)
    assert driver.acquire(ANN, (0, 0), (1, 1)) == [(1, 1, 1)]
    assert driver.share.runs.start == 1
    driver.restart()
    assert driver.share.runs.start == 1


# -- acknowledgement


def test_accepted_records_are_done_with_and_the_start_moves_past_them() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    assert driver.acknowledge(ANN, (2, 5, ACCEPT)) == Acknowledged(accepted=4)
    assert driver.share.runs.start == 0
    assert driver.acknowledge(ANN, (0, 1, ACCEPT)) == Acknowledged(accepted=2)
    assert driver.share.runs.start == 6
    assert driver.log[-1] == ShareUpdated(ORDERS, 0, 0, 6, 0, []), "what is before the start needs no batch"


def test_types_may_be_given_one_by_one() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 5))
    result = driver.acknowledge(ANN, (0, 5, [ACCEPT, REJECT, RELEASE, RELEASE, GAP, RENEW]))
    assert result == Acknowledged(accepted=1, rejected=1, released=2, renewed=1)
    assert driver.states() == {2: ("AVAILABLE", 1), 3: ("AVAILABLE", 1), 4: ("ARCHIVED", 1), 5: ("ACQUIRED", 1)}


def test_a_record_that_was_released_on_its_last_attempt_leaves_the_queue() -> None:
    driver = Driver(ShareLimits(delivery_count_max=2))
    driver.acquire(ANN, (0, 1))
    assert driver.acknowledge(ANN, (0, 0, RELEASE)) == Acknowledged(released=1)
    assert driver.acquire(BOB, (0, 1)) == [(0, 0, 2)]
    result = driver.run(
        lambda: driver.machine.decide_acknowledge(ORDERS, BOB, [(0, 0, RELEASE)], driver.now)  # pyright: ignore[reportArgumentType]
    )
    assert result == Acknowledged(released=1, exhausted=1)
    assert driver.share.runs.start == 1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ([(0, 10, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([(20, 29, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 1 << 62, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 1, ACCEPT), (10, 10, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([(1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(-1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 2, ACCEPT), (2, 3, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([(2, 3, ACCEPT), (0, 1, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, 5)], ErrorCode.INVALID_REQUEST),
        ([(0, 2, -1)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing(
    asked: Sequence[tuple[int, int, int | Sequence[int]]], code: ErrorCode
) -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.acquire(BOB, (10, 19))
    assert refusal_of(driver, *asked) is code


def test_a_member_that_lost_its_lock_cannot_acknowledge() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 4), (5, 9))
    driver.advance(LOCK_MS)
    driver.acquire(BOB, (0, 4))
    assert refusal_of(driver, (0, 4, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert refusal_of(driver, (5, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert driver.acknowledge(BOB, (0, 4, ACCEPT)) == Acknowledged(accepted=5)


def test_a_gap_may_be_acknowledged_where_the_broker_had_found_it() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 4), (5, 6, False), (7, 9))
    driver.acknowledge(ANN, (0, 9, [ACCEPT] * 5 + [GAP] * 2 + [ACCEPT] * 3))
    assert driver.share.runs.start == 10


# -- time


def test_a_lock_that_runs_out_makes_records_available_again() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.advance(LOCK_MS - 1)
    assert driver.acquire(BOB, (0, 9)) == []
    driver.advance(1)
    assert driver.effects[-1] == RecordsAvailable(ORDERS, expired=10)
    assert driver.acquire(BOB, (0, 9)) == [(0, 9, 2)]


def test_locks_of_different_times_run_out_one_after_the_other() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 4))
    driver.advance(10)
    driver.acquire(ANN, (5, 9))
    driver.advance(LOCK_MS - 10)
    assert driver.states()[0] == ("AVAILABLE", 1)
    assert driver.states()[5] == ("ACQUIRED", 1)
    driver.advance(10)
    assert driver.states()[5] == ("AVAILABLE", 1)
    assert driver.machine.next_deadline_ms() is None


def test_a_renewed_lock_runs_out_later() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.advance(LOCK_MS - 1)
    assert driver.acknowledge(ANN, (0, 4, RENEW)) == Acknowledged(renewed=5)
    driver.advance(LOCK_MS - 1)
    assert driver.acquire(BOB, (0, 9)) == [(5, 9, 2)]
    assert driver.acknowledge(ANN, (0, 4, ACCEPT)) == Acknowledged(accepted=5)


def test_the_last_lock_that_runs_out_takes_the_record_out_of_the_queue() -> None:
    driver = Driver(ShareLimits(delivery_count_max=2, lock_duration_ms=LOCK_MS))
    for count in (1, 2):
        assert driver.acquire(ANN, (0, 9)) == [(0, 9, count)]
        driver.advance(LOCK_MS)
    assert driver.effects[-1] == RecordsAvailable(ORDERS, expired=10, exhausted=10)
    assert driver.share.runs.start == 10


def test_a_member_that_leaves_gives_its_records_back_and_the_delivery_counts() -> None:
    driver = Driver(ShareLimits(delivery_count_max=2))
    driver.acquire(ANN, (0, 4))
    driver.acquire(BOB, (5, 9))
    driver.release_all(ANN)
    assert driver.acquire(BOB, (0, 4), (5, 9)) == [(0, 4, 2)]
    driver.release_all(BOB)
    assert driver.effects[-1] == RecordsAvailable(ORDERS, exhausted=5), "it was the last attempt"
    driver.restart()
    assert driver.acquire(ANN, (0, 4), (5, 9)) == [(5, 9, 2)]


# -- retries with back-off

BACKOFF = ShareLimits(lock_duration_ms=LOCK_MS, backoff_ms=1000, backoff_factor=3, backoff_max_ms=5000)


def test_a_record_that_was_given_back_waits_the_longer_the_more_often_it_was_delivered() -> None:
    driver = Driver(BACKOFF)
    for count, wait_ms in ((1, 1000), (2, 3000), (3, 5000), (4, 5000)):
        assert driver.acquire(ANN, (0, 0)) == [(0, 0, count)]
        driver.acknowledge(ANN, (0, 0, RELEASE))
        driver.effects.clear()
        driver.advance(wait_ms - 1)
        assert driver.acquire(BOB, (0, 0)) == []
        driver.advance(1)
        assert driver.effects == [RecordsAvailable(ORDERS)], "a fetch that waits is woken"
    assert driver.machine.next_deadline_ms() is None


def test_a_record_that_waits_does_not_hold_up_the_others() -> None:
    driver = Driver(BACKOFF)
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (3, 4, RELEASE), (5, 9, ACCEPT))
    assert driver.share.status().acquired_count == 3
    assert driver.share.next_fetch_offset == 10
    assert driver.acquire(BOB, (0, 9), (10, 12)) == [(10, 12, 1)]


def test_a_lost_lock_makes_a_record_wait_too_and_locks_still_end() -> None:
    driver = Driver(BACKOFF)
    driver.acquire(ANN, (0, 1))
    driver.advance(500)
    driver.acquire(ANN, (2, 3))
    driver.advance(LOCK_MS - 500)
    assert driver.states() == {0: ("WAITING", 1), 1: ("WAITING", 1), 2: ("ACQUIRED", 1), 3: ("ACQUIRED", 1)}
    driver.advance(500)
    assert driver.states()[2] == ("WAITING", 1)
    driver.advance(500)
    assert driver.acquire(BOB, (0, 3)) == [(0, 1, 2)]


def test_a_restart_ends_every_wait() -> None:
    driver = Driver(BACKOFF)
    driver.acquire(ANN, (0, 3))
    driver.acknowledge(ANN, (0, 3, RELEASE))
    driver.run(lambda: driver.machine.decide_snapshots(driver.now))
    driver.restart(driver.log[-1:])
    assert driver.acquire(BOB, (0, 3)) == [(0, 3, 2)]


def test_a_waiting_record_cannot_be_acknowledged() -> None:
    driver = Driver(BACKOFF)
    driver.acquire(ANN, (0, 3))
    driver.acknowledge(ANN, (0, 3, RELEASE))
    assert refusal_of(driver, (0, 3, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


# -- the log


def test_a_restart_ends_acquisitions_and_keeps_all_else() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9), (10, 19))
    driver.acknowledge(ANN, (3, 3, ACCEPT), (5, 5, REJECT), (7, 7, RELEASE))
    driver.restart()
    assert driver.states() == {
        **dict.fromkeys(range(8), ("AVAILABLE", 0)),
        3: ("ACKNOWLEDGED", 1),
        5: ("ARCHIVED", 1),
        7: ("AVAILABLE", 1),
    }
    assert driver.acquire(BOB, (0, 9), (10, 19)) == [(0, 2, 1), (4, 4, 1), (6, 6, 1), (7, 7, 2), (8, 19, 1)]


def test_the_whole_state_is_written_after_so_many_updates() -> None:
    driver = Driver(ShareLimits(updates_per_snapshot=3))
    driver.acquire(ANN, (0, 9))
    for offset in (1, 3, 5, 7):
        driver.acknowledge(ANN, (offset, offset, ACCEPT))
    kinds = [type(event) for event in driver.log]
    assert kinds == [ShareSnapshotStored, ShareUpdated, ShareUpdated, ShareUpdated, ShareSnapshotStored, ShareUpdated]
    snapshot = driver.log[4]
    assert isinstance(snapshot, ShareSnapshotStored)
    assert snapshot.batches == [StateBatch(offset, offset, DeliveryState.ACKNOWLEDGED, 1) for offset in (1, 3, 5)]
    assert (snapshot.snapshot_epoch, snapshot.start_offset, snapshot.complete_count) == (1, 0, 3)

    whole = driver.log
    driver.restart(whole[4:])
    from_snapshot = driver.states()
    driver.restart(whole)
    assert from_snapshot == driver.states()


def test_a_snapshot_leaves_acquisitions_as_they_are() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (4, 4, RELEASE))
    driver.acquire(BOB, (0, 9))
    driver.run(lambda: driver.machine.decide_snapshots(driver.now))
    assert driver.states()[4] == ("ACQUIRED", 2)
    driver.restart(driver.log[-1:])
    assert driver.states() == {**dict.fromkeys(range(4), ("AVAILABLE", 0)), 4: ("AVAILABLE", 1)}


@pytest.mark.parametrize(
    ("end_offset", "start", "states"),
    [
        (10, 2, {2: ("AVAILABLE", 0), 3: ("ARCHIVED", 1), **dict.fromkeys(range(4, 9), ("AVAILABLE", 0))}),
        (4, 2, {2: ("AVAILABLE", 0), 3: ("ARCHIVED", 1)}),
        (2, 2, {}),
        (1, 1, {}),
        (0, 0, {}),
    ],
)
def test_what_was_acknowledged_of_records_that_the_log_lost_is_forgotten(
    end_offset: int, start: int, states: dict[int, tuple[str, int]]
) -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (0, 1, ACCEPT), (3, 3, REJECT), (9, 9, ACCEPT))
    driver.restart()
    before = driver.states()
    driver.run(lambda: driver.machine.decide_leader_epoch(ORDERS, 1, end_offset, driver.now))
    for _ in range(2):
        assert driver.share.leader_epoch == 1
        assert driver.share.runs.start == start
        if end_offset == 10:
            assert driver.states() == before
        else:
            known = {each: state for each, state in driver.states().items() if state != ("AVAILABLE", 0)}
            assert known == {each: state for each, state in states.items() if state != ("AVAILABLE", 0)}
            assert driver.share.runs.end <= end_offset
        driver.restart()
    driver.run(lambda: driver.machine.decide_leader_epoch(ORDERS, 1, 0, driver.now))
    assert driver.share.runs.start == start, "the epoch is known"


def test_an_administrator_moves_the_start_and_all_else_is_forgotten() -> None:
    driver = Driver(start_offset=50)
    driver.acquire(ANN, (50, 59))
    driver.acknowledge(ANN, (55, 59, ACCEPT))
    for offset in (7, 70):
        driver.run(lambda offset=offset: driver.machine.decide_restart(ORDERS, offset, 0, driver.now))
        assert (driver.share.runs.start, driver.states()) == (offset, {})
        assert driver.machine.next_deadline_ms() is None
        driver.restart()
        assert (driver.share.runs.start, driver.states()) == (offset, {})


def test_a_late_acknowledgement_is_refused_also_when_the_start_has_moved_past_it() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.advance(ShareLimits().lock_duration_ms)
    driver.acquire(BOB, (0, 9), (10, 19))
    driver.acknowledge(BOB, (0, 9, ACCEPT))
    assert driver.share.runs.start == 10
    for kind in (ACCEPT, RELEASE, REJECT):
        with pytest.raises(Refusal) as refused:
            driver.acknowledge(ANN, (0, 9, kind))
        assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


def test_records_that_were_deleted_from_the_log_are_gone_for_their_holders_too() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9), (10, 19))
    driver.acknowledge(ANN, (4, 4, ACCEPT), (15, 15, ACCEPT))
    driver.run(lambda: driver.machine.decide_log_start(ORDERS, 12))
    assert driver.share.runs.start == 12
    assert driver.share.status().complete_count == 1
    assert driver.acknowledge(ANN, (0, 14, ACCEPT)) == Acknowledged(accepted=3)
    driver.restart()
    assert driver.share.runs.start == 16


def test_what_is_forgotten_stays_forgotten() -> None:
    driver = Driver()
    other = SharePartitionId(GroupId("shipping"), ORDERS.topic_id, 0)
    driver.begin(0, other)
    driver.acquire(ANN, (0, 9))
    driver.forget(lambda share_id: share_id.group_id == ORDERS.group_id)
    assert [*driver.machine.partitions] == [other]
    assert driver.machine.next_deadline_ms() is None
    driver.restart()
    assert [*driver.machine.partitions] == [other]
    driver.topics.clear()
    driver.restart()
    assert driver.machine.partitions == {}, "the topic was deleted just before the crash"


def test_updates_without_their_snapshot_begin_nothing() -> None:
    driver = Driver()
    driver.acquire(ANN, (0, 9))
    driver.acknowledge(ANN, (0, 9, ACCEPT))
    driver.restart(driver.log[1:])
    assert driver.machine.partitions == {}


def test_the_name_of_the_state_is_as_kafka_writes_it() -> None:
    from uuid import UUID

    topic_id = TopicId(UUID("9bd8b2c4-6c33-4ec1-a4a4-6a6e1c8d3f10"))
    assert SharePartitionId(GroupId("billing"), topic_id, 3).coordinator_key == "billing:m9iyxGwzTsGkpGpuHI0_EA:3"
