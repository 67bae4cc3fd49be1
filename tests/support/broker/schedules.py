"""Delayed records on an embedded broker with a clock that a test moves."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.clock import ManualClock
from headwater.coordination.schedule.terms import Target
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Headers, Record
from tests.support.broker.embedded_broker import NOW_MS, crash, create, readable, start

DEADLINE_TURNS = 20_000


def delayed(value: bytes, delay_ms: int | None = None, *, at_ms: int | None = None, name: str | None = None) -> Record:
    headers: Headers = ()
    if delay_ms is not None:
        headers += (("headwater-delay-ms", b"%d" % delay_ms),)
    if at_ms is not None:
        headers += (("headwater-deliver-at", b"%d" % at_ms),)
    if name is not None:
        headers += (("headwater-schedule-id", name.encode()),)
    return Record(0, NOW_MS, b"k", value, headers)


def batch_of(*records: Record, **options: Any) -> bytes:
    numbered = [Record(index, each.timestamp, each.key, each.value, each.headers) for index, each in enumerate(records)]
    return bytes(batches.build(numbered, **options))


async def create_delaying(broker: Broker, name: str = "orders", partitions: int = 1, **overrides: Any) -> Partition:
    return await create(broker, name, partitions, headwater_delay_enable="true", **overrides)


def target_of(broker: Broker, partition: Partition) -> Target:
    return Target(broker.topics.existing(partition.id.topic).id, partition.id.partition)


async def until(condition: Callable[[], object]) -> None:
    """Waits for what the broker does on its own: turns, not time, so that a busy machine does not matter."""
    for _ in range(DEADLINE_TURNS):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to be")


def pending(broker: Broker) -> int:
    return sum(machine.count for machine in broker.schedule.machines())


async def advance(broker: Broker, clock: ManualClock, milliseconds: int) -> None:
    """Moves the clock, and waits until all that is due by then is delivered."""
    clock.advance(milliseconds)
    await settle(broker, clock)


async def settle(broker: Broker, clock: ManualClock) -> None:
    def is_settled() -> bool:
        for shard in broker.schedule.shards:
            shard.wake()
        return not broker.schedule._deliveries and all(
            schedule.delivery is None
            and ((due_ms := schedule.entries.next_due_ms()) is None or due_ms > clock.now_ms())
            for machine in broker.schedule.machines()
            for schedule in machine.targets.values()
        )

    await until(is_settled)
    await broker.journal.drain()


async def kill(broker: Broker) -> None:
    """A crash in the midst of work: nothing that is under way is written any more, whatever the loop still runs."""
    journal: Any = broker.journal
    journal._to_write.clear()
    journal.write_soon = journal.flush_soon = lambda *_: None
    if "schedule" in vars(broker):
        deliveries = tuple(broker.schedule._deliveries.values())
        for delivery in deliveries:
            delivery.cancel()
        await asyncio.gather(*deliveries, return_exceptions=True)
        for shard in broker.schedule.shards:
            shard.drop("the broker was killed")
    await crash(broker)


async def restarted(path: Path, clock: ManualClock, **settings: str) -> Broker:
    broker = start(path, settings, clock=clock)
    await until(lambda: all(shard.machine is not None for shard in broker.schedule.shards))
    return broker


def values(partition: Partition) -> Sequence[bytes | None]:
    return readable(partition)
