from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.storage import checkpoints
from headwater.storage.disk import Disk, File
from headwater.storage.errors import LogFailed, OffsetOutOfRange
from tests.support.storage.builders import (
    NOW_MS,
    TOPIC_ID,
    contents,
    create,
    fill,
    flush,
    names_in,
    numbered,
    offsets,
    reopen,
    settings,
)


def test_appended_batches_are_read_back_byte_for_byte(tmp_path: Path) -> None:
    log = create(tmp_path)
    staged = [numbered(0, 3), numbered(3), numbered(4, 2)]
    log.append(staged, NOW_MS)

    found = log.read(0, 1 << 20, limit_offset=6, first_batch_whole=True)

    assert found.read() == b"".join(data for _, data in staged)
    assert len(found) == sum(len(data) for _, data in staged)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 6, len(found))


def test_a_new_log_has_kafkas_files(tmp_path: Path) -> None:
    log = create(tmp_path, disk=Disk())
    fill(log, 1)
    log.close()

    assert names_in(log) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (log.directory / "partition.metadata").read_bytes() == checkpoints.partition_metadata(TOPIC_ID)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_full_segment_is_followed_by_one_named_after_its_first_offset(tmp_path: Path) -> None:
    log = create(tmp_path)
    size = numbered(0)[0].size
    fill(log, 30)

    per_segment = 1024 // size
    assert [segment.base_offset for segment in log.segments] == list(range(0, 30, per_segment))
    assert all(segment.size <= 1024 for segment in log.segments)
    assert offsets(log) == list(range(30))


def test_one_append_may_span_segments(tmp_path: Path) -> None:
    log = create(tmp_path)
    log.append([numbered(n) for n in range(40)], NOW_MS)

    assert len(log.segments) == 3
    assert offsets(log) == list(range(40))


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=100))
    log.append([numbered(0, 50), numbered(50, 50)], NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, 50]


def test_a_segment_rolls_when_its_first_batch_is_old(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_ms=1000))
    log.append([numbered(0)], NOW_MS)
    log.append([numbered(1, timestamp=NOW_MS + 1000)], NOW_MS)
    assert len(log.segments) == 1, "exactly segment.ms is not older"

    log.append([numbered(2, timestamp=NOW_MS + 1001)], NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_a_time_age_from_the_segments_creation(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_ms=1000))
    log.append([numbered(0, timestamp=-1)], NOW_MS)
    log.append([numbered(1, timestamp=-1)], NOW_MS + 1001)

    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_an_idle_log_rolls_once_when_its_segment_is_old(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_ms=1000))
    log.roll_if_due(NOW_MS + 5000)
    assert len(log.segments) == 1, "an empty segment is no older than nothing"
    fill(log, 1)

    log.roll_if_due(NOW_MS + 1000)
    assert len(log.segments) == 1
    log.roll_if_due(NOW_MS + 1001)
    log.roll_if_due(NOW_MS + 9001)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_old_data_written_today_does_not_make_an_idle_log_roll(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_ms=1000))
    log.append([numbered(0, timestamp=NOW_MS - 1_000_000)], NOW_MS)

    log.roll_if_due(NOW_MS + 1000)
    assert len(log.segments) == 1


def test_a_compacted_log_rolls_before_its_compaction_would_lag_too_far(tmp_path: Path) -> None:
    config = settings(cleanup_policy=frozenset({"compact"}), segment_ms=1_000_000, max_compaction_lag_ms=1000)
    log = create(tmp_path, config)
    fill(log, 1)

    log.roll_if_due(NOW_MS + 1000)
    assert len(log.segments) == 1
    log.roll_if_due(NOW_MS + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_and_never_later(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_ms=1000, segment_jitter_ms=900))
    fill(log, 1)
    log.roll_if_due(NOW_MS + 100)
    assert len(log.segments) == 1
    log.roll_if_due(NOW_MS + 1001)
    assert len(log.segments) == 2


def test_a_full_index_ends_the_segment(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20, segment_index_bytes=64, index_interval_bytes=0))
    for offset in range(20):
        log.append([numbered(offset, timestamp=NOW_MS + offset)], NOW_MS)
    log.close()

    assert len(log.segments) > 2
    for suffix in (".index", ".timeindex"):
        assert all((log.directory / name).stat().st_size <= 64 for name in names_in(log, suffix))


def test_an_offset_too_far_from_the_base_starts_a_segment(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 30))
    fill(log, 1)
    log.end_offset = 2**31 + 5  # as years of appends and compaction may leave it
    log.append([numbered(2**31 + 5)], NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, 2**31 + 5]


def test_settings_change_while_the_log_is_open(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 20)
    assert len(log.segments) == 1

    log.config = settings(segment_bytes=100)
    fill(log, 2)
    assert len(log.segments) == 3


@pytest.mark.parametrize("offset", [-1, 7, 100])
def test_reading_outside_the_log_is_refused(tmp_path: Path, offset: int) -> None:
    log = create(tmp_path)
    fill(log, 6)

    with pytest.raises(OffsetOutOfRange) as refused:
        log.read(offset, 100, limit_offset=6, first_batch_whole=True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_at_the_end_or_the_limit_returns_no_batch(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 6)

    assert len(log.read(6, 100, limit_offset=6, first_batch_whole=True)) == 0
    assert len(log.read(3, 100, limit_offset=3, first_batch_whole=True)) == 0


def test_a_read_never_passes_the_limit_offset(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 300)

    for limit in (1, 5, 100, 299):
        data = log.read(0, 1 << 20, limit_offset=limit, first_batch_whole=True).read()
        assert [header.base_offset for header, _ in batches.iterate(data)] == list(range(limit))


def test_a_batch_larger_than_the_limit_is_returned_whole_only_as_the_first(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 300)
    size = numbered(0)[0].size

    for offset in (0, 150, 299):
        assert len(log.read(offset, 1, limit_offset=300, first_batch_whole=False)) == 0
        assert 0 < len(log.read(offset, 1, limit_offset=300, first_batch_whole=True)) <= size + 8


@hypothesis_settings(max_examples=40)
@given(st.data())
def test_every_read_is_the_longest_run_of_whole_batches_that_fits(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = create(tmp_path_factory.mktemp("log"), settings(segment_bytes=1500))
    sizes: list[tuple[int, int]] = []
    for count in data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=60)):
        header, batch = numbered(log.end_offset, count)
        sizes.append((header.last_offset, header.size))
        log.append([(header, batch)], NOW_MS)
    if data.draw(st.booleans()):
        flush(log)
        log = reopen(log)

    offset = data.draw(st.integers(0, log.end_offset - 1))
    limit = data.draw(st.sampled_from([last + 1 for last, _ in sizes]))
    bytes_max = data.draw(st.integers(0, 3000))
    found = log.read(offset, bytes_max, limit_offset=limit, first_batch_whole=False)

    headers = [header for header, _ in batches.iterate(found.read())]
    assert sum(header.size for header in headers) == len(found) <= bytes_max
    segment_end = next(segment.next_offset for segment in log.segments if segment.next_offset > offset)
    expected: list[int] = []
    room = bytes_max
    for last_offset, size in sizes:
        if offset <= last_offset < min(limit, segment_end):
            room -= size
            if room < 0:
                break
            expected.append(last_offset)
    assert [header.last_offset for header in headers] == expected


class CountingFile(File):
    __slots__ = ("reads",)
    reads: list[int]

    def pread(self, length: int, position: int) -> bytes:
        self.reads.append(position)
        return super().pread(length, position)


class CountingDisk(Disk):
    file_type = CountingFile

    def __init__(self) -> None:
        self.reads: list[int] = []

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        assert isinstance(file, CountingFile)
        file.reads = self.reads
        return file


def test_a_consumer_at_the_tail_costs_no_read_of_the_file(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = create(tmp_path, settings(segment_bytes=1 << 20), disk)
    fill(log, 1000)
    for offset in range(940, 1000):
        log.read(offset, 1 << 20, limit_offset=1000, first_batch_whole=True)
        log.read(offset, 150, limit_offset=1000, first_batch_whole=True)
        log.read(offset, 1 << 20, limit_offset=max(offset, 990), first_batch_whole=True)

    assert disk.reads == []


def test_a_sequential_consumer_gets_every_batch_once_without_index_searches(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = create(tmp_path, settings(segment_bytes=1 << 20), disk)
    fill(log, 1000)
    found: list[int] = []
    offset = 0
    while offset < 800:
        disk.reads.clear()
        part = log.read(offset, 2000, limit_offset=1000, first_batch_whole=True)
        # The bytes that it reads serve to find the end of the range.
        assert offset == 0 or min(disk.reads) > part.position + 1000
        found += [header.base_offset for header, _ in batches.iterate(part.read())]
        offset = found[-1] + 1
    assert found == list(range(offset))


def test_a_truncation_evicts_the_remembered_end_of_a_read(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 1000)
    ended = 0
    for _ in range(4):
        part = log.read(ended, 2000, limit_offset=1000, first_batch_whole=True)
        ended = [header for header, _ in batches.iterate(part.read())][-1].next_offset
    log.truncate_to(ended - 10).run()
    while log.end_offset < 1000:
        # The new batches have another size than the truncated ones.
        log.append([numbered(log.end_offset, 3)], NOW_MS)
    first = batches.read_header(log.read(ended, 2000, limit_offset=1000, first_batch_whole=True).read())
    assert first.base_offset <= ended <= first.last_offset


def test_a_read_range_stays_readable_after_retention_removes_its_segment(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 30)
    found = log.read(0, 1 << 20, limit_offset=30, first_batch_whole=True)
    before = found.read()

    log.advance_start(30).run()

    assert names_in(log, ".log") == [f"{log.segments[0].base_offset:020d}.log"]
    assert found.read() == before
    assert found.fileno() >= 0


def test_old_and_surplus_segments_expire(tmp_path: Path) -> None:
    log = create(tmp_path, settings(retention_ms=1000))
    fill(log, 30)
    assert not log.expire(NOW_MS + 1000, 30)

    garbage = log.expire(NOW_MS + 1001, 20)
    assert garbage
    assert 0 < log.start_offset <= 20, "never past the high watermark"
    garbage.run()
    assert offsets(log) == list(range(log.start_offset, 30))

    log.expire(NOW_MS + 1001, 30).run()
    assert (log.start_offset, log.end_offset) == (30, 30), "the active segment goes too, after a new one is begun"
    fill(log, 1)
    assert offsets(log) == [30]
    assert names_in(log, ".deleted") == []


def test_retention_never_shrinks_a_log_below_retention_bytes(tmp_path: Path) -> None:
    log = create(tmp_path, settings(retention_bytes=2500))
    fill(log, 100)

    log.expire(NOW_MS, 100).run()

    assert 2500 <= log.size_bytes < 2500 + 1024
    assert offsets(log) == list(range(log.start_offset, 100))


def test_deleted_records_are_hidden_at_once(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 30)
    log.advance_start(17).run()

    assert offsets(log) == list(range(17, 30))
    with pytest.raises(OffsetOutOfRange):
        log.read(16, 100, limit_offset=30, first_batch_whole=True)
    for offset in (16, 31):
        with pytest.raises(OffsetOutOfRange):
            log.advance_start(offset)
    assert log.epochs.starts == [(0, 17)]


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 15, 29, 30, 99])
def test_a_truncated_log_continues_from_its_new_end(tmp_path: Path, offset: int) -> None:
    log = create(tmp_path)
    fill(log, 30)
    flush(log)

    log.truncate_to(offset).run()
    end_offset = min(offset, 30)
    assert (log.end_offset, log.flushed_offset) == (end_offset, end_offset)
    assert offsets(log) == list(range(end_offset))

    fill(log, 20)
    assert offsets(log) == list(range(end_offset + 20))
    flush(log)
    assert contents(reopen(log)) == contents(log)
    log.close()
    assert contents(reopen(log, clean=True)) == contents(reopen(log))


def test_a_deleted_log_frees_its_name_at_once_and_removes_its_files_later(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 3)
    found = log.read(0, 1 << 20, limit_offset=3, first_batch_whole=True)
    garbage = log.delete()

    assert not log.directory.exists()
    create(tmp_path)
    assert [path.name.endswith("-delete") for path in sorted(tmp_path.iterdir())] == [False, True]
    assert len(found.read()) == len(found)
    garbage.run()
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]
    with pytest.raises(LogFailed):
        fill(log, 1)


def test_a_closed_log_refuses_appends(tmp_path: Path) -> None:
    log = create(tmp_path)
    log.close()

    with pytest.raises(LogFailed) as refused:
        fill(log, 1)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(LogFailed):
        log.truncate_to(0)
    assert not log.expire(NOW_MS, 0)


def test_sealed_segments_close_their_files_when_idle(tmp_path: Path) -> None:
    log = create(tmp_path, settings(retention_ms=-1))
    fill(log, 30)
    flush(log)

    def open_files() -> int:
        return sum(segment._file is not None for segment in log.segments)

    assert offsets(log) == list(range(30))
    log.expire(NOW_MS, 30)
    assert open_files() == len(log.segments), "read since the last time"
    log.expire(NOW_MS, 30)
    assert open_files() == 1
    assert offsets(log) == list(range(30))


def test_a_flush_covers_the_batches_appended_before_it_was_planned(tmp_path: Path) -> None:
    log = create(tmp_path, disk=Disk())
    assert log.flush_task() is None
    fill(log, 25)
    task = log.flush_task()
    assert task is not None
    fill(log, 10)
    task.run()
    log.flushed(task)

    assert log.flushed_offset == 25
    flush(log)
    assert log.flushed_offset == 35
    assert log.flush_task() is None


def test_a_flush_does_not_count_for_offsets_truncated_meanwhile(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 25)
    task = log.flush_task()
    assert task is not None
    log.truncate_to(5)
    fill(log, 15)
    task.run()
    log.flushed(task)

    assert log.flushed_offset == 0
    flush(log)
    log.close()
    assert offsets(reopen(log, clean=True)) == list(range(20))
