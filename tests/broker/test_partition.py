"""When a batch is acknowledged and when consumers see it; duplicates; disks that fill up or break."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.errors import ErrorCode, Refusal
from headwater.storage.disk import File
from tests.support.broker.embedded_broker import batch_of, create, produce, readable, running, sequenced, settled, stage
from tests.support.broker.faulty_disk import BROKEN, FULL, FaultyDisk


def synced(disk: FaultyDisk, name: str) -> int:
    return sum(1 for path in disk.synced if path.parent.name == name and path.suffix == ".log")


# -- what an acknowledgement means


@pytest.mark.parametrize(
    ("overrides", "acks", "flushes"),
    [
        ({}, ACKS_ALL, True),
        ({}, 1, False),
        ({}, 0, False),
        ({"headwater_flush": "interval"}, ACKS_ALL, False),
        ({"headwater_flush": "os"}, ACKS_ALL, False),
        ({"headwater_flush": "os", "flush_messages": "1"}, ACKS_ALL, True),
        ({"headwater_flush": "os", "flush_messages": "1"}, 1, True),
        ({"headwater_flush": "interval", "flush_messages": "1"}, 0, True),
    ],
)
async def test_a_produce_reply_leaves_exactly_when_its_acks_rule_is_met(
    tmp_path: Path, overrides: dict[str, Any], acks: int, flushes: bool
) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed", **overrides)
        disk.sync_allowed.clear()
        outcome = stage(broker, partition, batch_of(b"v"), acks=acks)
        assert not outcome.is_done, "nothing is written before the end of the turn"
        if flushes:
            await asyncio.to_thread(disk.sync_started.wait, 20)
            assert not outcome.is_done
            disk.sync_allowed.set()
        appended = await settled(outcome)
        disk.sync_allowed.set()

        assert (appended.error, appended.base_offset) == (None, 0)
        assert synced(disk, "cursed-0") == (1 if flushes else 0)
        assert partition._log.flushed_offset == (1 if flushes else 0)


async def test_flush_messages_delays_the_flush_until_that_many_records(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed", headwater_flush="os", flush_messages="3")
        for _ in range(7):
            await produce(broker, partition, batch_of(b"v"), acks=1)
        assert synced(disk, "cursed-0") == 2
        assert partition._log.flushed_offset == 6


async def test_a_record_is_visible_only_when_it_is_as_durable_as_its_producer_asked(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await produce(broker, partition, batch_of(b"first"), acks=1)
        assert readable(partition) == [b"first"]

        disk.sync_allowed.clear()
        durable = stage(broker, partition, batch_of(b"durable"))
        await asyncio.to_thread(disk.sync_started.wait, 20)
        behind = await produce(broker, partition, batch_of(b"behind"), acks=1)

        assert behind.base_offset == 2, "it is acknowledged"
        assert readable(partition) == [b"first"], "but not seen before the one in front of it"
        disk.sync_allowed.set()
        await settled(durable)
        assert readable(partition) == [b"first", b"durable", b"behind"]


async def test_one_write_and_one_flush_serve_all_that_arrive_in_a_turn(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        outcomes = [stage(broker, partition, batch_of(b"%d" % n)) for n in range(20)]
        offsets = [(await settled(outcome)).base_offset for outcome in outcomes]

        assert offsets == list(range(20))
        assert synced(disk, "cursed-0") == 1


async def test_appends_during_a_flush_share_the_next(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        disk.sync_allowed.clear()
        first = stage(broker, partition, batch_of(b"first"))
        await asyncio.to_thread(disk.sync_started.wait, 20)
        later = [stage(broker, partition, batch_of(b"later")) for _ in range(10)]
        await asyncio.sleep(0)
        disk.sync_allowed.set()
        for outcome in (first, *later):
            assert (await settled(outcome)).error is None
        assert synced(disk, "cursed-0") == 2


@pytest.mark.parametrize("flush", ["os", "ack"])
async def test_a_failing_callback_does_not_prevent_other_outcomes(tmp_path: Path, flush: str) -> None:
    def refuse(_: Append) -> None:
        raise RuntimeError("planted")

    async with running(tmp_path) as broker:
        partition = await create(broker, "cursed", headwater_flush=flush)
        broker.produce(partition, memoryview(bytearray(batch_of(b"mute"))), Append(refuse), acks=ACKS_ALL)
        beside = await produce(broker, partition, batch_of(b"beside"))
        later = await produce(broker, partition, batch_of(b"later"))
        assert [beside.base_offset, later.base_offset] == [1, 2]
        assert readable(partition) == [b"mute", b"beside", b"later"]


async def test_the_producer_is_told_the_log_append_time(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t", message_timestamp_type="LogAppendTime")
        appended = await produce(broker, partition, batch_of(b"v", timestamp=5))
        assert appended.log_append_time_ms == broker.clock.now_ms()


# -- duplicates


async def test_a_retried_batch_is_acknowledged_again_and_written_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        for sequence in range(6):
            await produce(broker, partition, sequenced(sequence))

        for sequence in range(1, 6):
            assert (await produce(broker, partition, sequenced(sequence))).base_offset == sequence
        assert partition._log.end_offset == 6


async def test_a_duplicate_of_an_unflushed_batch_waits_for_its_flush(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        same_turn = [stage(broker, partition, sequenced(0)), stage(broker, partition, sequenced(0))]
        assert [(await settled(one)).base_offset for one in same_turn] == [0, 0]

        disk.sync_allowed.clear()
        first = stage(broker, partition, sequenced(1))
        await asyncio.to_thread(disk.sync_started.wait, 20)
        second = stage(broker, partition, sequenced(1))
        await asyncio.sleep(0)
        assert not second.is_done, "a duplicate may not promise what the first has not got yet"
        disk.sync_allowed.set()
        assert [(await settled(one)).base_offset for one in (first, second)] == [1, 1]
        assert partition._log.end_offset == 2


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (sequenced(9), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (sequenced(0, epoch=-1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (sequenced(5, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
async def test_a_sequence_out_of_order_is_refused_and_takes_no_offset(
    tmp_path: Path, batch: bytes, code: ErrorCode
) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await produce(broker, partition, sequenced(0))
        with pytest.raises(Refusal) as refused:
            stage(broker, partition, batch)
        assert refused.value.code is code
        assert (await produce(broker, partition, sequenced(1))).base_offset == 1


# -- disks


async def test_a_full_disk_refuses_and_the_same_batch_fits_later(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await produce(broker, partition, sequenced(0))
        disk.write_error = FULL

        outcomes = [stage(broker, partition, sequenced(1)), stage(broker, partition, sequenced(2))]
        duplicate = stage(broker, partition, sequenced(1))
        for outcome in (*outcomes, duplicate):
            refused = await settled(outcome)
            assert refused.error is not None
            assert refused.error.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert refused.base_offset == -1
        assert readable(partition) == [b"0"]
        disk.heal()

        # The sequences of the refused batch are free again.
        assert [(await produce(broker, partition, sequenced(n))).base_offset for n in (1, 2)] == [1, 2]
        assert readable(partition) == [b"0", b"1", b"2"]
    async with running(tmp_path) as broker:
        assert readable(broker.partition("cursed", 0)) == [b"0", b"1", b"2"]


async def test_a_broken_write_takes_only_its_partition_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        healthy = await create(broker, "healthy")
        await produce(broker, partition, batch_of(b"kept"))
        disk.write_error = BROKEN
        refused = await produce(broker, partition, batch_of(b"lost"))
        disk.heal()

        assert refused.error is not None
        assert refused.error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        with pytest.raises(Refusal, match="offline") as offline:
            stage(broker, partition, batch_of(b"later"))
        assert offline.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(Refusal, match="offline"):
            readable(partition)
        assert (await produce(broker, healthy, batch_of(b"fine"))).error is None
    async with running(tmp_path) as broker:
        assert readable(broker.partition("cursed", 0)) == [b"kept"]


@pytest.mark.parametrize("error", [OSError(BROKEN, "broken"), ZeroDivisionError("a bug")])
async def test_any_error_in_one_partition_leaves_the_other_writes_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with running(tmp_path) as broker:
        partitions = [await create(broker, name) for name in ("before", "broken", "after")]

        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(File, "pwritev", _only(partitions[1]._log.directory, fail, File.pwritev))
        outcomes = [stage(broker, partition, batch_of(b"v")) for partition in partitions]
        before, broken, after = [await settled(outcome) for outcome in outcomes]

        assert (before.error, after.error) == (None, None)
        assert broken.error is not None
        assert broken.error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await produce(broker, partitions[2], batch_of(b"later"))).error is None


def _only(directory: Path, faulty: Callable[..., None], sound: Callable[..., None]) -> Callable[..., None]:
    """`faulty` for the files of one directory, `sound` for all others."""

    def choose(file: File, *arguments: object) -> None:
        (faulty if file.path.parent == directory else sound)(file, *arguments)

    return choose


async def test_a_failed_flush_acknowledges_no_batch_and_is_not_retried(tmp_path: Path) -> None:
    """After a failed fsync the next one succeeds and says nothing about what was lost: it must not move the
    flushed offset."""
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        healthy = await create(broker, "healthy")
        await produce(broker, partition, batch_of(b"kept"))
        disk.sync_error = BROKEN
        disk.sync_allowed.clear()
        disk.sync_started.clear()
        waiting = [stage(broker, partition, batch_of(b"lost")) for _ in range(3)]
        await asyncio.to_thread(disk.sync_started.wait, 20)
        waiting.append(stage(broker, partition, batch_of(b"behind")))
        await asyncio.sleep(0)
        disk.sync_allowed.set()
        for outcome in waiting:
            error = (await settled(outcome)).error
            assert error is not None
            # Not KAFKA_STORAGE_ERROR: librdkafka takes that for "not stored" and reuses the sequence for other records.
            assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        disk.heal()

        await broker.housekeeping.flush_due()
        broker.journal.flush_soon(partition)
        await broker.journal.drain()
        await broker.housekeeping.checkpoint()

        assert partition._log.flushed_offset == 1
        assert "cursed 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
        assert (await produce(broker, healthy, batch_of(b"fine"))).error is None
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


async def test_a_closed_partition_refuses_every_operation(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        disk.sync_allowed.clear()
        flushing = stage(broker, partition, batch_of(b"v"))
        await asyncio.to_thread(disk.sync_started.wait, 20)
        staged = stage(broker, partition, batch_of(b"v"), acks=1)
        partition.close()
        for outcome in (flushing, staged):
            assert (await settled(outcome)).error is not None
        disk.sync_allowed.set()
        with pytest.raises(Refusal) as gone:
            stage(broker, partition, batch_of(b"v"))
        assert gone.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await broker.journal.drain()
