"""Batches of many writers: one write decides all of them, and a decision that survives a crash is carried out."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.shards import shard as shard_module
from headwater.broker.transactions import coordinator as transactions_module
from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.broker.transactions.log import TransactionFormat
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import TRANSACTIONS_TOPIC
from headwater.coordination.transactions.commands import PublishResult, StagedWriter
from headwater.coordination.transactions.events import TransactionState, TransactionStored
from headwater.errors import HeadwaterError
from headwater.file_range import FileRange
from headwater.ids import ProducerId, TransactionalId, staging_id
from headwater.protocol.batches import batch as batches
from tests.support.broker.embedded_broker import NOW_MS, TIMEOUT_S, create, run, running, settled, start
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.transactions import (
    SETTINGS,
    crashed,
    eventually,
    initialized,
    is_stable,
    markers,
    stage,
    state,
)

APP = TransactionalId("app")
WRITERS = [staging_id(APP, f"{task}-0") for task in range(5)]


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S_MAX", 0.001)
    monkeypatch.setattr(shard_module, "RELOAD_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "MARKERS_TIMEOUT_S", 0.001)


async def staged(broker: Broker, partition: Partition, *transactional_ids: TransactionalId) -> list[StagedWriter]:
    writers: list[StagedWriter] = []
    for transactional_id in transactional_ids:
        producer = await initialized(broker, transactional_id)
        membership = TransactionMembership(transactional_id, adds_partitions=True, knows_abortable=True)
        append = await settled(stage(broker, partition, producer, transactional_id.encode(), membership))
        assert append.error is None
        writers.append(StagedWriter(transactional_id, producer))
    return writers


async def publish(
    broker: Broker, batch_id: int, writers: list[StagedWriter], *, is_commit: bool = True
) -> PublishResult:
    return await run(broker.transactions.publish(APP, batch_id, writers, is_commit=is_commit))


def decided(broker: Broker, transactional_ids: list[TransactionalId]) -> set[TransactionState | None]:
    return {state(broker, each) for each in transactional_ids}


async def test_an_application_and_its_writers_belong_to_one_shard(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        partition = await create(broker, "sink")
        await publish(broker, 0, await staged(broker, partition, *WRITERS))

        (machine,) = (each for each in broker.transactions.machines() if each.transactions)
        assert machine.transactions.keys() == {APP, *WRITERS}


async def test_the_decision_for_all_writers_is_one_batch_of_the_log(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        partition = await create(broker, "sink")
        writers = await staged(broker, partition, *WRITERS)
        log = broker.partition(TRANSACTIONS_TOPIC, broker.transactions.partition_of(APP))
        before = log.high_watermark
        await publish(broker, 0, writers)

        read = log.read(before, 1 << 20, limit_offset=log.high_watermark, first_batch_whole=True)
        assert isinstance(read, FileRange)
        header, batch = next(iter(batches.iterate(read.read())))
        found = [
            TransactionFormat().decode(record.key or b"", record.value)
            for record in batches.read_records(batch, header, 1 << 20)
        ]
        assert {each.transactional_id for each in found if each is not None} == {APP, *WRITERS}
        application = found[-1]
        assert isinstance(application, TransactionStored)
        assert application.published_batch_id == 0


@pytest.mark.parametrize("is_commit", [True, False])
async def test_the_reply_to_a_publication_waits_until_its_markers_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_commit: bool
) -> None:
    monkeypatch.setattr(transactions_module, "MARKERS_TIMEOUT_S", TIMEOUT_S)
    disk = FaultyDisk()
    disk.cursed = "sink"
    async with running(tmp_path, {**SETTINGS, "headwater.flush": "ack"}, disk=disk) as broker:
        partition = await create(broker, "sink")
        writers = await staged(broker, partition, *WRITERS)
        disk.sync_allowed.clear()
        disk.sync_started.clear()
        publishing = asyncio.ensure_future(publish(broker, 0, writers, is_commit=is_commit))
        await eventually(disk.sync_started.is_set)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not publishing.done(), "its markers are not on disk"

        disk.sync_allowed.set()
        await publishing
        assert is_stable(partition)
        assert markers(partition) == [is_commit] * len(WRITERS)


async def test_markers_that_a_crash_prevented_are_written_after_it(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = "sink"
    broker = start(tmp_path, SETTINGS, disk=disk)
    partition = await create(broker, "sink")
    writers = await staged(broker, partition, *WRITERS)
    disk.write_error = FULL
    await publish(broker, 3, writers[:4])
    assert decided(broker, WRITERS[:4]) == {TransactionState.PREPARE_COMMIT}
    await crashed(broker)
    disk.heal()

    async with running(tmp_path, SETTINGS) as again:
        await eventually(lambda: decided(again, WRITERS[:4]) == {TransactionState.COMPLETE_COMMIT})
        await eventually(lambda: state(again, WRITERS[4]) is TransactionState.COMPLETE_ABORT)
        partition = again.partition("sink", 0)
        await eventually(lambda: is_stable(partition))
        assert sorted(markers(partition)) == [False, True, True, True, True]
        assert await publish(again, 3, writers[:4]) == PublishResult(is_replay=True, published_batch_id=3)


async def test_a_decision_that_cannot_be_written_publishes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = TRANSACTIONS_TOPIC
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        partition = await create(broker, "sink")
        writers = await staged(broker, partition, *WRITERS)
        disk.write_error = FULL
        with pytest.raises(HeadwaterError):
            await publish(broker, 0, writers)
        disk.heal()
        await eventually(lambda: decided(broker, WRITERS) == {TransactionState.ONGOING})

        assert markers(partition) == []
        assert await publish(broker, 0, writers) == PublishResult(is_replay=False, published_batch_id=0)


async def test_open_writers_still_belong_to_their_application_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await run(broker.transactions.prepare())
        await publish(broker, 4, [])
        writers = await staged(broker, await create(broker, "sink"), *WRITERS)
    async with running(tmp_path, SETTINGS) as broker:
        await eventually(lambda: decided(broker, WRITERS) == {TransactionState.ONGOING})
        await publish(broker, 5, writers[1:])

        await eventually(lambda: decided(broker, WRITERS[1:]) == {TransactionState.COMPLETE_COMMIT})
        await eventually(lambda: state(broker, WRITERS[0]) is TransactionState.COMPLETE_ABORT)


async def test_an_abort_takes_no_producer_id_and_leaves_no_application(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        writers = await staged(broker, await create(broker, "sink"), *WRITERS)
        await publish(broker, 0, writers, is_commit=False)

        await eventually(lambda: decided(broker, WRITERS) == {TransactionState.COMPLETE_ABORT})
        assert state(broker, APP) is None


async def test_applications_expire_by_their_own_setting(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    expiring = {"headwater.application.id.expiration.ms": "5000", "transactional.id.expiration.ms": "1000"}
    async with running(tmp_path, {**SETTINGS, **expiring}, clock=clock) as broker:
        await publish(broker, 0, await staged(broker, await create(broker, "sink"), WRITERS[0]))
        await eventually(lambda: state(broker, WRITERS[0]) is TransactionState.COMPLETE_COMMIT)
        clock.advance(4_999)
        await run(broker.transactions.expire())
        assert (state(broker, WRITERS[0]), state(broker, APP)) == (None, TransactionState.EMPTY)
        clock.advance(1)
        await run(broker.transactions.expire())
        assert state(broker, APP) is None


def test_the_last_published_batch_survives_a_round_trip() -> None:
    transaction = TransactionStored(
        APP, ProducerId(7), 0, 60_000, TransactionState.EMPTY, frozenset(), -1, NOW_MS, published_batch_id=2**63 - 1
    )
    key, value = TransactionFormat().encode(transaction)

    assert TransactionFormat().decode(key, value) == transaction
