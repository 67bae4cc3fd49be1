"""States of transactional producers, and the markers that end their transactions."""

from pathlib import Path

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches.batch import Marker
from headwater.storage.producers import snapshot_format
from headwater.storage.producers.states import ProducerStates
from tests.storage.producers.producer_batches import batch, refusal, states
from tests.support.storage.builders import NOW_MS, create, flush, reopen, settings
from tests.support.storage.transactions import Writer, read_committed, stable


def ended(producers: ProducerStates, offset: int, *, epoch: int = 0, committed: bool = True, version: int = 1) -> None:
    marker = Marker(committed, coordinator_epoch=3)
    producers.check_marker(7, epoch, marker, version)
    producers.end_transaction(batch(-1, offset, epoch=epoch), marker, NOW_MS)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "is_open", "code"),
    [
        (5, 3, 1, True, None),
        (6, 3, 1, True, None),
        (4, 3, 1, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 3, 1, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, 2, 1, True, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (6, 4, 2, True, None),
        (5, 3, 2, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, 3, 2, False, None),
        (4, 3, 2, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (6, 2, 2, True, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_a_marker_with_an_older_epoch_is_refused(
    epoch: int, coordinator_epoch: int, version: int, is_open: bool, code: ErrorCode | None
) -> None:
    producers = states(batch(0, epoch=5, transactional=True))
    ended(producers, 1, epoch=5)
    if is_open:
        producers.update(batch(1, 2, epoch=5, transactional=True), NOW_MS)
    marker = Marker(True, coordinator_epoch)
    if code is None:
        producers.check_marker(7, epoch, marker, version)
    else:
        with pytest.raises(Refusal) as refused:
            producers.check_marker(7, epoch, marker, version)
        assert refused.value.code is code


def test_a_sequence_of_an_ended_transaction_is_no_retry_in_the_next() -> None:
    """librdkafka reuses the sequence of a batch whose transaction was aborted, although the broker stored the batch."""
    producers = states(batch(0, transactional=True), batch(1, 1, transactional=True))
    assert producers.check(batch(1, 1, transactional=True)) is not None
    ended(producers, 2, committed=False)
    assert refusal(producers, batch(1, transactional=True)) is ErrorCode.UNKNOWN_PRODUCER_ID
    producers.update(batch(2, 3, transactional=True), NOW_MS)
    assert refusal(producers, batch(1, transactional=True)) is ErrorCode.UNKNOWN_PRODUCER_ID
    assert producers.check(batch(2, transactional=True)) is not None


def test_a_marker_in_the_highest_epoch_is_accepted() -> None:
    producers = states(batch(0, epoch=2**15 - 1, transactional=True))
    producers.check_marker(7, 2**15 - 1, Marker(True, 0), 2)
    producers.check_marker(8, 0, Marker(True, 0), 2)


def test_in_protocol_2_a_marker_ends_the_epoch_of_its_transaction() -> None:
    producers = states(batch(0, transactional=True))
    ended(producers, 1, epoch=1, version=2)
    assert refusal(producers, batch(1, 2, transactional=True)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, batch(5, 2, epoch=1, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(batch(0, 2, epoch=1, transactional=True)) is None


def test_in_protocol_1_sequences_continue_after_a_marker() -> None:
    producers = states(batch(0, transactional=True))
    ended(producers, 1)
    assert producers.check(batch(1, 2, transactional=True)) is None


def test_batches_that_the_broker_writes_for_a_producer_have_no_sequence() -> None:
    producers = states(batch(-1, transactional=True), batch(-1, 1, count=3, transactional=True))
    assert refusal(producers, batch(-1, 4, epoch=-1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, batch(-1, 4)) == ErrorCode.INVALID_TXN_STATE
    assert producers.check(batch(-1, 4, epoch=1, transactional=True)) is None
    restored = ProducerStates(snapshot_format.decode(snapshot_format.encode(producers), Path("x.snapshot")))
    state = restored.get(7)
    assert state is not None
    assert (state.batches, state.current_txn_first_offset) == ([(-1, -1, 1, 3)], 0)
    assert restored.check(batch(-1, 4, transactional=True)) is None
    assert restored.transactions.stable_before(9) == 0


def test_a_transaction_stays_open_until_its_marker_is_visible() -> None:
    producers = states(batch(0, 4, transactional=True))
    assert producers.transactions.stable_before(4) == 4
    assert producers.transactions.stable_before(5) == 4
    ended(producers, 6)
    assert producers.transactions.stable_before(6) == 4
    assert producers.transactions.stable_before(7) == 7


def test_the_earliest_open_transaction_bounds_the_stable_offset() -> None:
    producers = ProducerStates()
    for producer_id in range(5):
        producers.update(batch(0, producer_id, transactional=True)._replace(producer_id=producer_id), NOW_MS)
    order = [3, 0, 1, 4, 2]
    for number, producer_id in enumerate(order):
        marker_offset = 5 + number
        header = batch(-1, marker_offset)._replace(producer_id=producer_id)
        aborted = producers.end_transaction(header, Marker(False, 0), NOW_MS)
        still_open = order[number + 1 :]
        assert aborted == (producer_id, producer_id, marker_offset, min(still_open, default=marker_offset + 1))
    stable_offsets = [producers.transactions.stable_before(high_watermark) for high_watermark in range(5, 11)]
    assert stable_offsets == [0, 0, 1, 2, 2, 10]


def test_truncation_takes_back_markers_that_were_never_written() -> None:
    producers = states(batch(0, transactional=True), batch(1, 1, transactional=True))
    ended(producers, 2, epoch=1, version=2)
    producers.update(batch(0, 3, epoch=1, transactional=True), NOW_MS)
    ended(producers, 4, epoch=2, version=2)

    (before,) = producers.before(2)
    assert (before.producer_epoch, before.last_sequence, before.current_txn_first_offset) == (0, 1, 0)
    (before,) = producers.before(4)
    assert (before.producer_epoch, before.last_sequence, before.current_txn_first_offset) == (1, 0, 3)

    assert producers.truncate(2)
    state = producers.get(7)
    assert state is not None
    assert (state.producer_epoch, state.last_sequence, state.current_txn_first_offset) == (0, 1, 0)
    assert producers.transactions.stable_before(2) == 0
    ended(producers, 2, epoch=1, version=2)
    assert producers.transactions.stable_before(3) == 3
    assert not producers.truncate(2), "what is visible is not taken back from memory"


def test_a_producer_known_only_by_a_marker_is_forgotten_when_it_is_truncated() -> None:
    producers = ProducerStates()
    ended(producers, 0)
    assert producers.before(0) == []
    assert producers.truncate(0)
    assert len(producers) == 0


def test_a_snapshot_has_an_open_transaction_whose_producer_already_has_a_newer_epoch() -> None:
    producers = states(batch(0, transactional=True))
    producers.update(batch(0, 5, epoch=1, transactional=True), NOW_MS)
    (before,) = producers.before(3)
    assert (before.batches, before.current_txn_first_offset) == ([], 0)


def test_a_recalled_producer_has_no_open_transaction() -> None:
    producers = ProducerStates()
    producers.recall([batch(0, transactional=True), batch(1, 1, transactional=True)])
    state = producers.get(7)
    assert state is not None
    assert (state.last_sequence, state.current_txn_first_offset) == (1, -1)
    assert producers.transactions.stable_before(2) == 2


def test_a_snapshot_at_a_roll_has_the_transaction_whose_marker_follows(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    for number in range(9):
        writer.data([(b"k", bytes(30))], 7, sequence=number, transactional=True)
    writer.end(7, committed=False)
    log.config = settings(segment_bytes=sum(len(data) for _, data in writer.staged[:-1]))
    writer.write()
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    flush(log)

    again = reopen(log, recovery_point=9)

    assert read_committed(again) == []
    assert again.aborted.within(0, 99) == [(7, 0, 9, 10)]


@pytest.mark.parametrize("meets_full_disk", [False, True])
def test_a_snapshot_at_a_roll_has_the_epoch_of_a_marker(tmp_path: Path, meets_full_disk: bool) -> None:
    log = create(tmp_path, settings(segment_bytes=4096))
    writer = Writer(log)
    writer.data([(b"a", b"v")], 7, epoch=3, sequence=0, transactional=True)
    writer.end(7, committed=True, epoch=4, version=2)
    writer.write()
    late = batch(1, 2, epoch=3, transactional=True)
    assert refusal(log.producers, late) == ErrorCode.INVALID_PRODUCER_EPOCH

    # The first batch of the next transaction goes into a new segment, and the write fails or a crash loses it.
    writer.data([(b"b", b"v")], 7, epoch=4, sequence=0, transactional=True)
    log.roll(NOW_MS)
    if meets_full_disk:
        writer.refuse()
    else:
        log = reopen(log)

    assert refusal(log.producers, late) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.producers.check(batch(0, 2, epoch=4, transactional=True)) is None


def test_truncation_takes_back_markers_of_an_earlier_process(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"v")], 7, transactional=True)
    writer.end(7, committed=False)
    writer.write()
    log.close()
    log = reopen(log, clean=True, recovery_point=2)

    log.truncate_to(1).run()

    state = log.producers.get(7)
    assert state is not None
    assert (state.current_txn_first_offset, stable(log)) == (0, 0)
