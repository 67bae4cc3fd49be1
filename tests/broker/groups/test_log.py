"""The log of groups: offsets in transactions become transactional batches, and replay returns the events as decided."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.groups.log import GroupLog
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import ManualClock
from headwater.coordination.groups.classic.events import ClassicGroupForgotten
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.file_range import FileRange
from headwater.ids import GroupId, ProducerId, TopicName
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from tests.support.broker.embedded_broker import NOW_MS, create, run, running
from tests.support.broker.faulty_disk import FULL, FaultyDisk

READ_BYTES = 64 << 10
GROUP, ORDERS = GroupId("payments"), TopicName("orders")
ANN, BOB = ProducerId(7), ProducerId(8)


def committed(offset: int, partition: int = 0) -> OffsetCommitted:
    return OffsetCommitted(GROUP, ORDERS, partition, CommittedOffset(offset, -1, "", NOW_MS))


def pended(producer_id: ProducerId, offset: int, partition: int = 0, epoch: int = 0) -> TransactionalOffsetCommitted:
    return TransactionalOffsetCommitted(producer_id, epoch, *committed(offset, partition))


def ended(
    producer_id: ProducerId, *, epoch: int = 0, coordinator: int = 0, is_committed: bool = True, version: int = 1
) -> Event:
    return TransactionEnded(producer_id, epoch, coordinator, is_committed, version)


def replayed(partition: Partition) -> list[Event]:
    return [event for events in GroupLog(partition).replay(READ_BYTES) for event in events]


def headers(partition: Partition) -> list[BatchHeader]:
    read = partition.read(0, 1 << 20, limit_offset=partition._log.end_offset, first_batch_whole=True)
    assert read is None or isinstance(read, FileRange)
    return [] if read is None else [header for header, _ in batches.iterate(read.read())]


async def test_replay_returns_plain_and_transactional_events_in_log_order(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "groups")
        events = [
            committed(1),
            OffsetForgotten(GROUP, ORDERS, 1),
            pended(ANN, 2),
            pended(ANN, 3, partition=1),
            pended(BOB, 4, epoch=5),
            committed(5),
            pended(ANN, 6),
            ended(BOB, epoch=6, coordinator=9, is_committed=False),
            ended(ANN),
            ClassicGroupForgotten(GROUP),
        ]
        await run(GroupLog(partition).commit(events, NOW_MS))

        assert replayed(partition) == events
        plain = -1, -1, False, False
        assert [
            (one.producer_id, one.producer_epoch, one.is_transactional, one.is_control) for one in headers(partition)
        ] == [
            plain,
            (ANN, 0, True, False),
            (BOB, 5, True, False),
            plain,
            (ANN, 0, True, False),
            (BOB, 6, True, True),
            (ANN, 0, True, True),
            plain,
        ]
        assert {one.base_sequence for one in headers(partition)} == {-1}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
async def test_transactional_batches_are_compressed_as_well(tmp_path: Path, codec: int) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "groups")
        events = [committed(1), pended(ANN, 2)]
        await run(GroupLog(partition, codec).commit(events, NOW_MS))
        assert replayed(partition) == events
        assert [one.codec for one in headers(partition)] == [codec, codec]


async def test_the_partition_knows_its_open_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "groups")
        log = GroupLog(partition)
        await run(log.commit([committed(1), pended(ANN, 2)], NOW_MS))
        assert (partition.last_stable_offset, partition.high_watermark) == (1, 2)
        await run(log.commit([committed(3), ended(ANN)], NOW_MS))
        assert partition.last_stable_offset == partition.high_watermark == 4


async def test_an_append_of_several_batches_completes_once_when_all_are_on_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        disk.sync_allowed.clear()
        heard: list[Append] = []
        append = Append(heard.append)
        GroupLog(partition).append([committed(1), pended(ANN, 2), ended(ANN)], append, NOW_MS)
        await run(asyncio.to_thread(disk.sync_started.wait))
        assert heard == []
        disk.sync_allowed.set()
        while not heard:
            await asyncio.sleep(0)
        assert heard == [append]
        assert (append.error, append.next_offset) == (None, partition.high_watermark)


async def test_a_full_disk_refuses_all_events_of_an_append(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        log = GroupLog(partition)
        await run(log.commit([pended(ANN, 1)], NOW_MS))
        disk.write_error = FULL
        with pytest.raises(HeadwaterError):
            await run(log.commit([committed(2), pended(BOB, 3), ended(ANN)], NOW_MS))
        disk.heal()
        await run(log.commit([committed(4)], NOW_MS))

        assert replayed(partition) == [pended(ANN, 1), committed(4)]
        assert partition.last_stable_offset == 0, "the transaction is open as before"


async def test_records_that_are_no_events_are_skipped_inside_transactions_too(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "groups")
        stale_key, leader_change = b"\x00\x63?", b"\x00\x00\x00\x02"
        for batch in (
            batches.build([Record(0, NOW_MS, stale_key, b"")], producer_id=ANN, producer_epoch=0, transactional=True),
            batches.build([Record(0, NOW_MS, leader_change, b"")], control=True),
        ):
            done: Pending[Append] = Pending()
            view = memoryview(batch)
            partition.stage(batches.read_header(view), view, Append(done.resolve), acks=ACKS_ALL, now_ms=NOW_MS)
            await run(done.wait())
        assert replayed(partition) == []


async def test_a_tombstone_inside_a_transaction_takes_effect_at_once(tmp_path: Path) -> None:
    """Nothing writes such a record, but the log of another broker might have one."""
    async with running(tmp_path) as broker:
        partition = await create(broker, "groups")
        forgotten = OffsetForgotten(GROUP, ORDERS, 0)
        record = GroupLog(partition)._records([forgotten], NOW_MS)
        batch = batches.build(record, producer_id=ANN, producer_epoch=0, transactional=True)
        done: Pending[Append] = Pending()
        GroupLog(partition)._stage(batch, Append(done.resolve), NOW_MS)
        await run(done.wait())
        assert replayed(partition) == [forgotten]


# -- refused producers


def refusal(log: GroupLog, *events: Event) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        log.check(events)
    return refused.value.code


async def test_a_fenced_producer_is_refused_before_any_event_is_applied(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        log = GroupLog(await create(broker, "groups"))
        await run(log.commit([pended(ANN, 1, epoch=3), ended(ANN, epoch=4, coordinator=2)], NOW_MS))

        for older in (pended(ANN, 1, epoch=3), ended(ANN, epoch=3, coordinator=2)):
            assert refusal(log, older) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert refusal(log, ended(ANN, epoch=4, coordinator=1)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        for fine in (pended(ANN, 1, epoch=4), ended(ANN, epoch=4, coordinator=2), pended(BOB, 1), committed(1)):
            log.check([fine])
        log.check([])


async def test_a_staged_batch_already_fences_an_older_producer(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        log = GroupLog(await create(broker, "groups"))
        await run(log.commit([pended(ANN, 1)], NOW_MS))
        log.check([ended(ANN, epoch=1)])
        assert refusal(log, pended(ANN, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
        await run(log.commit([ended(ANN, epoch=1)], NOW_MS))
        assert refusal(log, pended(ANN, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_in_protocol_2_a_repeated_end_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        log = GroupLog(await create(broker, "groups"))
        first = ended(ANN, epoch=1, version=2)
        await run(log.commit([pended(ANN, 1), first], NOW_MS))
        log.check([first])
        await run(log.commit([pended(ANN, 2, epoch=1)], NOW_MS))

        assert refusal(log, first) is ErrorCode.INVALID_PRODUCER_EPOCH
        log.check([ended(ANN, epoch=1)])
        log.check([ended(ANN, epoch=2, version=2)])


# -- compaction


async def test_compaction_keeps_the_latest_committed_offsets(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create(
            broker, "groups", cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_ms="1000"
        )
        log = GroupLog(partition)
        for events in (
            [committed(1), pended(ANN, 2), ended(ANN)],
            [pended(ANN, 3), ended(ANN, is_committed=False)],
            [pended(ANN, 4, partition=1), ended(ANN), committed(5, partition=1)],
        ):
            await run(log.commit(events, clock.now_ms()))
        clock.advance(10_000)
        partition._log.roll_if_due(clock.now_ms())
        await run(log.commit([pended(BOB, 6), committed(7, partition=2), committed(8, partition=2)], clock.now_ms()))
        clock.advance(10_000)
        await run(broker.housekeeping.compact())

        left = replayed(partition)
        assert [event for event in left if not isinstance(event, TransactionEnded)] == [
            pended(ANN, 2),
            committed(5, partition=1),
            pended(BOB, 6),
            # Compaction stops at the first offset of the earliest open transaction.
            committed(7, partition=2),
            committed(8, partition=2),
        ]
        assert left[1] == ended(ANN), "without it the offset would be pending again"
