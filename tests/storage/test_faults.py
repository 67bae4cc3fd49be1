"""Disk faults: full disks, I/O errors, and flipped bits."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.batch import Buffer
from headwater.storage.cleaning import compaction
from headwater.storage.disk import Disk, File
from headwater.storage.errors import DiskFull, LogFailed
from headwater.storage.log import Log
from tests.support.storage.builders import (
    NOW_MS,
    contents,
    create,
    fill,
    flush,
    names_in,
    numbered,
    offsets,
    produced,
    record,
    reopen,
    settings,
    staged,
)


class FaultyDisk(Disk):
    """Accepts `room` more bytes, then fails with `error`; the write that hits the limit is a short one."""

    def __init__(self) -> None:
        self.room = 1 << 40
        self.error = errno.ENOSPC
        self.sync_error: int | None = None
        self.truncate_error: int | None = None
        self.rename_error: int | None = None
        disk = self

        class FaultyFile(File):
            @staticmethod
            def _write_vector(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
                if disk.room == 0:
                    raise OSError(disk.error, os.strerror(disk.error))
                data = b"".join(buffers)[: disk.room]
                disk.room -= len(data)
                return os.pwrite(descriptor, data, position)

            def truncate(self, size: int) -> None:
                if disk.truncate_error is not None:
                    raise OSError(disk.truncate_error, os.strerror(disk.truncate_error))
                super().truncate(size)

            def sync_data(self) -> None:
                if disk.sync_error is not None:
                    raise OSError(disk.sync_error, os.strerror(disk.sync_error))
                super().sync_data()

        self.file_type = FaultyFile

    def rename(self, source: Path, target: Path) -> None:
        if self.rename_error is not None:
            raise OSError(self.rename_error, os.strerror(self.rename_error))
        super().rename(source, target)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.mark.parametrize("room", [0, 1, 60, 100, 150])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_refuses_the_append_and_leaves_the_log_as_it_was(
    tmp_path: Path, disk: FaultyDisk, room: int, error: int
) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 3)
    before = contents(log), log.end_offset, log.size_bytes
    disk.room, disk.error = room, error

    with pytest.raises(DiskFull) as refused:
        log.append([numbered(3), numbered(4), numbered(5)], NOW_MS)

    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (contents(log), log.end_offset, log.size_bytes) == before
    assert (log.directory / "00000000000000000000.log").stat().st_size == log.size_bytes
    disk.room = 1 << 40
    fill(log, 3)
    assert offsets(log) == list(range(6))
    flush(log)
    assert offsets(reopen(log)) == list(range(6))


@pytest.mark.parametrize("room", range(0, 3000, 217))
def test_a_disk_that_fills_during_a_roll_takes_back_the_whole_append(
    tmp_path: Path, disk: FaultyDisk, room: int
) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 5)
    flush(log)
    log.append([numbered(5, leader_epoch=4)], NOW_MS)
    before = contents(log), [s.base_offset for s in log.segments], log.epochs.starts
    disk.room = room

    with pytest.raises(DiskFull):
        log.append([numbered(n, leader_epoch=5) for n in range(6, 60)], NOW_MS)

    assert (contents(log), [s.base_offset for s in log.segments], log.epochs.starts) == before
    disk.room = 1 << 40
    fill(log, 40)
    assert offsets(log) == list(range(46))
    assert offsets(reopen(log)) == list(range(46))


def test_sequences_of_batches_refused_by_a_full_disk_are_free_again(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)

    def stage(offset: int, sequence: int) -> tuple[object, ...]:
        header, data = produced(offset, sequence)
        assert log.producers.check(header) is None
        log.producers.update(header, NOW_MS)
        return header, data

    for n in range(3):
        log.append([stage(n, n)], NOW_MS)  # pyright: ignore[reportArgumentType]
    for staged_count in (1, 4, 9):
        disk.room = 0
        with pytest.raises(DiskFull):
            log.append([stage(3 + n, 3 + n) for n in range(staged_count)], NOW_MS)  # pyright: ignore[reportArgumentType]
        log.rebuild_producers()
        state = log.producers.get(7)
        assert state is not None
        assert [batch.base_sequence for batch in state.batches][-1] == 2
        assert log.producers.check(produced(3, 3)[0]) is None
        assert log.producers.check(produced(0, 1)[0]) is not None, "and earlier ones are still recognised"


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
def test_a_broken_disk_stops_the_log_for_good(tmp_path: Path, disk: FaultyDisk, error: int) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 3)
    disk.room, disk.error = 10, error

    with pytest.raises(LogFailed) as refused:
        fill(log, 1)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    assert os.strerror(error) in log.failure

    disk.room = 1 << 40
    with pytest.raises(LogFailed):
        fill(log, 1)
    log.close()
    assert offsets(reopen(log)) == [0, 1, 2]


def test_a_partial_append_that_cannot_be_truncated_stops_the_log(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 3)
    disk.room, disk.truncate_error = 10, errno.EIO

    with pytest.raises(LogFailed):
        fill(log, 1)
    assert log.failure is not None


def test_a_failed_sync_does_not_move_the_flushed_offset(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 3)
    disk.sync_error = errno.EIO
    task = log.flush_task()
    assert task is not None

    with pytest.raises(OSError, match="Input/output"):
        task.run()
    log.fail("flush failed")

    assert log.flushed_offset == 0
    with pytest.raises(LogFailed, match="flush failed"):
        fill(log, 1)


def test_a_disk_too_full_for_an_index_does_not_stop_the_log(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 40)
    disk.room = 0
    flush(log)
    assert (log.flushed_offset, log.failure) == (40, None)
    assert names_in(log, ".index") == []

    disk.room = 1 << 40
    flush(log)
    log.close()
    reports: list[str] = []
    assert offsets(reopen(log, clean=True, reports=reports)) == list(range(40))
    assert reports == []


def test_a_broken_disk_under_an_index_fails_the_flush(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 40)
    disk.room, disk.error = 0, errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        flush(log)


@pytest.mark.parametrize(
    "action",
    [
        lambda log: log.close(),
        lambda log: log.truncate_to(2),
        lambda log: log.roll(NOW_MS),
    ],
)
def test_a_disk_error_during_close_truncation_or_roll_stops_the_log(
    tmp_path: Path, disk: FaultyDisk, action: Callable[[Log], object]
) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 5)
    disk.room, disk.error = 0, errno.EIO
    disk.sync_error = disk.truncate_error = disk.rename_error = errno.EIO
    with pytest.raises(LogFailed):
        action(log)
    assert log.failure is not None


def test_a_removal_that_fails_stops_the_log(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 40)
    disk.rename_error = errno.EIO
    with pytest.raises(LogFailed):
        log.advance_start(40)


def compactable(path: Path, disk: Disk) -> Log:
    config = settings(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    log = create(path, config, disk)
    for offset in range(60):
        log.append([staged([record(offset, b"key%d" % (offset % 7))])], NOW_MS)
    flush(log)
    return log


def test_compaction_on_a_full_disk_leaves_nothing_behind(tmp_path: Path, disk: FaultyDisk) -> None:
    log = compactable(tmp_path, disk)
    for room in (0, 100, 500):
        disk.room = room
        task = compaction.plan(log, NOW_MS, 60)
        assert task is not None
        with pytest.raises(DiskFull):
            task.run(1 << 20, lambda: False)
        assert names_in(log, ".cleaned") == []
        assert not log.install(task)
    disk.room, disk.error = 0, errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        task.run(1 << 20, lambda: False)
    assert offsets(log) == list(range(60))


def test_compaction_never_rewrites_a_damaged_batch_with_a_valid_checksum(tmp_path: Path, disk: FaultyDisk) -> None:
    log = compactable(tmp_path, disk)
    flip(log.segments[1].path(".log"), 70)
    task = compaction.plan(log, NOW_MS, 60)
    assert task is not None
    with pytest.raises(CorruptBatch, match="checksum"):
        task.run(1 << 20, lambda: False)
    assert names_in(log, ".cleaned") == []


def test_a_compaction_that_cannot_be_installed_stops_the_log_and_the_next_start_completes_or_undoes_it(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = compactable(tmp_path, disk)
    task = compaction.plan(log, NOW_MS, 60)
    assert task is not None
    task.run(1 << 20, lambda: False)
    disk.rename_error = errno.EIO
    with pytest.raises(LogFailed):
        log.install(task)
    assert offsets(reopen(log)) == list(range(60))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("position", range(0, 72, 5))
def test_a_flipped_bit_in_the_unflushed_tail_truncates_the_log_there(tmp_path: Path, position: int) -> None:
    log = create(tmp_path)
    fill(log, 30)
    size = numbered(20)[0].size
    segment = log.segments[1]
    flip(segment.path(".log"), 6 * size + position)
    reports: list[str] = []

    again = reopen(log, recovery_point=0, reports=reports)

    # Base offset and leader epoch lie before the checksum's range: a flip there may go unnoticed or look like a gap.
    if position not in range(8) and position not in range(12, 16):
        assert offsets(again) == list(range(segment.base_offset + 6))
        assert len(reports) == 1
        assert "cut" in reports[0]
    assert again.end_offset <= 30


def test_a_flipped_bit_before_the_recovery_point_is_found_when_its_batch_is_read(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 60)
    flush(log)
    flip(log.segments[0].path(".log"), 70)

    again = reopen(log)
    assert again.end_offset == 60
    with pytest.raises(CorruptBatch, match="checksum"):
        contents(again)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_anywhere_in_an_index_never_changes_an_answer(tmp_path: Path, suffix: str, clean: bool) -> None:
    log = create(tmp_path, settings(segment_bytes=2000))
    for offset in range(60):
        log.append([numbered(offset, timestamp=NOW_MS + offset)], NOW_MS)
    log.close()
    for segment in log.segments:
        path = segment.path(suffix)
        whole = path.read_bytes()
        for position in range(len(whole)):
            flip(path, position)
            again = reopen(log, clean=clean)
            assert [again.read(n, 1, limit_offset=60, first_batch_whole=True).length for n in range(0, 60, 7)]
            for n in range(0, 60, 7):
                data = again.read(n, 200, limit_offset=60, first_batch_whole=True).read()
                assert data[:8] == n.to_bytes(8, "big")
                found = again.timestamp_lookup(NOW_MS + n, 60).run()
                assert found is not None
                assert found.offset == n
            assert again.segments[-1].max_time == (NOW_MS + 59, 59)
            path.write_bytes(whole)


@pytest.mark.parametrize("position", [0, 3, 8, 20, 40])
def test_a_damaged_snapshot_is_rebuilt_from_the_log(tmp_path: Path, position: int) -> None:
    log = create(tmp_path)
    for n in range(30):
        header, data = produced(n, n)
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
    log.close()
    flip(log.directory / "00000000000000000030.snapshot", position)
    reports: list[str] = []

    again = reopen(log, clean=True, reports=reports)

    state = again.producers.get(7)
    assert state is not None
    assert state.last_sequence == 29
    assert len(reports) == 1
    assert "snapshot" in reports[0]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n"),
        ("leader-epoch-checkpoint", b"0\n1\nx y\n"),
        ("leader-epoch-checkpoint", b"0\n2\n5 0\n3 9\n"),
        ("cleaner-offset-checkpoint", b"0\n1\nmany\n"),
        ("cleaner-offset-checkpoint", b"\xff"),
    ],
)
def test_a_damaged_checkpoint_loses_only_its_own_offsets(tmp_path: Path, name: str, data: bytes) -> None:
    log = create(tmp_path)
    fill(log, 30)
    log.close()
    (log.directory / name).write_bytes(data)
    reports: list[str] = []

    again = reopen(log, clean=True, reports=reports)

    assert offsets(again) == list(range(30))
    assert len(reports) == 1
    assert name in reports[0]
    assert again.first_dirty_offset == 0


def test_an_epoch_that_a_full_disk_refuses_has_not_begun(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 5)
    disk.room = 0
    for refused in (lambda: log.begin_epoch(1), lambda: log.append([numbered(5, leader_epoch=1)], NOW_MS)):
        with pytest.raises(DiskFull):
            refused()
        assert (log.epochs.starts, log.end_offset, log.failure) == ([(0, 0)], 5, None)
    flush(log)
    assert (log.flushed_offset, log.failure) == (5, None)

    disk.room = 1 << 40
    log.append([numbered(5, leader_epoch=1)], NOW_MS)
    assert reopen(log).epochs.starts == [(0, 0), (1, 5)]


def test_an_epoch_whose_first_batch_a_full_disk_refused_does_not_survive_a_stop(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    log = create(tmp_path, disk=disk)
    fill(log, 5)
    disk.room = 50  # room for the epoch, not for the batch
    with pytest.raises(DiskFull):
        log.append([numbered(5, leader_epoch=1)], NOW_MS)
    assert log.epochs.starts == [(0, 0)]
    disk.room = 1 << 40
    log.close()
    assert reopen(log, clean=True).epochs.starts == [(0, 0)]


def test_a_broken_disk_under_a_new_epoch_stops_the_log(tmp_path: Path, disk: FaultyDisk) -> None:
    log = create(tmp_path, disk=disk)
    disk.rename_error = errno.EIO
    for _ in range(2):
        with pytest.raises(LogFailed):
            log.begin_epoch(1)
