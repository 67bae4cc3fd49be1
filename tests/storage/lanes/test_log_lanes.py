"""The lanes of a log, whatever becomes of the log and of their files."""

from pathlib import Path
from random import Random

import pytest

from headwater.config.topic import TopicConfig
from headwater.protocol.batches.compression import Codec
from headwater.storage.cleaning import compaction
from headwater.storage.disk import Disk
from headwater.storage.inspection.segment_report import inspect_lanes
from headwater.storage.lanes import lane_task, log_lanes
from headwater.storage.lanes.lane_task import LaneTask
from headwater.storage.log_factory import open_log
from tests.storage.lanes.lane_cases import append, check, expanded, find_out, known_lanes, shown
from tests.storage.recovery.crashes import MODES, Mode, RecordingDisk, crash, materialize
from tests.support.storage.builders import NOW_MS, create, flush, reopen, settings

ALL = [4, None, 0, 1, 2, 3, 0, 0, 4, 4, None]


def test_lanes_of_all_batches(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    written: list[int | None] = []
    for codec in (Codec.NONE, Codec.ZSTD, Codec.NONE, Codec.GZIP):
        append(log, *ALL, codec=codec)
        append(log, 0, codec=codec)
        written += [*ALL, 0]
    assert len(log.segments) > 2
    lanes = known_lanes(log)
    assert shown(log, lanes) == expanded(0, written)
    assert [path.exists() for path in (segment.path(".lanes") for segment in log.segments)] == [
        *[True] * (len(log.segments) - 1),
        False,
    ]
    append(log, 3, 0)
    (task,) = find_out(log, lanes)
    assert task.size_bytes < 200, "what is known is not read again"
    check(log, lanes)


@pytest.mark.parametrize("clean", [True, False])
def test_files_are_read_after_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool) -> None:
    monkeypatch.setattr(log_lanes, "LACKING_BYTES_MIN", 100)
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    known_lanes(log)
    flush(log)
    log.close(clean=clean)
    log = reopen(log, clean=clean)
    reports: list[str] = []
    lanes = log_lanes.LogLanes(log, reports.append)
    tasks = find_out(log, lanes)
    assert [task.stored_position for task in tasks] == [segment.size for segment in log.segments]
    assert reports == []
    check(log, lanes)


def test_large_files_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_task, "MAPPED_BYTES_MIN", 1)
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    lanes = known_lanes(log)
    check(log, lanes)
    check(log, known_lanes(log))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=300))
    for _ in range(4):
        append(log, *ALL)
    known_lanes(log)
    path = log.segments[0].path(".lanes")
    right = path.read_bytes()
    assert inspect_lanes(Disk(), log.segments[0].path(".log")) == ()
    chance = Random(1)
    for _ in range(60):
        wrong = bytearray(right)
        wrong[chance.randrange(len(wrong))] ^= 1 << chance.randrange(8)
        path.write_bytes(wrong)
        (problem,) = inspect_lanes(Disk(), log.segments[0].path(".log"))
        assert path.name in problem
        reports: list[str] = []
        check(log, known_lanes(log, reports))
        assert len(reports) == 1
        assert "is built anew" in reports[0]
        assert path.read_bytes() == right, "the file is whole again"


def test_a_damaged_segment_still_has_all_its_offsets(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    path = log.segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    reports: list[str] = []
    lanes = known_lanes(log, reports)
    assert sorted(shown(log, lanes)) == [*range(log.end_offset)]
    assert len(reports) == 1
    assert "checksum" in reports[0]
    assert not log.segments[1].path(".lanes").exists(), "the next start looks again"


def test_a_cut_log_forgets_the_lanes_behind_the_cut(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    lanes = known_lanes(log)
    revision = lanes.revision
    cut = log.segments[1].base_offset + len(ALL)
    log.truncate_to(cut).run()
    append(log, *[0] * 20, leader_epoch=1)
    find_out(log, lanes)
    assert lanes.revision > revision
    check(log, lanes)
    check(log, known_lanes(log))


def test_compaction_and_deletion_keep_the_lanes_of_what_is_left(tmp_path: Path) -> None:
    config = settings(segment_bytes=500, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    log = create(tmp_path, config)
    for number in range(60):
        append(log, number % 5, key=b"%d" % (number % 7))
    flush(log)
    lanes = known_lanes(log)
    task = compaction.plan(log, NOW_MS, log.end_offset)
    assert task is not None
    task.run(1 << 20, lambda: False)
    log.install(task).run()
    find_out(log, lanes)
    check(log, lanes)
    check(log, known_lanes(log))
    log.advance_start(log.segments[-1].base_offset).run()
    lanes.refresh()
    check(log, lanes)
    files = sorted(path.name for path in log.directory.glob("*.lanes"))
    assert len(files) <= len(log.segments)


def test_the_results_of_a_task_that_was_overtaken_are_ignored(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    lanes = known_lanes(log)
    append(log, 0, 0)
    task = lanes.plan(0)
    assert task is not None
    task.run()
    log.truncate_to(log.end_offset - 2).run()
    append(log, 4, 4, leader_epoch=1)
    lanes.install(task)
    find_out(log, lanes)
    check(log, lanes)


def test_a_full_disk_costs_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(log.disk), "replace_file", full)
    check(log, known_lanes(log))
    assert log.failure is None
    assert not list(log.directory.glob("*.lanes*"))


def test_a_segment_that_leaves_takes_its_file_along(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=600))
    for _ in range(12):
        append(log, *ALL)
    lanes = log_lanes.LogLanes(log, [].append)
    while (task := lanes.plan(0)) is not None:
        task.run()
        lanes.install(task)
    file_task = lanes.plan_file()
    assert file_task is not None
    log.advance_start(log.active.base_offset).run()
    file_task.run()
    lanes.install_file(file_task)
    assert not list(log.directory.glob("*.lanes*")), "also if it is written while the segment leaves"


def power_loss_life(tmp_path: Path, config: TopicConfig) -> RecordingDisk:
    """A log whose lanes are asked for while it grows, is rolled, flushed, compacted and cut at its start."""
    disk = RecordingDisk()
    log = create(tmp_path, config, disk)
    lanes = log_lanes.LogLanes(log, [].append)
    for number in range(14):
        append(log, *[(number * 7 + at * 3) % 5 for at in range(6)], key=b"%d" % (number % 3))
        if number % 3 == 1:
            flush(log)
        if number % 2:
            find_out(log, lanes)
        if number == 9:
            task = compaction.plan(log, NOW_MS, log.flushed_offset)
            if task is not None:
                task.run(1 << 20, lambda: False)
                log.install(task).run()
        if number == 11:
            log.advance_start(log.segments[1].base_offset).run()
    return disk


def survive(tmp_path: Path, policy: str, mode: Mode) -> None:
    """Every crash of a life, each followed by records that take the offsets of lost ones, in other lanes."""
    config = settings(segment_bytes=700, cleanup_policy=frozenset({policy}), min_cleanable_dirty_ratio=0.0)
    disk = power_loss_life(tmp_path, config)
    directory = tmp_path / "crashed" / "orders-0"
    assert any(each.path.endswith(".lanes.tmp") for each in disk.steps), "the life writes files"
    for step in range(1, len(disk.steps) + 1):
        files = crash(disk.steps[:step], mode, seed=step)
        if not any(name.endswith(".log") for name in files):
            continue
        materialize(files, directory)
        for epoch in (1, 2):
            log = open_log(
                Disk(),
                directory,
                config,
                clean=False,
                recovery_point=0,
                start_offset=0,
                now_ms=NOW_MS,
                report=[].append,
            )
            check(log, known_lanes(log))
            append(log, *[(step + at) % 5 for at in range(9)], leader_epoch=epoch)
            check(log, known_lanes(log))
            log.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_lanes_are_right_after_a_power_failure_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, policy: str
) -> None:
    monkeypatch.setattr(log_lanes, "LACKING_BYTES_MIN", 100)
    survive(tmp_path, policy, mode)


@pytest.mark.slow
def test_power_failures_find_an_index_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lanes, "LACKING_BYTES_MIN", 100)
    monkeypatch.setattr(LaneTask, "_check", lambda *_: None)
    with pytest.raises((AssertionError, ValueError)):
        survive(tmp_path, "delete", "unsynced")
