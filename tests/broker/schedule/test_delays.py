"""Delayed records: they appear when they are due, once, and never before."""

from pathlib import Path
from typing import Any

import pytest

from headwater.broker.partition import Partition
from headwater.broker.writes.journal import ACKS_ALL
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BROKER_PRODUCER_IDS, BatchHeader
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.batches.records import Record
from tests.support.broker.embedded_broker import NOW_MS, produce, readable, running
from tests.support.broker.schedules import advance, batch_of, create_delaying, delayed, pending, settle


def contents(partition: Partition) -> list[tuple[BatchHeader, list[Record]]]:
    found = partition.read(0, 1 << 20, limit_offset=partition.high_watermark, first_batch_whole=True)
    assert isinstance(found, FileRange)
    return [(header, batches.read_records(batch, header, 1 << 20)) for header, batch in batches.iterate(found.read())]


async def test_a_delayed_record_appears_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        produced = await produce(broker, partition, batch_of(delayed(b"now"), delayed(b"later", 5000)))
        assert (produced.error, produced.base_offset, produced.next_offset) == (None, 0, 2)

        await advance(broker, clock, 4999)
        assert readable(partition) == [b"now"]

        await advance(broker, clock, 1)
        assert readable(partition) == [b"now", b"later"]
        assert pending(broker) == 0

        await advance(broker, clock, 100_000)
        assert readable(partition) == [b"now", b"later"]


async def test_a_batch_keeps_its_range_of_offsets_and_its_sequences(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        sent = batch_of(
            delayed(b"later", 10), delayed(b"now"), delayed(b"later", 20), producer_id=7, producer_epoch=0,
            base_sequence=0,
        )  # fmt: skip
        assert (await produce(broker, partition, sent)).next_offset == 3
        alone = batch_of(delayed(b"alone", 30), producer_id=7, producer_epoch=0, base_sequence=3)
        assert (await produce(broker, partition, alone)).base_offset == 3

        first, empty = contents(partition)
        assert (first[0].base_sequence, first[0].last_sequence, first[0].record_count) == (0, 2, 1)
        assert [(record.offset, record.value) for record in first[1]] == [(1, b"now")]
        assert (empty[0].base_offset, empty[0].last_offset, empty[0].last_sequence, empty[1]) == (3, 3, 3, [])
        plain = batch_of(delayed(b"plain"), producer_id=7, producer_epoch=0, base_sequence=4)
        assert (await produce(broker, partition, plain)).base_offset == 4

        await advance(broker, clock, 30)
        header, records = contents(partition)[-1]
        assert header.producer_id >= BROKER_PRODUCER_IDS
        assert [record.value for record in records] == [b"later", b"later", b"alone"]


async def test_a_delivered_record_has_its_due_time_and_says_so(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        await produce(broker, partition, batch_of(delayed(b"later", 5000, name="invoice 7")))
        await advance(broker, clock, 9000)

        ((record,),) = [records for _, records in contents(partition) if records]
        assert (record.key, record.value, record.timestamp) == (b"k", b"later", NOW_MS + 5000)
        assert record.headers == (
            ("headwater-deliver-at", b"%d" % (NOW_MS + 5000)),
            ("headwater-schedule-id", b"invoice 7"),
        )


async def test_a_time_in_the_past_and_no_delay_are_now(tmp_path: Path) -> None:
    async with running(tmp_path, clock=ManualClock(NOW_MS)) as broker:
        partition = await create_delaying(broker)
        await produce(
            broker, partition, batch_of(delayed(b"a", 0), delayed(b"b", at_ms=NOW_MS), delayed(b"c", at_ms=1))
        )

        assert readable(partition) == [b"a", b"b", b"c"]
        assert "schedule" not in vars(broker)


async def test_records_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        await produce(broker, partition, batch_of(delayed(b"3", 3000), delayed(b"1", 1000), delayed(b"2", 2000)))
        await produce(broker, partition, batch_of(delayed(b"2 again", 2000)))
        await advance(broker, clock, 3000)

        assert readable(partition) == [b"1", b"2", b"2 again", b"3"]


async def test_a_topic_without_delay_takes_the_headers_for_headers(tmp_path: Path) -> None:
    async with running(tmp_path, clock=ManualClock(NOW_MS)) as broker:
        partition = await create_delaying(broker)
        broker.partitions.use_config(partition.id.topic, type(partition.config)())
        await produce(broker, partition, batch_of(delayed(b"now", 5000)))

        assert readable(partition) == [b"now"]


@pytest.mark.parametrize("codec", list(Codec))
async def test_compressed_batches(tmp_path: Path, codec: Codec) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        await produce(broker, partition, batch_of(delayed(b"now"), delayed(b"later", 5), codec=codec))
        assert readable(partition) == [b"now"]
        assert contents(partition)[0][0].codec == codec

        await advance(broker, clock, 5)
        assert readable(partition) == [b"now", b"later"]


@pytest.mark.parametrize("codec", list(Codec))
async def test_large_batches_are_split_in_a_thread(tmp_path: Path, codec: Codec) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, {"headwater.batch.inline.bytes.max": "1024"}, clock=clock) as broker:
        partition = await create_delaying(broker)
        sent = [delayed(b"%d" % number + bytes(2000), number % 3) for number in range(300)]
        assert (await produce(broker, partition, batch_of(*sent, codec=codec))).error is None
        assert len(readable(partition)) == 100

        await advance(broker, clock, 2)
        assert sorted(readable(partition), key=str) == sorted((each.value for each in sent), key=str)


async def test_a_topic_that_stores_another_codec_gets_it_in_both_batches(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker, compression_type="lz4")
        await produce(broker, partition, batch_of(delayed(b"now"), delayed(b"later", 5), codec=Codec.GZIP))
        await advance(broker, clock, 5)

        assert readable(partition) == [b"now", b"later"]
        assert [header.codec for header, _ in contents(partition)] == [Codec.LZ4, Codec.LZ4]


async def test_a_topic_with_log_append_time_has_it_for_both_batches(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker, message_timestamp_type="LogAppendTime")
        produced = await produce(broker, partition, batch_of(delayed(b"now"), delayed(b"later", 5)))
        assert produced.log_append_time_ms == NOW_MS
        await advance(broker, clock, 50)

        assert [(header.is_log_append_time, header.max_timestamp) for header, _ in contents(partition)] == [
            (True, NOW_MS),
            (True, NOW_MS + 50),
        ]


async def test_too_long_a_delay_is_refused_by_record(tmp_path: Path) -> None:
    async with running(tmp_path, clock=ManualClock(NOW_MS)) as broker:
        partition = await create_delaying(broker, headwater_delay_max_ms="1000")
        sent = batch_of(delayed(b"ok", 1000), delayed(b"a", 1001), delayed(b"b", at_ms=NOW_MS + 1001))

        with pytest.raises(InvalidRecord, match=r"headwater\.delay\.max\.ms") as refused:
            await produce(broker, partition, sent)
        assert [index for index, _ in refused.value.refused] == [1, 2]
        assert partition.end_offset == 0


@pytest.mark.parametrize("setting", ["headwater.delay.pending.max", "headwater.schedule.pending.max"])
async def test_too_many_scheduled_records_are_refused(tmp_path: Path, setting: str) -> None:
    clock = ManualClock(NOW_MS)
    of_topic = setting == "headwater.delay.pending.max"
    async with running(tmp_path, {} if of_topic else {setting: "2"}, clock=clock) as broker:
        limits: dict[str, Any] = {setting: "2"} if of_topic else {}
        partition = await create_delaying(broker, **limits)
        assert (await produce(broker, partition, batch_of(delayed(b"a", 5), delayed(b"b", 6)))).error is None
        refused = await produce(broker, partition, batch_of(delayed(b"now"), delayed(b"c", 5)))
        assert refused.error is not None
        assert refused.error.code == ErrorCode.POLICY_VIOLATION
        assert setting in str(refused.error)
        assert readable(partition) == []

        await advance(broker, clock, 5)
        assert (await produce(broker, partition, batch_of(delayed(b"d", 5)))).error is None
        await advance(broker, clock, 5)
        assert readable(partition) == [b"a", b"b", b"d"]


async def test_the_clock_jumps_back_and_forth(tmp_path: Path) -> None:
    """What is due is decided by the wall clock, whatever it does."""
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        partition = await create_delaying(broker)
        await produce(broker, partition, batch_of(delayed(b"later", 5000)))
        clock.jump(-60_000)
        await advance(broker, clock, 5000)
        assert readable(partition) == []

        clock.jump(60_000)
        # The jump is noticed within a second.
        await advance(broker, clock, 1000)
        assert readable(partition) == [b"later"]


async def test_the_topic_of_the_schedule_is_nobody_elses(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, clock=clock) as broker:
        await produce(broker, await create_delaying(broker), batch_of(delayed(b"later", 5000)))
        internal = broker.partition("__headwater_schedule", 0)

        with pytest.raises(Exception, match="internal"):
            await produce(broker, internal, batch_of(delayed(b"forged")))
        await settle(broker, clock)


async def test_no_client_may_be_the_schedules_producer(tmp_path: Path) -> None:
    """Its batches would make deliveries look like duplicates."""
    async with running(tmp_path, clock=ManualClock(NOW_MS)) as broker:
        partition = await create_delaying(broker)
        forged = batch_of(delayed(b"x"), producer_id=BROKER_PRODUCER_IDS, producer_epoch=0, base_sequence=0)

        with pytest.raises(Exception, match="the broker's own"):
            await produce(broker, partition, forged, acks=ACKS_ALL)
