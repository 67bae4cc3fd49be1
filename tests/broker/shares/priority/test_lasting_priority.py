"""Priorities last: over restarts and crashes, compaction, retention, and whatever becomes of the index."""

import os
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.errors import CorruptBatch
from headwater.storage.lanes import log_lanes
from headwater.storage.lanes.lane_task import LaneTask
from tests.broker.shares.priority.priority_cases import counts, lanes_in, put, queue, taken
from tests.broker.shares.share_commands import RELEASE, SETTINGS, Shared, loaded
from tests.support.broker.embedded_broker import crash, run, running, start


async def fill(jobs: Shared) -> None:
    """600 records of all lanes in some segments."""
    for _ in range(6):
        await put(jobs, *[number % 5 for number in range(100)])


def index_files(jobs: Shared) -> list[Path]:
    return sorted(jobs.partition.directory.glob("*.lanes"))


async def restarted(tmp_path: Path, jobs: Shared, *, cleanly: bool = True) -> tuple[Broker, Shared]:
    await (jobs.broker.stop() if cleanly else crash(jobs.broker))
    broker = start(tmp_path, SETTINGS)
    again = await loaded(broker, jobs)
    return broker, again


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each task reads of its segment, beside its file."""
    scanned: list[int] = []
    run_task = LaneTask.run

    def counted(task: LaneTask) -> None:
        run_task(task)
        scanned.append(task.size_bytes - (task.stored_position or 0))

    monkeypatch.setattr(LaneTask, "run", counted)
    return scanned


@pytest.mark.parametrize("cleanly", [True, False])
async def test_a_restart_keeps_priorities_and_reads_no_sealed_segment_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleanly: bool
) -> None:
    jobs = await queue(start(tmp_path, SETTINGS), segment_bytes="4000")
    await fill(jobs)
    lanes = lanes_in(jobs)
    got = await taken(jobs, 200)
    held = await jobs.fetched(records_max=3)
    await jobs.acknowledge(held[0][0], held[0][0], RELEASE)
    sealed = len(jobs.partition._log.segments) - 1
    assert sealed > 2
    broker, jobs = await restarted(tmp_path, jobs, cleanly=cleanly)
    try:
        assert len(index_files(jobs)) >= sealed - 1, "all but the last file were written in time"
        scanned = count_scans(monkeypatch)
        rest = await taken(jobs, 300, at_once=50)
        assert sorted(scanned)[:-2] == [0] * (len(scanned) - 2), "at most one sealed segment, and the active one"
        assert not set(rest) & set(got)
        assert counts([lanes[offset] for offset in got]) == [100, 50, 30, 14, 6]
        remaining = counts([*lanes.values()])
        assert min(rest + got) == 0
        assert counts([lanes[offset] for offset in rest])[0] == min(150, remaining[0] - 100)
    finally:
        await broker.stop()


async def test_the_file_of_an_active_segment_saves_a_restart_most_of_its_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lanes, "LACKING_BYTES_MIN", 1000)
    jobs = await queue(start(tmp_path, SETTINGS))
    await fill(jobs)
    await taken(jobs, 1)
    await put(jobs, 0)
    await taken(jobs, 1)
    broker, jobs = await restarted(tmp_path, jobs)
    try:
        assert len(index_files(jobs)) == 1
        scanned = count_scans(monkeypatch)
        assert len(await taken(jobs, 100)) == 100
        (read,) = scanned
        assert read < 1000
    finally:
        await broker.stop()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "gone"])
async def test_a_damaged_index_is_noticed_and_built_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = await queue(start(tmp_path, SETTINGS), segment_bytes="4000")
    await fill(jobs)
    await taken(jobs, 10)
    broker, jobs = await restarted(tmp_path, jobs)
    files = index_files(jobs)
    await broker.stop()
    other = files[-1].read_bytes()
    for path in files[:2]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 16
        match damage:
            case "flip":
                path.write_bytes(data)
            case "cut":
                os.truncate(path, 70)
            case "empty":
                os.truncate(path, 0)
            case "other":
                path.write_bytes(other)
            case _:
                path.unlink()
    broker = start(tmp_path, SETTINGS)
    try:
        jobs = await loaded(broker, jobs)
        lanes = lanes_in(jobs)
        assert counts([lanes[offset] for offset in await taken(jobs, 100)]) == [50, 25, 15, 7, 3]
        assert ("is built anew" in caplog.text) == (damage != "gone")
    finally:
        await broker.stop()


async def test_damaged_records_of_one_lane_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lanes, "LACKING_BYTES_MIN", 1000)
    jobs = await queue(start(tmp_path, SETTINGS), index_interval_bytes="0")
    for number in range(40):
        await put(jobs, number % 5)
    await taken(jobs, 1)
    await jobs.broker.stop()
    (segment,) = jobs.partition.directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    # A record of lane 0 in the middle.
    data[len(data) * 21 // 40 - 5] ^= 1
    segment.write_bytes(data)
    broker = start(tmp_path, SETTINGS)
    try:
        jobs = await loaded(broker, jobs)
        got: list[int] = []
        while True:
            (read,) = await run(jobs.fetch(records_max=3, wait_ms=100).wait())
            if read.error is not None or not read.acquired:
                break
            for first, last, _ in read.acquired:
                await jobs.acknowledge(first, last, 1)
                got += range(first, last + 1)
        assert isinstance(read.error, CorruptBatch)
        assert set(range(1, 20)) <= set(got)
        assert {*range(40)} - {*got} < {0, 20, 25, 30, 35, 21, 22, 23, 24}, "the damage stops its own lane alone"
        assert 20 not in got
        assert len(got) == len(set(got))
    finally:
        await broker.stop()


async def test_an_index_of_other_batches_is_not_trusted(tmp_path: Path) -> None:
    """As if power had failed before records were on disk that the index covers, and others had taken their offsets."""
    jobs = await queue(start(tmp_path, SETTINGS), segment_bytes="4000")
    await put(jobs, *[4, 0] * 200)
    await put(jobs, *[4, 0] * 200)
    await taken(jobs, 1)
    broker, jobs = await restarted(tmp_path, jobs, cleanly=False)
    await crash(broker)
    (file, *_) = index_files(jobs)
    for path in jobs.partition.directory.glob("*.log"):
        if path.stem != file.stem:
            path.unlink()
    os.truncate(file.with_suffix(".log"), 0)
    (tmp_path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    broker = start(tmp_path, SETTINGS)
    try:
        jobs = await loaded(broker, jobs)
        assert jobs.partition.end_offset == 0
        assert file.exists()
        await put(jobs, *[0, 4] * 200)
        await put(jobs, 1)
        assert await taken(jobs, 3) == [0, 2, 4]
    finally:
        await broker.stop()


async def test_compaction_keeps_priorities(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "segment_bytes": "2000"}
        jobs = await queue(broker, **settings)
        for number in range(150):
            await put(jobs, number % 5, key=b"%d" % (number % 90), value=b"%d" % number)
        got = await taken(jobs, 30)
        before = jobs.partition._log.segments[0]
        await broker.housekeeping.compact()
        assert jobs.partition._log.segments[0] is not before
        lanes = lanes_in(jobs)
        left = [offset for offset in lanes if offset not in got]
        assert len(left) < 100
        urgent = [offset for offset in left if lanes[offset] == 0]
        following = await taken(jobs, 20)
        assert [offset for offset in following if offset in urgent] == urgent[: len(set(following) & set(urgent))]
        rest = await taken_all(jobs)
        assert sorted({*following, *rest} & set(lanes)) == left, "each is given once, and none is forgotten"
        share = broker.shares.find(jobs.id)
        assert share is not None
        assert share.runs.unfinished_count == 0, [*share.runs]


async def taken_all(jobs: Shared) -> list[int]:
    """All that is left, with what compaction left of the others."""
    offsets: list[int] = []
    while ranges := await jobs.fetched(wait_ms=0):
        for first, last, _ in ranges:
            await jobs.acknowledge(first, last, 1)
            offsets += range(first, last + 1)
    return offsets


async def test_retention_takes_the_index_along(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker, segment_bytes="4000")
        await fill(jobs)
        await taken(jobs, 10)
        assert (await jobs.fetched(records_max=2))[0][0] < 100
        await run(broker.delete_records("jobs", 0, 350))
        lanes = lanes_in(jobs)
        assert counts([lanes[offset] for offset in await taken(jobs, 100)])[3:] == [7, 3]
        bases = {path.stem for path in jobs.partition.directory.glob("*.log")}
        assert {path.stem for path in index_files(jobs)} <= bases
        assert len(await taken_all(jobs)) == 250 - 100


async def test_segments_that_no_group_needs_any_more_are_released(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker, segment_bytes="4000")
        for _ in range(10):
            await fill(jobs)
            assert len(await taken(jobs, 600, at_once=100)) >= 600
            lanes = broker.shares.priorities._lanes_of(jobs.partition).lanes
            assert lanes.segment_count <= 8
        assert len(jobs.partition._log.segments) > 40
