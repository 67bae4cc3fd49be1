from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.storage.cleaning import compaction
from headwater.storage.cleaning.offset_map import OffsetMap
from headwater.storage.disk import Disk
from headwater.storage.inspection import segment_report
from headwater.storage.log import Log
from tests.support.storage.builders import (
    NOW_MS,
    contents,
    create,
    fill,
    flush,
    names_in,
    offsets,
    record,
    reopen,
    settings,
    staged,
)

COMPACT = frozenset({"compact"})
MEMORY = 1 << 20


def compacted(path: Path, **changes: object) -> Log:
    options = {"cleanup_policy": COMPACT, "min_cleanable_dirty_ratio": 0.0, "delete_retention_ms": 1000, **changes}
    return create(path, settings(**options))


def put(log: Log, *pairs: tuple[bytes, bytes | None], codec: int = 0, timestamp: int = NOW_MS) -> None:
    start = log.end_offset
    records = [Record(start + n, timestamp, key, value) for n, (key, value) in enumerate(pairs)]
    log.append([staged(records, codec=codec)], NOW_MS)


def seal(log: Log) -> None:
    """Rolls to a new segment, so that all earlier ones can be compacted."""
    log.roll(NOW_MS)
    flush(log)


def clean(log: Log, now_ms: int = NOW_MS, *, memory: int = MEMORY) -> bool:
    task = compaction.plan(log, now_ms, log.end_offset)
    if task is None:
        return False
    task.run(memory, lambda: False)
    log.install(task).run()
    return True


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(found.offset, found.key, found.value) for found in contents(log)]


def headers(log: Log) -> list[BatchHeader]:
    return [
        report.header
        for segment in log.segments
        for report in segment_report.inspect_segment(Disk(), segment.path(".log"))
        if report.header is not None
    ]


def test_the_latest_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"), (b"a", b"3"))
    seal(log)

    assert clean(log)

    assert pairs(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers(log)] == [(0, 1, 1), (3, 4, 2)]
    assert names_in(log, ".deleted") == names_in(log, ".cleaned") == names_in(log, ".swap") == []
    assert not clean(log), "there is nothing dirty left"


def test_the_active_segment_is_never_touched(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for value in range(5):
        put(log, (b"a", b"%d" % value))
    flush(log)
    assert not clean(log)


def test_a_log_without_the_compact_policy_is_not_compacted(tmp_path: Path) -> None:
    log = compacted(tmp_path, cleanup_policy=frozenset({"delete"}))
    fill(log, 40)
    flush(log)
    assert not clean(log)


def test_nothing_unflushed_or_beyond_the_high_watermark_is_compacted(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for value in range(5):
        put(log, (b"a", b"%d" % value))
    log.roll(NOW_MS)
    assert compaction.plan(log, NOW_MS, 5) is None
    flush(log)
    assert compaction.plan(log, NOW_MS, 4) is None
    assert compaction.plan(log, NOW_MS, 5) is not None


def test_a_log_is_compacted_above_its_min_cleanable_dirty_ratio(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_cleanable_dirty_ratio=0.5)
    for n in range(10):
        put(log, (b"key%d" % n, bytes(20)))
    seal(log)
    assert clean(log)
    put(log, (b"key1", bytes(20)))
    seal(log)
    assert not clean(log)
    for n in range(15):
        put(log, (b"key%d" % n, bytes(20)))
    seal(log)
    assert clean(log)


def test_records_younger_than_the_minimum_lag_are_not_compacted(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_compaction_lag_ms=500)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log)
    assert not clean(log, NOW_MS + 499)
    assert clean(log, NOW_MS + 500)
    assert pairs(log) == [(1, b"a", b"2")]


def test_the_maximum_lag_overrides_the_dirty_ratio(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    seal(log)
    assert not clean(log, NOW_MS + 500)
    assert clean(log, NOW_MS + 501)


def test_a_tombstone_removes_its_key_at_once_and_stays_until_its_horizon(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), timestamp=NOW_MS + 7)
    put(log, (b"z", b"1"))
    seal(log)
    assert clean(log, NOW_MS)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"z", b"1")]
    tombstone = next(h for h in headers(log) if h.base_offset == 2)
    assert tombstone.delete_horizon_ms == NOW_MS + 1000
    assert (tombstone.max_timestamp, contents(log)[1].timestamp) == (NOW_MS + 7, NOW_MS + 7)

    put(log, (b"c", b"1"))
    seal(log)
    assert clean(log, NOW_MS + 999)
    assert b"a" in [key for _, key, _ in pairs(log)], "the horizon is set once"
    put(log, (b"d", b"1"))
    seal(log)
    assert clean(log, NOW_MS + 1000)
    assert [key for _, key, _ in pairs(log)] == [b"b", b"z", b"c", b"d"]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_rewritten_batch_keeps_its_codec(tmp_path: Path, codec: int) -> None:
    log = compacted(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"x" * 100), codec=codec)
    put(log, (b"a", b"2"), codec=codec)
    seal(log)
    assert clean(log)
    assert pairs(log) == [(1, b"b", b"x" * 100), (2, b"a", b"2")]
    assert [h.codec for h in headers(log)] == [codec, codec]


def test_append_time_and_producer_survive_a_rewrite(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    log.append(
        [
            staged(
                [record(0, b"a"), record(1, b"b")],
                log_append_time_ms=NOW_MS + 9,
                producer_id=7,
                producer_epoch=2,
                base_sequence=40,
                leader_epoch=5,
            ),
            staged([record(2, b"a")], leader_epoch=5),
        ],
        NOW_MS,
    )
    seal(log)
    assert clean(log)
    first = headers(log)[0]
    assert (first.record_count, first.is_log_append_time, first.max_timestamp) == (1, True, NOW_MS + 9)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (7, 2, 40, 41)
    assert first.leader_epoch == 5


def test_a_producers_last_batch_keeps_its_header_when_its_records_go(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n, producer_id in enumerate([7, 8, 8]):
        header, data = staged(
            [record(n, b"a")], producer_id=producer_id, producer_epoch=0, base_sequence=0 if n < 2 else 1
        )
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
    put(log, (b"a", b"latest"))
    seal(log)
    assert clean(log)

    assert [(h.base_offset, h.producer_id, h.record_count) for h in headers(log)] == [(0, 7, 0), (2, 8, 0), (3, -1, 1)]
    assert pairs(log) == [(3, b"a", b"latest")]
    for damaged in names_in(log, ".snapshot"):
        (log.directory / damaged).unlink()
    state = reopen(log).producers.get(7)
    assert state is not None
    assert state.last_sequence == 0


def test_only_the_last_batch_of_a_round_is_kept_without_its_records(tmp_path: Path) -> None:
    """A reader that cannot step over a batch without records (kafka-go) finds none in the part that is compacted."""
    log = compacted(tmp_path)
    for keys in ([b"a", b"stays", b"a"], [b"a"], [b"a"], [b"b", b"a"], [b"a", b"b"]):
        for key in keys:
            put(log, (key, b"%d" % log.end_offset))
        seal(log)
    log.config = settings(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0, segment_bytes=1)
    put(log, (b"b", b"latest"))
    seal(log)
    put(log, (b"a", b"dirty"))
    log.append([staged([record(log.end_offset, None)])], NOW_MS)
    seal(log)

    assert clean(log)

    assert [(h.base_offset, h.record_count) for h in headers(log)] == [(1, 1), (9, 1), (10, 1), (11, 0)]
    assert [segment.base_offset for segment in log.segments] == [0, 2, 10, 11, 12], (
        "each begins where the one before ends"
    )
    latest = [(1, b"stays", b"1"), (9, b"b", b"latest"), (10, b"a", b"dirty")]
    assert pairs(log) == latest
    assert all(log.read(n, 1, limit_offset=12, first_batch_whole=True).length for n in range(12))
    again = reopen(log, recovery_point=0)
    assert (pairs(again), again.end_offset) == (latest, 12)

    put(again, (b"c", b"later"))
    seal(again)
    assert clean(again)
    assert [h.record_count for h in headers(again)] == [1, 1, 1, 1], "the end of an earlier round is not kept"


def test_small_segments_are_merged(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(100):
        put(log, (b"key%d" % n if n % 5 == 0 else b"hot", b"%d" % n))
    flush(log)
    assert clean(log)
    before = len(log.segments)
    seal(log)
    assert clean(log)
    assert len(log.segments) < before, "cleaned, they fit together"
    assert all(segment.size <= 1024 for segment in log.segments)
    again = reopen(log)
    assert pairs(again) == pairs(log)
    for segment in again.segments[:-1]:
        assert list(segment_report.inspect_indexes(Disk(), segment.path(".log"))) == []


def test_keys_that_do_not_fit_into_memory_are_left_for_the_next_round(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(60):
        put(log, (b"a long enough key %d" % (n % 20), b"%d" % n))
    seal(log)
    rounds = 0
    while clean(log, memory=224 * 7):
        rounds += 1
        assert rounds < 30
    assert rounds > 2
    assert [value for _, _, value in pairs(log)] == [b"%d" % n for n in range(40, 60)]


def test_a_key_is_not_confused_with_the_digest_of_another() -> None:
    offset_map = OffsetMap(MEMORY)
    long_key = b"a key of more than sixteen bytes"
    assert offset_map.put(long_key, 1)
    assert offset_map.put(blake2b(long_key, digest_size=16).digest(), 9)
    assert offset_map.put(b"short", 3)
    assert offset_map.is_latest(long_key, 1)
    assert not offset_map.is_latest(b"short", 2)
    assert len(offset_map) == 3


def test_records_without_a_key_are_dropped(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    log.append([staged([record(0, None), record(1, b"a")])], NOW_MS)
    seal(log)
    assert clean(log)
    assert offsets(log) == [1]


def test_a_read_range_stays_readable_after_its_segment_is_replaced(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(20):
        put(log, (b"a", b"%d" % n))
    flush(log)
    found = log.read(0, 1 << 20, limit_offset=20, first_batch_whole=True)
    before = found.read()
    assert clean(log)
    assert found.read() == before


def test_a_cancelled_cleaning_leaves_no_trace(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(60):
        put(log, (b"key%d" % (n % 3), b"%d" % n))
    flush(log)
    before = pairs(log)
    for steps in (0, 30, 70, 90):
        remaining = iter(range(steps))
        task = compaction.plan(log, NOW_MS, 60)
        assert task is not None
        task.run(MEMORY, lambda left=remaining: next(left, None) is None)
        assert not log.install(task)
        assert names_in(log, ".cleaned") == []
    assert pairs(log) == before


def planned(log: Log) -> compaction.CleaningTask:
    task = compaction.plan(log, NOW_MS, log.end_offset)
    assert task is not None
    task.run(MEMORY, lambda: False)
    assert task.replacement is not None
    return task


def test_records_removed_during_compaction_do_not_come_back(tmp_path: Path) -> None:
    log = compacted(tmp_path, segment_bytes=200)
    for n in range(60):
        put(log, (b"key%d" % (n % 30), b"%d" % n))
    flush(log)
    task = planned(log)
    log.advance_start(35).run()
    dirty = log.first_dirty_offset
    log.install(task).run()
    assert offsets(log) == list(range(35, 60))
    assert names_in(log, ".cleaned") == []
    assert log.first_dirty_offset == dirty, "the next round does it again"

    task = None
    log.config = settings(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0)
    for n in range(60):
        put(log, (b"key%d" % (n % 3), b"%d" % n))
    flush(log)
    task = planned(log)
    log.truncate_to(50).run()
    log.install(task).run()
    assert names_in(log, ".cleaned") == []
    assert offsets(log)[-1] == 49


def test_compacting_a_deleted_log_does_no_harm(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(60):
        put(log, (b"a", b"%d" % n))
    flush(log)
    task = planned(log)
    garbage = log.install(task)
    log.delete().run()
    garbage.run()


def test_the_first_dirty_offset_survives_a_restart(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for n in range(60):
        put(log, (b"key%d" % (n % 3), b"%d" % n))
    flush(log)
    assert clean(log)
    dirty = log.first_dirty_offset
    assert 0 < dirty <= 60
    log.close()
    again = reopen(log, clean=True)
    assert again.first_dirty_offset == dirty
    assert compaction.plan(again, NOW_MS, 60) is None
    (log.directory / "cleaner-offset-checkpoint").write_bytes(b"0\n1\n999\n")
    assert reopen(log, clean=True).first_dirty_offset == 0, "beyond the end: it speaks of another log"


@hypothesis_settings(max_examples=40)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=4), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_compaction_keeps_exactly_the_latest_of_each_key_in_the_cleaned_part(
    tmp_path_factory: pytest.TempPathFactory, turns: Sequence[Sequence[tuple[int, bool]]], keys_in_memory: int
) -> None:
    log = compacted(tmp_path_factory.mktemp("log"), segment_bytes=300)
    appended: list[tuple[int, bytes, bytes | None]] = []
    for turn in turns:
        batch = [(b"key%d" % key, None if is_tombstone else b"v") for key, is_tombstone in turn]
        appended += [(log.end_offset + n, key, value) for n, (key, value) in enumerate(batch)]
        put(log, *batch)
    flush(log)
    while clean(log, memory=keys_in_memory * 224):
        pass

    end = log.first_dirty_offset
    newest = {key: offset for offset, key, _ in appended if offset < end}
    expected = [item for item in appended if item[0] >= end or newest[item[1]] == item[0]]
    assert pairs(log) == expected
    assert pairs(reopen(log, recovery_point=0)) == expected


def test_a_batch_is_copied_unchanged_when_all_of_it_stays(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"))
    whole = log.segments[0].path(".log").read_bytes()
    seal(log)
    assert clean(log)
    assert log.segments[0].path(".log").read_bytes() == whole


def test_a_cleaned_segment_written_in_many_writes_is_complete(tmp_path: Path) -> None:
    log = compacted(tmp_path, segment_bytes=8 << 20)
    for n in range(60):
        put(log, (b"key%d" % (n % 50), bytes(60_000)))
    seal(log)
    assert clean(log)
    assert offsets(log) == list(range(10, 60))
    assert list(segment_report.inspect_indexes(Disk(), log.segments[0].path(".log"))) == []
