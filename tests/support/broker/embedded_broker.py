"""A broker without listeners, on the test's own event loop."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import Clock, ManualClock
from headwater.config.broker import BrokerConfig
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.storage.data_directory import DataDirectory
from headwater.storage.disk import Disk
from headwater.storage.recovery.verification import UnverifiedRange

NOW_MS = 1_700_000_000_000
TIMEOUT_S = 20


# Periodic jobs run only when a test calls them.
QUIET = {"log.initial.task.delay.ms": "3600000", "headwater.flush.interval.ms": "3600000"}


def start(
    path: Path, settings: Mapping[str, str] | None = None, *, clock: Clock | None = None, disk: Disk | None = None
) -> Broker:
    config = BrokerConfig.from_values({**QUIET, **(settings or {})})
    return Broker(config, clock or ManualClock(NOW_MS), DataDirectory(path, config.node_id, disk))


@asynccontextmanager
async def running(
    path: Path, settings: Mapping[str, str] | None = None, *, clock: Clock | None = None, disk: Disk | None = None
) -> AsyncGenerator[Broker]:
    broker = start(path, settings, clock=clock, disk=disk)
    try:
        yield broker
    finally:
        await broker.stop()


async def crash(broker: Broker) -> None:
    """Simulates a crash: none of the steps of a clean stop are taken; written data stays written."""
    await broker.housekeeping.stop()
    broker.journal.close()
    broker.data.release()


async def create(broker: Broker, name: str, partitions: int = 1, **overrides: Any) -> Partition:
    """Creates a topic and returns its first partition. Settings are named as in Python (`flush_ms`)."""
    values: dict[str, str] = {key.replace("_", "."): value for key, value in overrides.items()}
    await broker.topics.create(name, values, partition_count=partitions)
    return broker.partition(name, 0)


def stage(broker: Broker, partition: Partition, batch: bytes, *, acks: int = ACKS_ALL) -> Pending[Append]:
    """Produces a batch and returns its pending outcome."""
    outcome: Pending[Append] = Pending()
    broker.produce(partition, memoryview(bytearray(batch)), Append(outcome.resolve), acks=acks)
    return outcome


async def settled(outcome: Pending[Append]) -> Append:
    return await asyncio.wait_for(outcome.wait(), TIMEOUT_S)


async def produce(broker: Broker, partition: Partition, batch: bytes, *, acks: int = ACKS_ALL) -> Append:
    return await settled(stage(broker, partition, batch, acks=acks))


def batch_of(*values: bytes | None, key: bytes | None = b"k", timestamp: int = NOW_MS, **options: Any) -> bytes:
    return bytes(batches.build([Record(index, timestamp, key, value) for index, value in enumerate(values)], **options))


def sequenced(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch_of(b"%d" % sequence, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def readable(partition: Partition) -> list[bytes | None]:
    """The values below the high watermark, as a consumer reads them."""
    found: list[bytes | None] = []
    offset = partition.start_offset
    while offset < partition.high_watermark:
        read = partition.read(offset, 1 << 20, limit_offset=partition.high_watermark, first_batch_whole=True)
        if isinstance(read, UnverifiedRange):
            read.accept(read.verify())
            continue
        if read is None or not len(read):
            break
        for header, batch in batches.iterate(read.read()):
            found += [
                r.value for r in batches.read_records(batch, header, 1 << 20) if r.offset >= partition.start_offset
            ]
            offset = header.next_offset
    return found


def run(job: Any) -> Any:
    return asyncio.wait_for(job, TIMEOUT_S)
