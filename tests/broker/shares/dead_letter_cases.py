"""Queues with dead letters, and what is found in their dead-letter topics."""

import asyncio
from collections.abc import Callable

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin, Reason
from headwater.protocol.batches.records import Record
from tests.broker.shares.share_commands import GROUP, Shared, shared
from tests.support.broker.embedded_broker import run


async def configure(broker: Broker, **settings: str) -> None:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    before = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"}
    await broker.configs.replace(32, GROUP, {**before, **named}, validate_only=False)


async def queue(broker: Broker, **settings: str) -> Shared:
    found = await shared(broker)
    await configure(broker, **(settings or {"headwater_deadletterqueue_enable": "true"}))
    return found


def records_of(partition: Partition) -> list[Record]:
    found: list[Record] = []
    offset = partition.start_offset
    while offset < partition.high_watermark:
        piece = partition.read_written(offset, 1 << 26, partition.high_watermark)
        for header, batch in batches.iterate(piece.read()):
            found += batches.read_records(batch, header, 1 << 28)
            offset = header.next_offset
    return found


async def until(holds: Callable[[], object]) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.005)

    await run(wait())


async def settled(broker: Broker, found: Shared) -> None:
    """Wait until no letter waits."""
    await until(lambda: (share := broker.shares.find(found.id)) is not None and not share.outbox.size)


async def allow(broker: Broker, topic: str = "orders.dlq") -> None:
    """Let a topic take dead letters."""
    settings = {"errors.deadletterqueue.group.enable": "true"}
    await broker.configs.replace(2, topic, settings, validate_only=False)


def letters(broker: Broker, topic: str = "orders.dlq", index: int = 0) -> list[tuple[bytes | None, DeadLetterOrigin]]:
    found: list[tuple[bytes | None, DeadLetterOrigin]] = []
    for record in records_of(broker.partition(topic, index)):
        origin = dead_letter_headers.read(record.headers)
        assert origin is not None
        found.append((record.value, origin))
    return found


def brief(broker: Broker, topic: str = "orders.dlq") -> list[tuple[bytes | None, int, int, Reason]]:
    return [(value, origin.offset, origin.delivery_count, origin.reason) for value, origin in letters(broker, topic)]
