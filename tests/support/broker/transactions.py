"""Transactions against an embedded broker: commands, failures, and the state that tests assert on."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Shard
from headwater.broker.transactions.coordinator import TransactionCoordinator, TransactionMembership
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2, ProducerIdentity
from headwater.coordination.transactions.events import TransactionState
from headwater.coordination.transactions.machine import TransactionMachine
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import TransactionalId
from headwater.protocol.batches import batch as batches
from headwater.storage.recovery.verification import UnverifiedRange
from tests.support.broker.embedded_broker import TIMEOUT_S, batch_of, crash, create, run, running, settled
from tests.support.broker.faulty_disk import FaultyDisk

SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "1"}
TX = TransactionalId("tx")
TIMEOUT_MS = 60_000
FIRST_PROTOCOL = TransactionMembership(TX, adds_partitions=False, knows_abortable=True)
SECOND_PROTOCOL = TransactionMembership(TX, adds_partitions=True, knows_abortable=True)
PROTOCOLS = pytest.mark.parametrize("protocol_version", [PROTOCOL_1, PROTOCOL_2])
ENDS = pytest.mark.parametrize("is_commit", [True, False])
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


async def eventually(condition: Callable[[], bool]) -> None:
    async def until() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(until(), TIMEOUT_S)


async def initialized(broker: Broker, transactional_id: TransactionalId = TX) -> ProducerIdentity:
    await run(broker.transactions.prepare())
    return await run(broker.transactions.init_producer(transactional_id, TIMEOUT_MS, None))


def stage(
    broker: Broker,
    partition: Partition,
    producer: ProducerIdentity,
    value: bytes,
    membership: TransactionMembership = SECOND_PROTOCOL,
    sequence: int = 0,
) -> Pending[Append]:
    producer_id, epoch = producer
    batch = batch_of(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    outcome: Pending[Append] = Pending()
    records = memoryview(bytearray(batch))
    broker.produce_in_transaction(partition, records, Append(outcome.resolve), acks=ACKS_ALL, membership=membership)
    return outcome


async def written(broker: Broker, producer: ProducerIdentity, *topics: str) -> None:
    for topic in topics:
        append = await settled(stage(broker, broker.partition(topic, 0), producer, topic.encode()))
        assert append.error is None


def state(broker: Broker, transactional_id: TransactionalId = TX) -> TransactionState | None:
    """The state of the transaction; None while the coordinator's machine is not loaded."""
    for machine in broker.transactions.machines():
        if transactional_id in machine.transactions:
            return machine.transactions[transactional_id].state
    return None


def markers(partition: Partition) -> list[bool]:
    """The markers in the partition, in order: True for a commit, False for an abort."""
    found: list[bool] = []
    offset = partition.start_offset
    while offset < partition.high_watermark:
        read = partition.read(offset, 1 << 20, limit_offset=partition.high_watermark, first_batch_whole=True)
        if isinstance(read, UnverifiedRange):
            read.accept(read.verify())
            continue
        assert read is not None
        for header, batch in batches.iterate(read.read()):
            offset = header.next_offset
            if header.is_control:
                marker = batches.read_marker(batches.read_records(batch, header, 1 << 20)[0])
                assert marker is not None
                found.append(marker.committed)
    return found


def is_stable(partition: Partition) -> bool:
    return partition.last_stable_offset == partition.high_watermark


async def end(
    broker: Broker, producer: ProducerIdentity, *, is_commit: bool = True, protocol_version: int = PROTOCOL_2
) -> ProducerIdentity:
    transactions = broker.transactions
    ended = transactions.end(TX, producer, is_commit=is_commit, protocol_version=protocol_version)
    outcome = await run(ended.wait())
    if isinstance(outcome, HeadwaterError):
        raise outcome
    return outcome


async def crashed(broker: Broker) -> None:
    for task in broker.transactions._marker_writers.values():
        task.cancel()
    await crash(broker)


@asynccontextmanager
async def with_cursed(
    path: Path, disk: FaultyDisk
) -> AsyncGenerator[tuple[Broker, ProducerIdentity, Partition, Partition]]:
    """A broker with an open transaction that has written to a topic on the faulty disk and to a healthy one."""
    async with running(path, SETTINGS, disk=disk) as broker:
        cursed, healthy = await create(broker, "cursed"), await create(broker, "healthy")
        producer = await initialized(broker)
        await written(broker, producer, "cursed", "healthy")
        yield broker, producer, cursed, healthy


async def refused(outcome: Pending[HeadwaterError | None]) -> ErrorCode:
    error = await run(outcome.wait())
    assert error is not None
    return error.code


async def loaded(broker: Broker) -> TransactionCoordinator:
    assert broker.transactions._loading is not None
    await run(broker.transactions._loading)
    return broker.transactions


def shard_of(broker: Broker, transactional_id: TransactionalId = TX) -> Shard[TransactionMachine]:
    return broker.transactions.shards[broker.transactions.partition_of(transactional_id)]
