import logging
import os
from collections import Counter
from pathlib import Path

import pytest

from headwater.errors import CorruptBatch
from headwater.storage import names
from headwater.storage.disk import Disk, File
from headwater.storage.log import Log
from tests.storage.recovery.crashes import RecordingDisk, crash
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


class CountingDisk(Disk):
    """Counts the bytes read by file suffix."""

    def __init__(self) -> None:
        self.bytes_read: Counter[str] = Counter()
        disk = self

        class CountingFile(File):
            def pread(self, length: int, position: int) -> bytes:
                disk.bytes_read[self.path.suffix] += length
                return super().pread(length, position)

            def pread_into(self, buffer: memoryview, position: int) -> int:
                disk.bytes_read[self.path.suffix] += len(buffer)
                return super().pread_into(buffer, position)

        self.file_type = CountingFile


def test_a_clean_start_of_many_partitions_reads_no_record(tmp_path: Path) -> None:
    logs: list[Log] = []
    for number in range(40):
        log = create(tmp_path / str(number))
        for n in range(30):
            header, data = produced(n, n)
            log.producers.update(header, NOW_MS)
            log.append([(header, data)], NOW_MS)
        log.close()
        logs.append(log)
    disk = CountingDisk()

    again = [reopen(log, clean=True, disk=disk) for log in logs]

    assert [log.end_offset for log in again] == [30] * 40
    assert disk.bytes_read[".log"] == 0
    assert all(log.producers.check(produced(30, 30)[0]) is None for log in again)
    fill(again[0], 20)
    assert offsets(again[0]) == list(range(50))


def test_after_a_crash_little_more_is_read_than_what_follows_the_recovery_point(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 30))
    for offset in range(40):
        header, data = staged(
            [record(offset, b"k", bytes(1 << 20))], producer_id=7, producer_epoch=0, base_sequence=offset
        )
        log.producers.update(header, NOW_MS)
        log.append([(header, data)], NOW_MS)
        flush(log)
    disk = CountingDisk()

    again = reopen(log, disk=disk)

    assert again.end_offset == 40
    assert disk.bytes_read[".log"] < 24 << 20
    state, before = again.producers.get(7), log.producers.get(7)
    assert state is not None
    assert before is not None
    assert state.last_sequence == before.last_sequence
    assert len(names_in(log, ".snapshot")) == 1


def test_recovery_reports_damage_in_one_line_and_otherwise_only_for_debugging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log = create(tmp_path)
    fill(log, 30)
    reports: list[str] = []
    reopen(log, recovery_point=0, reports=reports)
    size = log.size_bytes
    assert reports == []
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", f"orders-0: recovered from offset 0 to 30, {size} bytes verified; nothing was damaged")
    ]

    log.segments[2].path(".log").write_bytes(b"\0" * 100)
    (log.directory / "00000000000000000099.log.deleted").write_bytes(b"")
    reports.clear()
    reopen(log, recovery_point=0, reports=reports)
    assert len(reports) == 1
    assert reports[0].startswith("recovered from offset 0 to 28")
    assert "cut 100 bytes of 00000000000000000028.log" in reports[0]
    assert "removed 1 leftover files" in reports[0]


@pytest.mark.parametrize("cut", [1, 11, 60, 61, 71])
def test_a_torn_batch_is_cut_off(tmp_path: Path, cut: int) -> None:
    log = create(tmp_path)
    fill(log, 5)
    path = log.segments[0].path(".log")
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])

    again = reopen(log)

    assert offsets(again) == [0, 1, 2, 3]
    assert path.stat().st_size == again.size_bytes
    fill(again, 1)
    assert path.read_bytes() == whole


def test_segments_behind_a_gap_are_dropped(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 60)
    second = log.segments[1]
    size = numbered(20)[0].size
    whole = second.path(".log").read_bytes()
    second.path(".log").write_bytes(
        whole[: -2 * size]
    )  # ends with a whole batch, but the next segment's base offset does not follow

    again = reopen(log, recovery_point=5)

    assert offsets(again) == list(range(log.segments[2].base_offset - 2))
    assert names_in(again, ".log") == ["00000000000000000000.log", f"{second.base_offset:020d}.log"]
    fill(again, 20)
    assert offsets(reopen(again, recovery_point=5)) == list(range(again.end_offset))


def test_segments_behind_a_missing_segment_are_dropped(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 60)
    log.segments[1].path(".log").unlink()

    again = reopen(log, recovery_point=0)
    assert again.end_offset == log.segments[1].base_offset


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd", "zeros"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_index_is_rebuilt(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    log = create(tmp_path)
    for offset in range(60):
        log.append([numbered(offset, timestamp=NOW_MS + offset)], NOW_MS)
    log.close()
    whole = {name: (log.directory / name).read_bytes() for name in names_in(log, suffix)}
    for name, data in whole.items():
        path = log.directory / name
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({"empty": b"", "odd": data + b"x", "zeros": bytes(len(data))}[damage])
    reports: list[str] = []

    again = reopen(log, clean=clean, reports=reports)

    assert offsets(again) == list(range(60))
    assert len(again.read(33, 1, limit_offset=60, first_batch_whole=True)) > 0
    found = again.timestamp_lookup(NOW_MS + 33, 60).run()
    if damage != "empty" or suffix != ".timeindex":
        # A segment without timestamps has an empty time index, so an emptied one cannot be recognised.
        assert found is not None
        assert found.offset == 33
    again.close()
    if damage in {"missing", "odd"}:
        assert reports
        assert {name: (log.directory / name).read_bytes() for name in whole} == whole


def test_a_log_inconsistent_with_its_clean_stop_is_recovered(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 30)
    log.close()
    reports: list[str] = []
    again = reopen(log, clean=True, recovery_point=3, reports=reports)

    assert offsets(again) == list(range(30))
    assert "not as a clean shutdown at offset 3 leaves it" in reports[0]


def test_an_empty_directory_becomes_an_empty_log_at_its_start_offset(tmp_path: Path) -> None:
    log = create(tmp_path)
    for path in log.directory.iterdir():
        path.unlink()
    again = reopen(log, recovery_point=30, start_offset=40)

    assert (again.start_offset, again.end_offset) == (40, 40)
    fill(again, 3)
    assert offsets(again) == [40, 41, 42]


def test_a_log_that_lost_flushed_records_is_not_opened(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 10)
    path = log.active.path(names.LOG)
    os.truncate(path, log.active.locate(7))

    with pytest.raises(CorruptBatch, match=r"ends at offset 7.*log verify"):
        reopen(log, recovery_point=10)
    assert reopen(log, recovery_point=7).end_offset == 7
    for path in log.directory.iterdir():
        path.unlink()
    with pytest.raises(CorruptBatch, match="ends at offset 3"):
        reopen(log, recovery_point=10, start_offset=3)


@pytest.mark.parametrize("recovery_point", [9, 10])
def test_a_batch_whose_offset_rotted_does_not_become_the_end_of_the_log(tmp_path: Path, recovery_point: int) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 10)
    path = log.active.path(names.LOG)
    data = bytearray(path.read_bytes())
    # The base offset lies outside the checksum's range.
    data[log.active.locate(8) + 4] ^= 4
    path.write_bytes(data)

    with pytest.raises(CorruptBatch, match=f"once ended at {recovery_point}.*log verify"):
        reopen(log, recovery_point=recovery_point)
    assert path.read_bytes() == data


def test_a_log_that_ends_before_its_start_offset_is_emptied_and_begins_there(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 10)
    again = reopen(log, recovery_point=0, start_offset=100)
    assert (again.start_offset, again.end_offset) == (100, 100)
    fill(again, 1)
    assert offsets(reopen(again, recovery_point=0)) == [100]


def test_segments_before_the_start_offset_do_not_come_back(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 40)
    flush(log)
    again = reopen(log, start_offset=20)
    assert offsets(again) == list(range(20, 40))
    assert names_in(again, ".log")[0] == "00000000000000000014.log"


def test_leader_epochs_survive_a_crash(tmp_path: Path) -> None:
    log = create(tmp_path)
    for offset in range(30):
        log.append([numbered(offset, leader_epoch=offset // 7)], NOW_MS)
    starts = [(epoch, 7 * epoch) for epoch in range(5)]
    assert reopen(log, recovery_point=0).epochs.starts == starts

    flush(log)
    assert reopen(log).epochs.starts == starts
    log.segments[-1].path(".log").write_bytes(b"")
    again = reopen(log, recovery_point=0)
    assert again.end_offset == 28
    assert again.epochs.starts == starts, "an epoch whose batches are gone is not given again"
    log.segments[-2].path(".log").write_bytes(b"")
    assert reopen(again, recovery_point=0).epochs.starts == [*starts[:2], (4, 14)]


def test_old_snapshots_are_removed(tmp_path: Path) -> None:
    log = create(tmp_path)
    for _ in range(4):
        fill(log, 3)
        log.close()
        log = reopen(log, clean=True)
    assert names_in(log, ".snapshot") == ["00000000000000000012.snapshot"]
    fill(log, 30)
    log.close()
    assert names_in(reopen(log, clean=True), ".snapshot") == [
        "00000000000000000014.snapshot",
        "00000000000000000028.snapshot",
        "00000000000000000042.snapshot",
    ]


def test_batches_larger_than_a_block_are_recovered(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 30))
    big = bytes(5 << 20)
    log.append([staged([record(0, b"k", big)]), numbered(1), staged([record(2, b"k", big)])], NOW_MS)
    again = reopen(log)
    assert again.end_offset == 3
    assert contents(again, bytes_max=1) == contents(log, bytes_max=1)


@pytest.mark.parametrize("lost", [b"0\n9\n", b"\xff\xfe", None])
@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_whose_file_is_lost_are_read_from_the_batches(
    tmp_path: Path, lost: bytes | None, clean: bool
) -> None:
    log = create(tmp_path)
    for offset in range(60):
        log.append([numbered(offset, leader_epoch=offset // 23)], NOW_MS)
    log.close()
    starts = list(log.epochs.starts)
    path = log.directory / "leader-epoch-checkpoint"
    path.unlink() if lost is None else path.write_bytes(lost)

    again = reopen(log, clean=clean)

    assert again.epochs.starts == starts == [(0, 0), (1, 23), (2, 46)]


def test_an_epoch_in_which_nothing_was_written_yet_survives(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 5)
    log.begin_epoch(3)
    assert log.epochs.starts == [(0, 0), (3, 5)]
    assert reopen(log).epochs.starts == log.epochs.starts
    log.close()
    again = reopen(log, clean=True)
    assert again.epochs.starts == log.epochs.starts

    again.begin_epoch(4)
    assert reopen(again).epochs.starts == [(0, 0), (4, 5)], "an epoch without batches leaves no trace"


def test_epochs_removed_by_a_truncation_do_not_come_back(tmp_path: Path) -> None:
    log = create(tmp_path)
    for offset in range(12):
        log.append([numbered(offset, leader_epoch=offset // 4)], NOW_MS)
    log.truncate_to(8).run()
    fill(log, 5, leader_epoch=1)
    assert reopen(log).epochs.starts == [(0, 0), (1, 4)]


def test_records_left_by_a_crash_are_flushed_before_they_are_served(tmp_path: Path) -> None:
    """File names of segments included: the next crash must not take back records served since this one."""
    disk = RecordingDisk()
    log = create(tmp_path, disk=disk)
    fill(log, 30)
    assert len(log.segments) > 2

    again = reopen(log, disk=disk)

    assert (again.flushed_offset, again.end_offset) == (30, 30)
    survivors = crash(disk.steps, "nothing unsynced")
    assert {name: data for name, data in survivors.items() if name.endswith(".log")} == {
        segment.path(".log").name: segment.path(".log").read_bytes() for segment in log.segments
    }


def test_every_removal_is_reported(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 30)
    reports: list[str] = []
    size = sum(segment.size for segment in log.segments[:1])
    reopen(log, start_offset=20, reports=reports)
    assert f"removed 1 segments of {size} bytes that end before the start offset 20" in reports[0]

    reports.clear()
    reopen(log, recovery_point=20, start_offset=100, reports=reports)
    assert "that end before the start offset 100" in reports[0]


def test_damage_before_the_recovery_point_is_refused_and_not_cut_off(tmp_path: Path) -> None:
    """A crash damages only the unflushed end of a log, so damage before the recovery point has another cause."""
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    fill(log, 10)
    flush(log)
    path = log.directory / names.file_name(0, names.LOG)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptBatch, match="log verify"):
        reopen(log, recovery_point=10)
    assert path.read_bytes() == data
    assert 0 < reopen(log, recovery_point=0).end_offset < 10
