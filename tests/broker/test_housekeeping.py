"""Periodic work on logs (flush, retention, compaction, checkpoints), at times that the test decides."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.clock import ManualClock
from headwater.errors import Refusal
from tests.support.broker.embedded_broker import (
    NOW_MS,
    batch_of,
    crash,
    create,
    produce,
    readable,
    run,
    running,
    sequenced,
    start,
)
from tests.support.broker.faulty_disk import BROKEN, FULL, FaultyDisk

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


async def fill(broker: Broker, partition: Partition, count: int) -> None:
    for number in range(count):
        await produce(broker, partition, batch_of(b"%d" % number, timestamp=broker.clock.now_ms()), acks=1)


# -- flushing


@pytest.mark.parametrize(("flush", "is_flushed"), [("ack", True), ("interval", True), ("os", False)])
async def test_the_interval_flush_covers_all_records_unless_the_mode_is_os(
    tmp_path: Path, flush: str, is_flushed: bool
) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t", headwater_flush=flush)
        await fill(broker, partition, 3)
        await broker.housekeeping.flush_due()
        await run(broker.journal.drain())
        assert partition._log.flushed_offset == (3 if is_flushed else 0)


async def test_flush_ms_flushes_a_log_that_is_left_to_the_operating_system(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(broker, "t", headwater_flush="os", flush_ms="1000")
        await fill(broker, partition, 1)
        for elapsed, flushed in ((0, 0), (999, 0), (1, 1)):
            clock.advance(elapsed)
            await broker.housekeeping.flush_due()
            await run(broker.journal.drain())
            assert partition._log.flushed_offset == flushed
        await broker.topics.delete("t")
        await broker.housekeeping.flush_due()
        assert not broker.housekeeping._dirty_since_ms


# -- retention


async def test_old_records_are_deleted_and_new_ones_kept(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(broker, "t", retention_ms=str(DAY_MS), segment_ms="3600000")
        await fill(broker, partition, 5)
        clock.advance(DAY_MS)
        await fill(broker, partition, 1)
        await run(broker.housekeeping.retain())
        assert partition.start_offset == 0, "exactly a day is not more than a day"

        clock.advance(1)
        await run(broker.housekeeping.retain())

        assert partition.start_offset == 5
        assert [path.name for path in (tmp_path / "t-0").glob("*.log")] == [f"{5:020}.log"]
        with pytest.raises(Exception, match="outside"):
            partition.read(0, 100, limit_offset=6, first_batch_whole=True)
        assert readable(partition) == [b"0"]


async def test_records_of_an_idle_log_expire_as_well(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(broker, "t", retention_ms="1000")
        await fill(broker, partition, 3)
        clock.advance(1001)
        await run(broker.housekeeping.retain())
        assert (partition.start_offset, partition._log.end_offset, partition._log.size_bytes) == (3, 3, 0)
        await fill(broker, partition, 1)
        assert readable(partition) == [b"0"]


async def test_retention_bytes_bounds_a_log(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(broker, "t", segment_bytes="1048576", retention_bytes="2097152")
        for _ in range(8):
            await produce(broker, partition, batch_of(bytes(600_000)), acks=1)
        await run(broker.housekeeping.retain())
        assert partition.start_offset == 4
        assert partition._log.size_bytes > 2_000_000


async def test_retention_never_deletes_beyond_the_high_watermark(tmp_path: Path, clock: ManualClock) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, clock=clock, disk=disk) as broker:
        partition = await create(broker, "cursed", retention_ms="0")
        partition.high_watermark = 0
        await fill(broker, partition, 2)
        partition.high_watermark = 0
        clock.advance(DAY_MS)
        await run(broker.housekeeping.retain())
        assert partition.start_offset == 0


async def test_retention_goes_on_after_a_partition_that_fails(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk lets no new segment begin, and retention is the job that makes room on it."""
    disk = FaultyDisk()
    async with running(tmp_path, clock=clock, disk=disk) as broker:
        partitions = [await create(broker, name, retention_ms="1000") for name in ("cursed", "other")]
        for partition in partitions:
            await fill(broker, partition, 2)
        clock.advance(2000)
        disk.create_error = FULL
        await run(broker.housekeeping.retain())

        assert [partition.start_offset for partition in partitions] == [0, 2]
        assert "retention of cursed-0 failed" in caplog.text
        disk.heal()
        await run(broker.housekeeping.retain())
        assert partitions[0].start_offset == 2


async def test_retention_during_a_flush_does_no_harm(tmp_path: Path, clock: ManualClock) -> None:
    """Retention removes files between the planning of a flush and its sync of them."""
    disk = FaultyDisk()
    async with running(tmp_path, clock=clock, disk=disk) as broker:
        partition = await create(
            broker, "cursed", segment_bytes="1048576", retention_bytes="0", index_interval_bytes="0"
        )
        disk.sync_allowed.clear()
        for number in range(6):
            await produce(broker, partition, batch_of(bytes(600_000), b"%d" % number), acks=1)
        await asyncio.to_thread(disk.sync_started.wait, 20)
        await run(broker.housekeeping.retain())
        assert partition.start_offset == 12
        disk.sync_allowed.set()
        await run(broker.journal.drain())

        assert (await produce(broker, partition, batch_of(b"next"))).base_offset == 12
        left = {path.name for path in (tmp_path / "cursed-0").iterdir() if path.suffix in (".log", ".index")}
        assert left <= {f"{12:020}.log", f"{12:020}.index"}


# -- compaction


async def compacted(broker: Broker, name: str) -> Partition:
    """A log of three keys, written in several rounds; the last round is still in the active segment."""
    partition = await create(
        broker, name, cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_bytes="1048576"
    )
    for number in range(9):
        value, key = b"%d" % number, b"k%d" % (number % 3)
        await produce(broker, partition, batch_of(value, key=key, timestamp=broker.clock.now_ms()))
    partition._log.roll(broker.clock.now_ms())
    await produce(broker, partition, batch_of(b"last", key=b"k0", timestamp=broker.clock.now_ms()))
    return partition


async def test_the_latest_value_of_every_key_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await compacted(broker, "t")
        await run(broker.housekeeping.compact())
        assert readable(partition) == [b"6", b"7", b"8", b"last"]
        assert partition.start_offset == 0
    async with running(tmp_path) as again:
        assert readable(again.partition("t", 0)) == [b"6", b"7", b"8", b"last"]


async def test_compaction_can_be_switched_off(tmp_path: Path) -> None:
    async with running(tmp_path, {"log.cleaner.enable": "false"}) as broker:
        partition = await compacted(broker, "t")
        await run(broker.housekeeping.compact())
        assert len(readable(partition)) == 10


async def test_compaction_goes_on_after_a_log_that_cannot_be_compacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        broken, fine = await compacted(broker, "broken"), await compacted(broker, "fine")
        first = tmp_path / "broken-0" / f"{0:020}.log"
        data = bytearray(first.read_bytes())
        data[70:80] = b"damaged..."
        first.write_bytes(data)
        await run(broker.housekeeping.compact())
        assert "compaction of broken-0 failed" in caplog.text
        assert len(readable(fine)) == 4
        assert broken._log.size_bytes > fine._log.size_bytes


async def test_a_topic_deleted_while_it_is_compacted_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await compacted(broker, "t")
        compacting = asyncio.create_task(broker.housekeeping.compact())
        await asyncio.sleep(0)
        await run(broker.topics.delete("t"))
        await run(compacting)
        assert not list(tmp_path.glob("t-0*"))


# -- checkpoints and producers


async def test_checkpoints_survive_a_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = start(tmp_path)
    partition = await create(broker, "t")
    for number in range(10):
        await produce(broker, partition, batch_of(b"%d" % number))
    assert await broker.delete_records("t", 0, 4) == 4
    await broker.housekeeping.checkpoint()
    await crash(broker)

    assert "t 0 10" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    async with running(tmp_path) as again:
        assert readable(again.partition("t", 0)) == [b"4", b"5", b"6", b"7", b"8", b"9"]


async def test_concurrent_checkpoint_writes_are_safe(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t", 4)
        for index in range(4):
            await produce(broker, broker.partition("t", index), batch_of(*[b"v"] * 5))
        jobs = [broker.delete_records("t", index, 3) for index in range(4)]
        await run(asyncio.gather(*jobs, *(broker.housekeeping.checkpoint() for _ in range(5))))
        lines = (tmp_path / "log-start-offset-checkpoint").read_text().splitlines()
        assert [line for line in lines if line.startswith("t ")] == [f"t {index} 3" for index in range(4)]
        assert partition.start_offset == 3


async def test_a_silent_producer_is_forgotten(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, {"producer.id.expiration.ms": "1000"}, clock=clock) as broker:
        partition = await create(broker, "t")
        await produce(broker, partition, sequenced(0))
        clock.advance(999)
        await broker.housekeeping.forget_producers()
        with pytest.raises(Refusal):
            await produce(broker, partition, sequenced(50))
        clock.advance(1)
        await broker.housekeeping.forget_producers()
        assert (await produce(broker, partition, sequenced(50))).base_offset == 1


# -- the schedule


async def test_jobs_repeat_by_themselves_and_after_failures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as broker:
        failures = [OSError("no disk"), Refusal(-1, "no luck"), ValueError("no idea")]  # pyright: ignore[reportArgumentType]
        done = asyncio.Event()

        async def job() -> None:
            if failures:
                raise failures.pop(0)
            done.set()

        broker.housekeeping._every("test job", 0, lambda: 1, job)
        await run(done.wait())
        assert [
            record.getMessage().split(" failed")[0] for record in caplog.records if record.levelname == "ERROR"
        ] == ["test job"] * 3


async def test_a_stop_waits_only_for_the_running_job(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        begun, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def job() -> None:
            begun.set()
            await may_end.wait()
            ended.set()

        broker.housekeeping._every("test job", 0, lambda: 1, job)
        await run(begun.wait())
        stopping = asyncio.create_task(broker.housekeeping.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        may_end.set()
        await run(stopping)
        assert ended.is_set()
        await fill(broker, await create(broker, "t", cleanup_policy="compact"), 1)
        await broker.housekeeping.compact()


async def test_housekeeping_leaves_an_offline_partition_alone(tmp_path: Path, clock: ManualClock) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, clock=clock, disk=disk) as broker:
        partition = await create(broker, "cursed", retention_ms="1", cleanup_policy="compact,delete")
        await fill(broker, partition, 3)
        disk.write_error = BROKEN
        await produce(broker, partition, batch_of(b"v"))
        disk.heal()
        clock.advance(DAY_MS)
        for job in (broker.housekeeping.flush_due, broker.housekeeping.retain, broker.housekeeping.compact):
            await run(job())
        assert partition.start_offset == 0
        assert partition._log.flushed_offset == 0
