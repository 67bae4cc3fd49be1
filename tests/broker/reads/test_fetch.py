"""Reading from many partitions at once, and waiting for them."""

import asyncio
from pathlib import Path

from headwater.broker.reads.fetch import PartitionRead
from headwater.errors import ErrorCode
from tests.support.broker.embedded_broker import TIMEOUT_S, batch_of, create, produce, running, settled, stage
from tests.support.broker.faulty_disk import BROKEN, FaultyDisk
from tests.support.broker.fetches import fetch, outcome


def sizes(reads: list[PartitionRead]) -> list[int]:
    return [len(read.records) if read.records is not None else 0 for read in reads]


async def test_available_records_are_returned_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = await create(broker, "t", 2)
        second = broker.partition("t", 1)
        batch = batch_of(b"v")
        await produce(broker, first, batch)

        pending = fetch(broker, (first, 0), (second, 0))

        assert pending.is_done
        reads = await outcome(pending)
        assert sizes(reads) == [len(batch), 0]
        assert [(read.high_watermark, read.last_stable_offset, read.log_start_offset) for read in reads] == [
            (1, 1, 0),
            (0, 0, 0),
        ]


async def test_a_fetch_without_a_minimum_or_a_wait_returns_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        assert fetch(broker, (partition, 0), wait_ms=0).is_done
        assert fetch(broker, (partition, 0), wait_ms=-1).is_done
        assert fetch(broker, (partition, 0), bytes_min=0).is_done
        assert fetch(broker).is_done
        assert not partition.watchers


async def test_a_fetch_is_woken_by_any_of_its_partitions_once_there_is_enough(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = await create(broker, "t", 2)
        second = broker.partition("t", 1)
        batch = batch_of(b"v")
        pending = fetch(broker, (first, 0), (second, 0), bytes_min=3 * len(batch))

        await produce(broker, first, batch)
        await produce(broker, second, batch)
        assert not pending.is_done
        await produce(broker, second, batch)

        assert sizes(await outcome(pending)) == [len(batch), 2 * len(batch)]
        assert not first.watchers
        assert not second.watchers


async def test_records_that_are_not_durable_yet_wake_no_fetch(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        pending = fetch(broker, (partition, 0))
        disk.sync_allowed.clear()
        durable = stage(broker, partition, batch_of(b"v"))
        await asyncio.to_thread(disk.sync_started.wait, TIMEOUT_S)
        assert partition._log.end_offset == 1
        assert not pending.is_done
        assert sizes(await outcome(fetch(broker, (partition, 0), wait_ms=0))) == [0]

        disk.sync_allowed.set()
        await settled(durable)

        assert sizes(await outcome(pending)) == [len(batch_of(b"v"))]


async def test_a_fetch_ends_when_its_wait_expires(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        assert sizes(await outcome(fetch(broker, (partition, 0), wait_ms=1))) == [0]
        assert not partition.watchers


async def test_a_stopping_broker_ends_waiting_fetches(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        pending = [fetch(broker, (partition, 0)) for _ in range(3)]
        broker.end_waits()
        assert all(one.is_done for one in pending)
        pending[0].expire()


async def test_an_abandoned_fetch_is_never_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        pending = fetch(broker, (partition, 0))
        stage(broker, partition, batch_of(b"v"), acks=1)
        broker.journal.write_now()
        pending.abandon()
        pending.abandon()
        pending.expire()
        await asyncio.sleep(0)
        assert not partition.watchers
        assert not pending.is_done


async def test_deleting_a_partition_ends_waiting_fetches_with_its_error(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "gone")
        other = await create(broker, "stays")
        pending = fetch(broker, (partition, 0), (other, 0))

        await broker.topics.delete("gone")

        reads = await outcome(pending)
        assert [read.error for read in reads] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
        assert not other.watchers


async def test_a_failing_partition_ends_waiting_fetches_with_its_error(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        pending = fetch(broker, (partition, 0))
        disk.sync_error = BROKEN
        await produce(broker, partition, batch_of(b"v"))
        (read,) = await outcome(pending)
        assert (read.error, read.high_watermark, read.records) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, None)


async def test_a_segment_that_cannot_be_opened_fails_only_its_own_partition(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        damaged = await create(broker, "damaged", segment_bytes="100")
        healthy = await create(broker, "healthy")
        for partition in (damaged, damaged, healthy):
            await produce(broker, partition, batch_of(b"v"))
        first = damaged._log.segments[0]
        first.close_if_idle()
        first.close_if_idle()
        first.path(".log").unlink()

        broken, fine = await outcome(fetch(broker, (damaged, 0), (healthy, 0)))
        assert (broken.error, broken.records) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
        assert fine.error is ErrorCode.NONE
        assert sizes([fine]) != [0]


async def test_a_fetched_range_stays_readable_after_its_topic_is_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "gone")
        batch = batch_of(b"v")
        await produce(broker, partition, batch)
        (read,) = await outcome(fetch(broker, (partition, 0)))

        await broker.topics.delete("gone")

        assert not list(tmp_path.glob("gone-*"))
        assert read.records is not None
        assert read.records.read()[61:] == batch[61:]


async def test_an_offset_out_of_range_is_answered_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        (read,) = await outcome(fetch(broker, (partition, 5)))
        assert read.error is ErrorCode.OFFSET_OUT_OF_RANGE


# -- records of an earlier process


async def test_records_of_an_earlier_process_are_verified_first_however_short_the_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await produce(broker, await create(broker, "t"), batch_of(b"old"))
    async with running(tmp_path) as broker:
        old, new = broker.partition("t", 0), await create(broker, "u")
        await produce(broker, new, batch_of(b"new"))

        first, second = fetch(broker, (old, 0), (new, 0), wait_ms=0), fetch(broker, (old, 0), committed_only=True)

        assert not first.is_done
        assert sizes(await outcome(first)) == [len(batch_of(b"old")), len(batch_of(b"new"))]
        assert sizes(await outcome(second)) == [len(batch_of(b"old"))]
        assert fetch(broker, (old, 0)).is_done
        assert not old.watchers


async def test_records_that_rotted_on_disk_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await produce(broker, await create(broker, "t"), batch_of(b"value"))
    (path,) = (tmp_path / "t-0").glob("*.log")
    path.write_bytes(path.read_bytes().replace(b"value", b"valve"))
    async with running(tmp_path) as broker:
        partition = broker.partition("t", 0)
        (read,) = await outcome(fetch(broker, (partition, 0), wait_ms=0))

        assert read.error is ErrorCode.CORRUPT_MESSAGE
        assert read.records is None
        await produce(broker, partition, batch_of(b"goes on"))
        assert sizes(await outcome(fetch(broker, (partition, 1)))) == [len(batch_of(b"goes on"))]


async def test_a_fetch_abandoned_during_verification_is_not_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await produce(broker, await create(broker, "t"), batch_of(b"old"))
    async with running(tmp_path) as broker:
        partition = broker.partition("t", 0)
        left, stays = fetch(broker, (partition, 0)), fetch(broker, (partition, 0))
        left.abandon()

        await outcome(stays)
        assert not left.is_done
