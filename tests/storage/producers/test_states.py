"""The states of a partition's idempotent producers."""

from pathlib import Path

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import Marker
from headwater.protocol.batches.records import Record
from headwater.storage.producers import snapshot_format
from headwater.storage.producers import states as producers_module
from headwater.storage.producers.snapshot_format import DamagedSnapshot
from headwater.storage.producers.states import ProducerStates
from tests.storage.producers.producer_batches import SEQUENCE_MAX, batch, refusal, states
from tests.support.storage.builders import NOW_MS, create, flush, numbered, produced, reopen
from tests.support.storage.transactions import stable


def test_a_batch_without_a_producer_leaves_no_state() -> None:
    producers = ProducerStates()
    producers.update(numbered(0)[0], NOW_MS)
    assert len(producers) == 0


def test_replaying_a_batch_with_an_invalid_producer_id_leaves_no_state(tmp_path: Path) -> None:
    log = create(tmp_path)
    log.append([numbered(0, producer_id=-2, producer_epoch=0, base_sequence=0, transactional=True)], NOW_MS)
    again = reopen(log)
    assert (len(again.producers), stable(again)) == (0, 1)


def test_an_unknown_producer_may_begin_at_any_sequence() -> None:
    assert ProducerStates().check(batch(500)) is None


def test_sequences_must_follow_each_other() -> None:
    producers = states(batch(0, count=3), batch(3, 3))
    assert producers.check(batch(4, 4)) is None
    assert refusal(producers, batch(5, 4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, batch(3, 4, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_newest_five_batches_are_recognised_with_their_offsets() -> None:
    producers = states(*(batch(2 * n, 10 * n, count=2) for n in range(8)))
    for n in range(3, 8):
        duplicate = producers.check(batch(2 * n, 999, count=2))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset, duplicate.next_offset) == (10 * n, 10 * n + 1, 10 * n + 2)
    assert refusal(producers, batch(4, 999, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, batch(6, 999, count=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "another batch"


def test_sequences_wrap_to_zero() -> None:
    producers = states(batch(SEQUENCE_MAX - 1, 0, count=2), batch(0, 2), batch(1, 3))
    assert producers.check(batch(2, 4)) is None
    assert producers.check(batch(SEQUENCE_MAX - 1, 4, count=2)) is not None
    assert refusal(producers, batch(SEQUENCE_MAX - 2, 4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    across = states(batch(SEQUENCE_MAX, 0, count=3))
    assert across.check(batch(2, 3)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    producers = states(batch(0), batch(0, 1, epoch=3))
    assert refusal(producers, batch(1, 2, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, batch(1, 2, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(batch(0, 2, epoch=4)) is None
    assert producers.check(batch(1, 2, epoch=3)) is None


def test_updating_with_the_same_batch_twice_changes_nothing() -> None:
    producers = states(batch(0), batch(1, 1))
    producers.update(batch(1, 1), NOW_MS)
    state = producers.get(7)
    assert state is not None
    assert len(state.batches) == 2


def test_silent_producers_are_forgotten_unless_in_a_transaction() -> None:
    producers = states(batch(0))
    producers.expire(NOW_MS + 999, 1000)
    assert len(producers) == 1
    producers.expire(NOW_MS + 1000, 1000)
    assert len(producers) == 0

    busy = states(batch(0, transactional=True))
    busy.expire(NOW_MS + 10**9, 1000)
    assert len(busy) == 1


def test_beyond_the_limit_the_longest_silent_producers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "PRODUCERS_MAX", 10)
    producers = ProducerStates()

    def hear_of(producer_id: int, now_ms: int, *, transactional: bool = False) -> None:
        header, _ = numbered(
            now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=transactional
        )
        producers.update(header, now_ms)

    for now_ms in range(10):
        hear_of(now_ms, now_ms, transactional=now_ms < 2)
    hear_of(3, 10)
    assert len(producers) == 10
    hear_of(99, 11)
    assert [state.producer_id for state in producers] == [0, 1, 3, 8, 9, 99]


def test_producers_in_a_transaction_are_kept_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "PRODUCERS_MAX", 10)
    producers = ProducerStates()
    for number in range(30):
        header, _ = numbered(number, producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        producers.update(header, NOW_MS)
    assert (len(producers), len(producers.transactions.open)) == (30, 30)


def test_a_transaction_lasts_until_its_marker() -> None:
    producers = states(batch(0, 5, transactional=True), batch(1, 6, transactional=True))
    state = producers.get(7)
    assert state is not None
    assert state.current_txn_first_offset == 5
    assert refusal(producers, batch(2, 7)) == ErrorCode.INVALID_TXN_STATE

    producers.end_transaction(batch(-1, 7), Marker(committed=True, coordinator_epoch=9), NOW_MS)
    assert (state.current_txn_first_offset, state.coordinator_epoch) == (-1, 9)
    assert producers.check(batch(2, 8)) is None
    producers.end_transaction(
        batch(-1, 9)._replace(producer_id=8), Marker(committed=False, coordinator_epoch=1), NOW_MS
    )
    assert len(producers) == 2


def test_a_snapshot_keeps_each_producers_last_batch_and_transaction() -> None:
    producers = states(batch(SEQUENCE_MAX, 40, epoch=5, count=3, transactional=True))
    producers.end_transaction(
        batch(-1, 43)._replace(producer_id=8), Marker(committed=True, coordinator_epoch=2), NOW_MS
    )

    restored = ProducerStates(snapshot_format.decode(snapshot_format.encode(producers), Path("x.snapshot")))

    state = restored.get(7)
    assert state is not None
    assert (state.producer_epoch, state.last_timestamp, state.current_txn_first_offset) == (5, NOW_MS, 40)
    assert state.batches == [(SEQUENCE_MAX, 1, 40, 42)]
    marked = restored.get(8)
    assert marked is not None
    assert (marked.coordinator_epoch, marked.batches, marked.current_txn_first_offset) == (2, [], -1)


def test_a_snapshot_is_kafkas_to_the_byte() -> None:
    data = snapshot_format.encode(states(batch(3, 40, epoch=1, count=2)))
    assert data[:2] == b"\x00\x01"
    assert data[6:] == (
        b"\x00\x00\x00\x01"
        + (7).to_bytes(8, "big")
        + (1).to_bytes(2, "big")
        + (4).to_bytes(4, "big")
        + (41).to_bytes(8, "big")
        + (1).to_bytes(4, "big")
        + NOW_MS.to_bytes(8, "big")
        + (-1).to_bytes(4, "big", signed=True)
        + (-1).to_bytes(8, "big", signed=True)
    )


@pytest.mark.parametrize("cut", [0, 5, 9, 20, 55])
def test_half_a_snapshot_is_refused(cut: int) -> None:
    data = snapshot_format.encode(states(batch(0)))
    with pytest.raises(DamagedSnapshot):
        snapshot_format.decode(data[:cut], Path("x.snapshot"))
    with pytest.raises(DamagedSnapshot, match="version"):
        snapshot_format.decode(b"\x00\x09" + data[2:], Path("x.snapshot"))


@pytest.mark.parametrize("count", [1, 5, 14, 15, 16, 30])
def test_the_five_batch_window_survives_a_crash_even_right_after_a_roll(tmp_path: Path, count: int) -> None:
    log = create(tmp_path)
    for n in range(count):
        header, data = produced(n, n)
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
    flush(log)

    again = reopen(log)

    state, before = again.producers.get(7), log.producers.get(7)
    assert state is not None
    assert before is not None
    assert state.batches == before.batches


def test_a_snapshot_at_a_roll_excludes_later_batches(tmp_path: Path) -> None:
    log = create(tmp_path)
    turn = [produced(n, n) for n in range(20)]
    for header, _ in turn:
        log.producers.update(header, NOW_MS)  # all are staged before the first is written
    log.append(turn, NOW_MS)
    assert len(log.segments) == 2
    base_offset = log.segments[1].base_offset
    log.segments[1].path(".log").write_bytes(b"")  # as after a crash that lost it

    again = reopen(log, recovery_point=0)

    assert again.end_offset == base_offset
    assert again.producers.check(produced(base_offset, base_offset)[0]) is None, "not taken for a duplicate"
    state = again.producers.get(7)
    assert state is not None
    assert state.last_sequence == base_offset - 1


def test_transactions_are_replayed_from_the_log(tmp_path: Path) -> None:
    log = create(tmp_path)
    data = numbered(0, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = batches.build_marker(
        Marker(committed=False, coordinator_epoch=3),
        base_offset=1,
        timestamp_ms=NOW_MS,
        producer_id=7,
        producer_epoch=0,
    )
    log.append([data], NOW_MS)
    open_state = reopen(log).producers.get(7)
    assert open_state is not None
    assert open_state.current_txn_first_offset == 0

    log.append([(batches.read_header(marker), marker)], NOW_MS)
    empty = batches.build([], base_offset=2, control=True, producer_id=7, producer_epoch=0)
    other = batches.build([Record(3, NOW_MS, None, b"?")], base_offset=3, control=True, producer_id=7)
    log.append([(batches.read_header(empty), empty), (batches.read_header(other), other)], NOW_MS)
    ended_state = reopen(log).producers.get(7)
    assert ended_state is not None
    assert (ended_state.current_txn_first_offset, ended_state.coordinator_epoch) == (-1, 3)


def test_a_refused_first_batch_is_not_taken_for_a_duplicate_when_retried() -> None:
    """The first batch of an unknown producer is refused by a full disk while its second is already in flight."""
    producers = states(batch(1))
    assert refusal(producers, batch(0, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("appended_since", [0, 2, 20])
def test_the_five_batch_window_survives_a_clean_start_too(tmp_path: Path, appended_since: int) -> None:
    log = create(tmp_path)
    for n in range(20):
        header, data = produced(n, n)
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
    log.close()

    again = reopen(log, clean=True)
    for n in range(20, 20 + appended_since):
        header, data = produced(n, n)
        assert again.check_sequence(header) is None
        again.producers.update(header, NOW_MS)
        again.append([(header, data)], NOW_MS)

    end = 20 + appended_since
    assert again.check_sequence(produced(end, end)[0]) is None
    for n in range(end - 5, end):
        assert again.check_sequence(produced(end, n)[0]) == (n, n, n, n)
    with pytest.raises(Refusal) as refused:
        again.check_sequence(produced(end, end - 6)[0])
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_that_cannot_be_looked_up_in_the_log_is_refused_and_new_batches_are_not(tmp_path: Path) -> None:
    log = create(tmp_path)
    for n in range(8):
        header, data = produced(n, n)
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
    log.close()
    again = reopen(log, clean=True)
    segment = log.segments[0].path(".log")
    segment.write_bytes(bytes(segment.stat().st_size))

    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            again.check_sequence(produced(8, 6)[0])
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert again.check_sequence(produced(8, 8)[0]) is None


def test_truncating_batches_takes_back_the_transaction_they_began() -> None:
    producers = states(batch(0), batch(1, 1), batch(2, 2, transactional=True))
    assert producers.truncate(2)
    state = producers.get(7)
    assert state is not None
    assert (state.last_sequence, state.current_txn_first_offset) == (1, -1)
    assert not producers.truncate(0), "nothing is left of it"
    assert len(producers) == 0
