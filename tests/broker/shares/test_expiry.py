"""Time to live: what has expired is not delivered, whatever the batches look like and the clock does."""

from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares import expiry as expiry_module
from headwater.clock import ManualClock
from headwater.ids import TopicName
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.protocol.batches.records import Record
from tests.broker.shares.dead_letter_cases import brief, configure, settled, until
from tests.broker.shares.share_commands import ACCEPT, BOB, RELEASE, SETTINGS, Shared, loaded, shared
from tests.support.broker.embedded_broker import NOW_MS, create, produce, running, start

TTL = "headwater-ttl-ms"


def batch(*ttls: int | None, timestamp: int = NOW_MS, value: bytes = b"v", codec: int = Codec.NONE) -> bytes:
    """One record for each time to live; None names none."""
    records = [
        Record(index, timestamp, b"k", value, () if ttl is None else ((TTL, b"%d" % ttl),))
        for index, ttl in enumerate(ttls)
    ]
    return bytes(batches.build(records, codec=codec))


async def queue(broker: Broker, **overrides: str) -> Shared:
    partition = await create(broker, "orders", 1, **overrides)
    found = Shared(broker, partition)
    await configure(broker)
    await found.join()
    return found


async def put(found: Shared, data: bytes) -> None:
    appended = await produce(found.broker, found.partition, data)
    assert appended.error is None, appended.error


async def test_a_topic_default_expires_whole_batches(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_ms="1000")
        await put(orders, batch(None, None))
        await put(orders, batch(None, None, timestamp=NOW_MS + 5000))
        clock.advance(999)
        assert await orders.fetched(records_max=1, is_strict=True) == [(0, 0, 1)]
        clock.advance(1)
        assert await orders.fetched() == [(2, 3, 1)]
        await until(lambda: broker.shares.measurements.outlived.value == 1)
        await orders.acknowledge(0, 0, RELEASE)
        assert await orders.fetched(wait_ms=0) == [], "what is given back has expired, too"
        await until(lambda: broker.shares.measurements.outlived.value == 2)


async def test_records_of_one_batch_live_and_die_by_their_headers(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_enable="true", headwater_ttl_ms="500")
        await put(orders, batch(100, None, 1000, 200, 10_000, None))
        clock.advance(600)
        assert await orders.fetched() == [(2, 2, 1), (4, 4, 1)]
        await until(lambda: broker.shares.measurements.outlived.value == 4)


@pytest.mark.parametrize("is_large", [True, False])
async def test_compressed_and_large_batches_are_looked_into_in_a_thread(tmp_path: Path, is_large: bool) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_enable="true")
        value = b"v" * (expiry_module.INLINE_BYTES_MAX if is_large else 10)
        await put(orders, batch(None))
        await put(orders, batch(100, None, 100, value=value, codec=Codec.NONE if is_large else Codec.ZSTD))
        clock.advance(200)
        got = await orders.fetched()
        if got == [(0, 0, 1)]:
            got += await orders.fetched()
        assert got == [(0, 0, 1), (2, 2, 1)]


async def test_a_backlog_of_expired_records_is_passed_over_in_one_fetch(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_ms="1000")
        for _ in range(40):
            await put(orders, batch(None, value=b"v" * 1000))
        clock.advance(1000)
        assert await orders.fetched(bytes_max=4000, wait_ms=1) == []
        await put(orders, batch(None, timestamp=NOW_MS + 5000))
        assert await orders.fetched(bytes_max=4000) == [(40, 40, 1)]


async def test_log_append_time_counts_where_the_topic_has_it(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_enable="true", message_timestamp_type="LogAppendTime")
        clock.advance(5000)
        await put(orders, batch(1000, 2000, timestamp=NOW_MS))
        assert await orders.fetched() == [(0, 1, 1)]
        await orders.acknowledge(0, 1, RELEASE)
        clock.advance(1000)
        assert await orders.fetched() == [(1, 1, 2)]


async def test_a_clock_that_is_set_back_brings_nothing_back(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS + 2000)
    broker = start(tmp_path, SETTINGS, clock=clock)
    orders = await queue(broker, headwater_ttl_ms="1000")
    await put(orders, batch(None))
    await put(orders, batch(None, timestamp=NOW_MS + 2000))
    assert await orders.fetched() == [(1, 1, 1)]
    await orders.acknowledge(1, 1, ACCEPT)
    await broker.stop()
    async with running(tmp_path, SETTINGS, clock=ManualClock(NOW_MS)) as again:
        orders = await loaded(again, orders)
        assert await orders.fetched(wait_ms=0) == []


async def test_a_record_without_a_timestamp_does_not_expire(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_ms="1000")
        await put(orders, batch(None, None, timestamp=-1))
        clock.advance(5000)
        assert await orders.fetched() == [(0, 1, 1)]


async def test_a_header_from_before_the_topic_heeded_it_is_none(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker)
        record = Record(0, NOW_MS, b"k", b"v", ((TTL, b"soon"),))
        await put(orders, bytes(batches.build([record])))
        await broker.configs.replace(2, "orders", {"headwater.ttl.enable": "true"}, validate_only=False)
        clock.advance(5000)
        assert await orders.fetched() == [(0, 0, 1)]


async def test_a_change_of_the_setting_counts_for_records_that_are_there(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_enable="true")
        await put(orders, batch(None, None, 9000))
        clock.advance(2000)
        assert await orders.fetched() == [(0, 2, 1)]
        await orders.acknowledge(0, 2, RELEASE)
        settings = {"headwater.ttl.enable": "true", "headwater.ttl.ms": "1000"}
        await broker.configs.replace(2, "orders", settings, validate_only=False)
        assert await orders.fetched() == [(2, 2, 2)]


@pytest.mark.parametrize("asked", [True, False])
async def test_expired_records_are_dead_letters_if_the_group_asks(tmp_path: Path, asked: bool) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_ms="1000")
        await configure(
            broker, headwater_deadletterqueue_enable="true", headwater_deadletterqueue_expired_enable=str(asked).lower()
        )
        await put(orders, batch(None, None))
        assert await orders.fetched(records_max=1, is_strict=True) == [(0, 0, 1)]
        await orders.acknowledge(0, 0, RELEASE)
        clock.advance(1000)
        assert await orders.fetched(BOB, wait_ms=0) == []
        await settled(broker, orders)
        if asked:
            assert brief(broker) == [(b"v", 0, 1, Reason.EXPIRED), (b"v", 1, 0, Reason.EXPIRED)]
        else:
            assert broker.topics.find("orders.dlq") is None


async def test_topics_without_a_time_to_live_do_not_load_what_it_takes(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await shared(broker)
        await orders.produce(b"a")
        await orders.fetched()
        assert "expiry" not in vars(broker.shares)


async def test_a_topic_that_was_created_again_has_records_of_its_own(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, headwater_ttl_enable="true")
        await put(orders, batch(100, 999))
        clock.advance(500)
        assert await orders.fetched() == [(1, 1, 1)]
        await broker.topics.delete(TopicName("orders"))
        orders = await queue(broker, headwater_ttl_enable="true")
        # Of the same size, at the same offset.
        await put(orders, batch(900, 999))
        assert await orders.fetched() == [(0, 1, 1)]
