"""Transactions on one partition: markers, the last stable offset, and read_committed fetches."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.reads.fetch import Fetch, PartitionFetch, PartitionRead
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import Marker
from tests.support.broker.embedded_broker import (
    NOW_MS,
    TIMEOUT_S,
    batch_of,
    crash,
    create,
    produce,
    run,
    running,
    settled,
    start,
)
from tests.support.broker.faulty_disk import FULL, FaultyDisk

COMMITTED, ABORTED = True, False


def write(partition: Partition, sequence: int, *, producer_id: int = 7, epoch: int = 0) -> Pending[Append]:
    """Stages one transactional record, without asking the coordinator whether the partition was added."""
    batch = memoryview(
        bytearray(
            batch_of(
                b"%d of %d" % (sequence, producer_id),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
    )
    outcome: Pending[Append] = Pending()
    partition.stage(batches.read_header(batch), batch, Append(outcome.resolve), acks=ACKS_ALL, now_ms=NOW_MS)
    return outcome


def end(
    partition: Partition,
    committed: bool,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> Pending[Append]:
    outcome: Pending[Append] = Pending()
    partition.stage_marker(
        producer_id,
        epoch,
        Marker(committed, coordinator_epoch),
        Append(outcome.resolve),
        NOW_MS,
        transaction_version=version,
    )
    return outcome


def fetch(broker: Broker, partition: Partition, offset: int = 0, *, wait_ms: int = 0, committed: bool = True) -> Fetch:
    asked = [PartitionFetch(partition, offset, 1 << 20)]
    return broker.fetch(asked, bytes_min=1, bytes_max=1 << 20, wait_ms=wait_ms, committed_only=committed)


async def given(pending: Fetch) -> PartitionRead:
    (read,) = await asyncio.wait_for(pending.wait(), TIMEOUT_S)
    return read


def is_open(partition: Partition, producer_id: int) -> bool:
    state = partition._log.producers.get(producer_id)
    return state is not None and state.current_txn_first_offset >= 0


def offsets(read: PartitionRead) -> list[int]:
    data = read.records.read() if read.records is not None else b""
    return [header.base_offset for header, _ in batches.iterate(data)]


# -- markers


async def test_a_marker_is_a_control_batch_that_is_acknowledged_once_it_is_on_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await settled(write(partition, 0))
        disk.sync_allowed.clear()
        outcome = end(partition, COMMITTED, coordinator_epoch=5)
        await asyncio.to_thread(disk.sync_started.wait, TIMEOUT_S)
        assert not outcome.is_done
        disk.sync_allowed.set()
        assert (await settled(outcome)).base_offset == 1

        read = await given(fetch(broker, partition, 1))
        assert read.records is not None
        ((header, batch),) = batches.iterate(read.records.read())
        assert (header.is_control, header.is_transactional, header.producer_id, header.base_sequence) == (
            True,
            True,
            7,
            -1,
        )
        (record,) = batches.read_records(batch, header, 1 << 20)
        assert batches.read_marker(record) == (True, 5)


async def test_a_marker_for_a_producer_without_a_transaction_is_accepted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        assert (await settled(end(partition, ABORTED))).error is None
        assert (partition.last_stable_offset, is_open(partition, 7)) == (1, False)
        assert not (await given(fetch(broker, partition))).aborted


async def test_a_marker_with_an_older_epoch_is_refused_and_takes_no_offset(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await settled(write(partition, 0, epoch=3))
        await settled(end(partition, COMMITTED, epoch=4, coordinator_epoch=2, version=2))
        for options, code in [
            ({"epoch": 3}, ErrorCode.INVALID_PRODUCER_EPOCH),
            ({"epoch": 4, "coordinator_epoch": 1}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ]:
            with pytest.raises(Refusal) as refused:
                end(partition, ABORTED, **options)
            assert refused.value.code is code
        assert partition._log.end_offset == 2
        await settled(write(partition, 0, epoch=4))
        with pytest.raises(Refusal) as refused:
            end(partition, ABORTED, epoch=4, coordinator_epoch=2, version=2)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH, "a delayed end of the transaction before"


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-2, 0), (7, -1)])
async def test_a_marker_for_no_producer_is_refused_and_leaves_no_trace(
    tmp_path: Path, producer_id: int, epoch: int
) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        with pytest.raises(Refusal) as refused:
            end(partition, ABORTED, producer_id=producer_id, epoch=epoch)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert (partition._log.end_offset, len(partition._log.producers)) == (0, 0)


async def test_a_delayed_batch_of_an_ended_transaction_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await settled(write(partition, 0))
        await settled(end(partition, ABORTED, epoch=1, version=2))
        with pytest.raises(Refusal) as refused:
            write(partition, 1)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_deleted_partition_refuses_markers(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "gone")
        await broker.topics.delete("gone")
        with pytest.raises(Refusal) as refused:
            end(partition, COMMITTED)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_marker_refused_by_a_full_disk_leaves_the_transaction_open(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await settled(write(partition, 0))
        disk.write_error = FULL
        outcomes = [end(partition, ABORTED, epoch=1, version=2), write(partition, 0, producer_id=8)]
        for outcome in outcomes:
            assert (await settled(outcome)).error is not None
        disk.heal()

        assert is_open(partition, 7)
        assert not is_open(partition, 8)
        assert partition.last_stable_offset == 0
        await settled(write(partition, 1))
        await settled(end(partition, COMMITTED, epoch=1, version=2))
        read = await given(fetch(broker, partition))
        assert (offsets(read), read.aborted, read.last_stable_offset) == ([0, 1, 2], (), 3)


async def test_batches_that_the_broker_writes_for_a_producer_need_no_sequence(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.topics.create_internal(OFFSETS_TOPIC, 1, {})
        partition = broker.partition(OFFSETS_TOPIC, 0)
        assert partition.is_internal
        for _ in range(3):
            await settled(write(partition, -1))
        assert partition.last_stable_offset == 0
        await settled(end(partition, COMMITTED))
        assert partition.last_stable_offset == 4


# -- the last stable offset


async def test_the_last_stable_offset_waits_for_open_transactions_and_invisible_markers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await produce(broker, partition, batch_of(b"plain"))
        await settled(write(partition, 0))
        await settled(write(partition, 0, producer_id=8))
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)

        disk.sync_allowed.clear()
        disk.sync_started.clear()
        outcome = end(partition, COMMITTED)
        await asyncio.to_thread(disk.sync_started.wait, TIMEOUT_S)
        assert (partition._log.end_offset, partition.last_stable_offset) == (4, 1)
        disk.sync_allowed.set()
        await settled(outcome)
        assert (partition.high_watermark, partition.last_stable_offset) == (4, 2)
        await settled(end(partition, ABORTED, producer_id=8))
        assert partition.last_stable_offset == 5


async def test_the_last_stable_offset_is_never_below_the_log_start_offset(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(broker, "t", retention_ms="1000")
        await settled(write(partition, 0))
        await produce(broker, partition, batch_of(b"plain"))
        assert partition.last_stable_offset == 0
        await broker.delete_records("t", 0, 1)
        assert (partition.start_offset, partition.last_stable_offset) == (1, 1)
        clock.advance(2000)
        await run(broker.housekeeping.retain())
        assert (partition.start_offset, partition.last_stable_offset) == (2, 2)
        await produce(broker, partition, batch_of(b"plain", timestamp=clock.now_ms()))
        assert partition.last_stable_offset == 2, "the transaction is open as before"


@pytest.mark.parametrize("is_clean", [True, False])
async def test_open_and_aborted_transactions_are_known_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    broker = start(tmp_path)
    partition = await create(broker, "t")
    await settled(write(partition, 0))
    await settled(end(partition, ABORTED))
    await settled(write(partition, 0, producer_id=8))
    await settled(write(partition, 1))
    await (broker.stop() if is_clean else crash(broker))
    async with running(tmp_path) as broker:
        partition = broker.partition("t", 0)
        assert (partition.high_watermark, partition.last_stable_offset) == (4, 2)
        read = await given(fetch(broker, partition))
        assert offsets(read) == [0, 1]
        assert read.aborted == [(7, 0, 1, 2)]
        assert is_open(partition, 8)
        await settled(end(partition, COMMITTED, producer_id=8))
        await settled(end(partition, COMMITTED))
        assert partition.last_stable_offset == 6


async def test_a_silent_producer_is_not_forgotten_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, {"producer.id.expiration.ms": "1000"}, clock=clock) as broker:
        partition = await create(broker, "t")
        await settled(write(partition, 0))
        await settled(write(partition, 0, producer_id=8))
        await settled(end(partition, COMMITTED, producer_id=8))
        clock.advance(5000)
        await broker.housekeeping.forget_producers()
        assert [state.producer_id for state in partition._log.producers] == [7]
        assert partition.last_stable_offset == 0


# -- reading


async def test_a_read_committed_fetch_lists_the_aborted_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        for number in range(4):
            await settled(write(partition, number))
            await settled(end(partition, number % 2 == 0))
        await settled(write(partition, 4))

        read = await given(fetch(broker, partition))
        assert (offsets(read), read.last_stable_offset) == (list(range(8)), 8)
        assert read.aborted is not None
        assert [(one.producer_id, one.first_offset) for one in read.aborted] == [(7, 2), (7, 6)]
        read = await given(fetch(broker, partition, 4))
        assert read.aborted == [(7, 6, 7, 8)], "only what overlaps"
        plain = await given(fetch(broker, partition, committed=False))
        assert (offsets(plain), plain.aborted) == (list(range(9)), None)
        at_the_end = await given(fetch(broker, partition, 8))
        assert (at_the_end.records, at_the_end.aborted) == (None, ())


async def test_a_read_committed_long_poll_ends_with_the_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        committed, uncommitted = (
            fetch(broker, partition, wait_ms=600_000, committed=only_committed) for only_committed in (True, False)
        )
        await settled(write(partition, 0))
        await given(uncommitted)
        await produce(broker, partition, batch_of(b"behind it"))
        await asyncio.sleep(0)
        assert not committed.is_done, "the high watermark moved, and that is not enough"

        await settled(end(partition, ABORTED))

        read = await given(committed)
        assert offsets(read) == [0, 1, 2]
        assert read.aborted == [(7, 0, 2, 3)]


async def test_compaction_stops_before_an_open_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(
            broker, "t", cleanup_policy="compact", segment_bytes="150", min_cleanable_dirty_ratio="0.0"
        )
        for _ in range(3):
            await produce(broker, partition, batch_of(b"v"))
        await settled(write(partition, 0))
        for _ in range(3):
            await produce(broker, partition, batch_of(b"v"))
        await run(broker.housekeeping.compact())
        found: list[int] = []
        for segment in partition._log.segments:
            found += [header.base_offset for header, _ in batches.iterate(segment.path(".log").read_bytes())]
        assert found == [1, 2, 3, 4, 5, 6], "only the first segment ends before the transaction begins"
