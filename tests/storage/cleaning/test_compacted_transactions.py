"""Compaction of transactions: committed data is treated as any other, aborted data goes, markers stay for a while."""

from pathlib import Path

import pytest

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.storage import names
from headwater.storage.cleaning import compaction
from headwater.storage.disk import Disk
from headwater.storage.inspection import segment_report
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS, create, fill, flush, names_in, record, reopen, settings, staged
from tests.support.storage.transactions import Writer, read_committed, stable

RETENTION_MS = 1000


def compacted(path: Path, **changes: object) -> Log:
    options = {
        "segment_bytes": 4096,
        "cleanup_policy": frozenset({"compact"}),
        "min_cleanable_dirty_ratio": 0.0,
        "delete_retention_ms": RETENTION_MS,
        **changes,
    }
    return create(path, settings(**options))


def clean(log: Log, now_ms: int = NOW_MS, *, seals: bool = True, memory: int = 1 << 20) -> None:
    """Compacts; first appends a plain record, so that no batch is kept for being a producer's last in the log."""
    if seals:
        fill(log, 1)
        log.roll(NOW_MS)
    flush(log)
    task = compaction.plan(log, now_ms, stable(log))
    assert task is not None
    task.run(memory, lambda: False)
    log.install(task).run()


def headers(log: Log) -> list[BatchHeader]:
    return [
        report.header
        for segment in log.segments
        for report in segment_report.inspect_segment(Disk(), segment.path(".log"))
        if report.header is not None
    ]


def markers(log: Log) -> list[int]:
    return [header.base_offset for header in headers(log) if header.is_control]


def pairs(log: Log) -> list[tuple[bytes | None, bytes | None]]:
    return [(found.key, found.value) for found in read_committed(log) if not (found.key or b"").startswith(b"k")]


def forget(log: Log, *producer_ids: int) -> None:
    """Expires the producers, as after a long silence."""
    for producer_id in producer_ids:
        state = log.producers.get(producer_id)
        assert state is not None
        state.last_timestamp = 0
    log.producers.expire(NOW_MS, 1000)


def test_committed_records_supersede_and_are_superseded_like_plain_ones(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"plain"), (b"b", b"plain")])
    writer.transaction(7, b"a", b"c", committed=True, value=b"committed")
    writer.data([(b"c", b"later")])
    writer.write()
    clean(log)
    assert pairs(log) == [(b"b", b"plain"), (b"a", b"committed"), (b"c", b"later")]
    kept = next(header for header in headers(log) if header.producer_id == 7)
    assert (kept.is_transactional, kept.record_count, kept.last_offset_delta) == (True, 1, 1)


def test_aborted_records_are_dropped_and_supersede_no_record(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"plain")])
    writer.transaction(7, b"a", committed=False, value=b"aborted")
    writer.transaction(7, b"z", committed=True)
    clean(log)
    assert pairs(log) == [(b"a", b"plain"), (b"z", b"v")]
    assert [header.base_offset for header in headers(log)][:3] == [0, 2, 3], "its marker is there for those who read it"


def test_nothing_beyond_the_last_stable_offset_is_touched(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    for number in range(3):
        writer.data([(b"a", b"%d" % number)])
    writer.write()
    log.roll(NOW_MS)
    writer.data([(b"open", b"v")], 7, transactional=True)
    for number in range(3):
        writer.data([(b"a", b"%d" % number)])
    writer.write()
    log.roll(NOW_MS)
    flush(log)
    assert stable(log) == 3

    clean(log, seals=False)

    assert [header.base_offset for header in headers(log)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_stays_for_delete_retention_ms_after_its_last_batch_is_gone(tmp_path: Path, committed: bool) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.transaction(7, b"a", committed=committed)
    writer.data([(b"a", b"later")])
    writer.write()
    forget(log, 7)
    clean(log)
    assert markers(log) == [1], "in this round its data was still there"
    assert headers(log)[0].delete_horizon_ms is None
    assert len(log.aborted.within(0, 9)) == (0 if committed else 1)

    clean(log, NOW_MS + 10)
    marker = headers(log)[0]
    assert marker.delete_horizon_ms == NOW_MS + 10 + RETENTION_MS
    assert (marker.is_control, marker.is_transactional, marker.max_timestamp) == (True, True, NOW_MS)
    assert log.aborted.within(0, 9) == [], "there is nothing that a reader has to leave out"
    assert names_in(log, ".txnindex") == []

    clean(log, NOW_MS + 9 + RETENTION_MS)
    assert markers(log) == [1]
    clean(log, NOW_MS + 10 + RETENTION_MS)
    assert markers(log) == []
    assert pairs(log) == [(b"a", b"later")]


def test_no_snapshot_knows_of_an_open_transaction_whose_marker_is_compacted_away(tmp_path: Path) -> None:
    log = compacted(tmp_path, segment_bytes=190)
    writer = Writer(log)
    writer.data([(b"a", b"aborted")], 7, transactional=True)
    writer.data([(b"stays", b"v" * 40)])
    writer.write()
    log.roll(NOW_MS)
    writer.end(7, committed=False)
    writer.data([(b"stays too", b"v")])
    writer.write()
    log.roll(NOW_MS)
    forget(log, 7)
    for round_number in range(4):
        clean(log, NOW_MS + round_number * 2 * RETENTION_MS)
    assert [segment.base_offset for segment in log.segments][:2] == [0, 2], "both are too large to be joined"
    assert markers(log) == []
    log.close()
    for name in names_in(log, ".snapshot"):
        if name > names.file_name(2, names.SNAPSHOT):
            (log.directory / name).write_bytes(b"rotten")

    again = reopen(log, clean=True, recovery_point=log.end_offset)

    assert stable(again) == log.end_offset


def test_compaction_removes_the_snapshots_of_merged_segments(tmp_path: Path) -> None:
    log = compacted(tmp_path, segment_bytes=200)
    for _ in range(12):
        log.append([staged([record(log.end_offset, b"a")])], NOW_MS)
    assert len(log.segments) == len(names_in(log, ".snapshot")) + 1 == 6
    for _ in range(2):
        clean(log)  # the second round joins the small segments that the first one left
    bases = {segment.base_offset for segment in log.segments}
    assert {names.offset_of(name, names.SNAPSHOT) for name in names_in(log, ".snapshot")} <= bases


def test_a_marker_stays_while_any_batch_of_its_transaction_does(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"v")], 7, transactional=True)
    writer.data([(b"stays", b"v")], 7, transactional=True)
    writer.end(7, committed=True)
    writer.data([(b"a", b"later")])
    writer.write()
    forget(log, 7)
    for round_number in range(3):
        clean(log, NOW_MS + round_number * 2 * RETENTION_MS)
    assert markers(log) == [2]
    assert headers(log)[1].delete_horizon_ms is None
    assert pairs(log) == [(b"stays", b"v"), (b"a", b"later")]


def test_the_marker_that_determines_a_producers_epoch_is_kept_whole(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"v")], 7, epoch=3, transactional=True)
    writer.end(7, committed=True, epoch=4, version=2)
    writer.data([(b"a", b"later")])
    writer.write()
    for round_number in range(4):
        clean(log, NOW_MS + round_number * RETENTION_MS)
    assert markers(log) == [1]
    for name in names_in(log, ".snapshot"):
        (log.directory / name).unlink()
    state = reopen(log).producers.get(7)
    assert state is not None
    assert (state.producer_epoch, state.batches) == (4, [])


def test_a_producers_last_batch_keeps_its_header_even_if_aborted(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"aborted")], 7, sequence=40, transactional=True)
    writer.end(7, committed=False)
    writer.write()
    for _ in range(3):
        clean(log)
    last = headers(log)[0]
    assert (last.producer_id, last.base_sequence, last.record_count, last.is_transactional) == (7, 40, 0, True)
    assert markers(log) == [1]
    assert pairs(log) == []
    for name in names_in(log, ".snapshot"):
        (log.directory / name).unlink()
    again = reopen(log, recovery_point=0)
    state = again.producers.get(7)
    assert state is not None
    assert (state.last_sequence, state.current_txn_first_offset) == (40, -1)


def test_a_transaction_aborted_behind_the_cleaned_part_is_recognised(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"plain")])
    writer.data([(b"a", b"aborted")], 7, transactional=True)
    writer.data([(b"z", b"v")])
    writer.write()
    log.roll(NOW_MS)
    writer.data([(b"open", b"v")], 8, transactional=True)
    writer.end(7, committed=False)
    writer.write()
    log.roll(NOW_MS)

    clean(log, seals=False)

    assert pairs(log) == [(b"a", b"plain"), (b"z", b"v")]
    assert [(h.base_offset, h.record_count) for h in headers(log)][:3] == [(0, 1), (1, 0), (2, 1)]


def test_an_aborted_transaction_does_not_affect_later_records_of_its_producer(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    writer.data([(b"a", b"plain")])
    writer.transaction(7, b"a", committed=False, value=b"aborted")
    clean(log)
    writer.transaction(7, b"a", committed=True, value=b"committed")
    clean(log)
    assert pairs(log) == [(b"a", b"committed")], "the second round maps only what came since the first"


def test_aborted_records_are_dropped_beyond_the_part_whose_keys_fit_into_memory(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    writer = Writer(log)
    for number in range(8):
        writer.data([(b"a longer key %d" % number, b"v")])
    writer.transaction(7, b"a", committed=False)
    writer.transaction(7, b"z", committed=True)
    clean(log, memory=224 * 3)
    assert [header.producer_id for header in headers(log) if header.producer_id == 7 and not header.is_control] == [7]
    assert len(read_committed(log)) == 10


def test_control_batches_of_other_kinds_stay_and_empty_ones_go(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    other = batches.build([record(0, b"\x00\x00\x00\x05", b"?")], base_offset=0, control=True, leader_epoch=0)
    empty = batches.build([], base_offset=1, control=True, leader_epoch=0)
    log.append([(batches.read_header(one), one) for one in (other, empty)], NOW_MS)
    log.append([staged([record(2, b"a")])], NOW_MS)
    for _ in range(2):
        clean(log)
    assert markers(log) == [0]
