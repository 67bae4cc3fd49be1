"""Crashes at every step of a delayed record: it appears once all the same."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.schedule.coordinator import ScheduleCoordinator
from headwater.broker.schedule.delivery import Delivery
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from tests.support.broker.embedded_broker import NOW_MS, produce, readable, stage, start
from tests.support.broker.faulty_disk import BROKEN, FULL, FaultyDisk
from tests.support.broker.schedules import (
    advance,
    batch_of,
    create_delaying,
    delayed,
    kill,
    pending,
    restarted,
    settle,
    until,
)


def sequenced(number: int, delay_ms: int = 1000) -> bytes:
    records = delayed(b"now %d" % number), delayed(b"later %d" % number, delay_ms)
    return batch_of(*records, producer_id=7, producer_epoch=0, base_sequence=2 * number)


async def again(broker: Broker, path: Path, clock: ManualClock) -> tuple[Broker, Partition]:
    await kill(broker)
    broker = await restarted(path, clock)
    return broker, broker.partition("orders", 0)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_restart_keeps_what_is_scheduled(tmp_path: Path, *, is_clean: bool) -> None:
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    for number in range(5):
        await produce(broker, partition, sequenced(number, 1000 * number + 1000))
    await advance(broker, clock, 2000)
    if is_clean:
        await broker.stop()
        broker = await restarted(tmp_path, clock)
        partition = broker.partition("orders", 0)
    else:
        broker, partition = await again(broker, tmp_path, clock)
    assert pending(broker) == 3

    await advance(broker, clock, 3000)
    values = readable(partition)
    assert [each for each in values if each and each.startswith(b"later")] == [b"later %d" % n for n in range(5)]
    assert pending(broker) == 0
    await broker.stop()


async def test_what_is_due_while_the_broker_is_down_is_delivered_at_the_start(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    await produce(broker, await create_delaying(broker), sequenced(0))
    await kill(broker)
    clock.advance(5000)

    broker = await restarted(tmp_path, clock)
    await settle(broker, clock)
    assert readable(broker.partition("orders", 0)) == [b"now 0", b"later 0"]
    await broker.stop()


async def test_a_crash_between_the_two_appends_and_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule has the delayed records, the target does not have the rest."""
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    await produce(broker, partition, sequenced(0))
    with monkeypatch.context() as patch:
        patch.setattr(ScheduleCoordinator, "call_in_turn", lambda *_: None)
        stage(broker, partition, sequenced(1))
        await until(lambda: broker.partition("__headwater_schedule", 0).is_flushed and pending(broker) == 2)
        await broker.journal.drain()
    broker, partition = await again(broker, tmp_path, clock)
    assert readable(partition) == [b"now 0"]

    assert (await produce(broker, partition, sequenced(1))).error is None
    # The next retry is recognised by the target.
    assert (await produce(broker, partition, sequenced(1))).base_offset == 2
    assert (await produce(broker, partition, sequenced(2))).error is None
    await advance(broker, clock, 1000)
    assert readable(partition) == [b"now 0", b"now 1", b"now 2", b"later 0", b"later 1", b"later 2"]
    await broker.stop()


async def test_a_retry_that_comes_after_the_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    with monkeypatch.context() as patch:
        patch.setattr(ScheduleCoordinator, "call_in_turn", lambda *_: None)
        stage(broker, partition, sequenced(0))
        await until(lambda: "schedule" in vars(broker) and pending(broker) == 1)
        await broker.journal.drain()
    broker, partition = await again(broker, tmp_path, clock)
    await advance(broker, clock, 1000)
    assert readable(partition) == [b"later 0"]

    assert (await produce(broker, partition, sequenced(0))).error is None
    await advance(broker, clock, 10_000)
    assert readable(partition) == [b"later 0", b"now 0"]
    await broker.stop()


async def test_a_crash_before_a_delivery_that_was_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    await produce(broker, partition, sequenced(0))
    with monkeypatch.context() as patch:

        async def hang(_: Delivery) -> bool:
            await asyncio.Event().wait()
            return True

        patch.setattr(Delivery, "run", hang)
        clock.advance(1000)
        wake(broker)
        await until(lambda: broker.schedule._deliveries)
    broker, partition = await again(broker, tmp_path, clock)
    await settle(broker, clock)

    assert readable(partition) == [b"now 0", b"later 0"]
    await broker.stop()


async def test_a_crash_after_the_delivery_and_before_it_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    for number in range(4):
        await produce(broker, partition, sequenced(number, 1000 + number))
        clock.advance(1000)
    with monkeypatch.context() as patch:
        patch.setattr(ScheduleCoordinator, "_delivered", lambda *_: None)
        clock.advance(10_000)
        wake(broker)
        await until(lambda: len(readable(partition)) > 4)
    before = readable(partition)
    broker, partition = await again(broker, tmp_path, clock)
    await settle(broker, clock)

    after = readable(partition)
    assert after[: len(before)] == before
    assert sorted(each for each in after if each) == sorted(
        [b"now %d" % n for n in range(4)] + [b"later %d" % n for n in range(4)]
    )
    assert pending(broker) == 0
    await broker.stop()


async def test_crashes_at_random_under_an_injected_clock(tmp_path: Path) -> None:
    """Producers repeat what was not acknowledged; each record comes once, and none before its time."""
    random = Random(18)
    clock = ManualClock(NOW_MS)
    broker = start(tmp_path, clock=clock)
    partition = await create_delaying(broker)
    due_ms: dict[bytes, int] = {}
    for number in range(60):
        delay_ms = random.randrange(1, 5000)
        due_ms[b"later %d" % number] = clock.now_ms() + delay_ms
        outcome = stage(broker, partition, sequenced(number, delay_ms))
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        if random.random() < 0.3:
            broker, partition = await again(broker, tmp_path, clock)
            assert (await produce(broker, partition, sequenced(number, delay_ms))).error is None
        else:
            assert (await outcome.wait()).error is None
        clock.advance(random.randrange(500))
        wake(broker)
        for value in readable(partition):
            assert value is not None
            assert due_ms.get(value, 0) <= clock.now_ms()
    await advance(broker, clock, 5000)

    values = readable(partition)
    assert len(values) == 120
    assert {each for each in values if each in due_ms} == set(due_ms)
    await broker.stop()


# -- trouble with the disk


async def test_a_full_disk_under_the_schedule_and_a_retry(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    disk = FaultyDisk()
    broker = start(tmp_path, clock=clock, disk=disk)
    partition = await create_delaying(broker)
    await produce(broker, partition, sequenced(0))
    disk.cursed, disk.write_error = "__headwater_schedule", FULL
    refused = await produce(broker, partition, sequenced(1))
    assert refused.error is not None
    assert refused.error.code == ErrorCode.NOT_ENOUGH_REPLICAS
    disk.heal()

    await until(lambda: all(shard.machine is not None for shard in broker.schedule.shards))
    assert (await produce(broker, partition, sequenced(1))).error is None
    await advance(broker, clock, 1000)
    assert readable(partition) == [b"now 0", b"now 1", b"later 0", b"later 1"]
    await broker.stop()


async def test_a_full_disk_under_the_target(tmp_path: Path) -> None:
    """A producer that is refused finds nothing of its batch later; a delivery is tried again."""
    clock = ManualClock(NOW_MS)
    disk = FaultyDisk()
    broker = start(tmp_path, clock=clock, disk=disk)
    partition = await create_delaying(broker)
    await produce(broker, partition, sequenced(0))
    disk.cursed, disk.write_error = "orders", FULL
    refused = await produce(broker, partition, batch_of(delayed(b"refused", 1000)))
    assert refused.error is not None
    clock.advance(1000)
    wake(broker)
    await until(lambda: broker.schedule.measurements.attempts_failed.value)
    disk.heal()

    await settle(broker, clock)
    assert readable(partition) == [b"now 0", b"later 0"]
    assert pending(broker) == 0
    await broker.stop()


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_a_retry_after_a_full_disk_under_the_target(tmp_path: Path, *, is_restarted: bool) -> None:
    """The first attempt was withdrawn, so the second one schedules its records anew."""
    clock = ManualClock(NOW_MS)
    disk = FaultyDisk()
    broker = start(tmp_path, clock=clock, disk=disk)
    partition = await create_delaying(broker)
    await produce(broker, partition, sequenced(0))
    disk.cursed, disk.write_error = "orders", FULL
    refused = await produce(broker, partition, sequenced(1))
    assert refused.error is not None
    disk.heal()
    if is_restarted:
        broker, partition = await again(broker, tmp_path, clock)

    assert (await produce(broker, partition, sequenced(1))).error is None
    await advance(broker, clock, 1000)
    assert readable(partition) == [b"now 0", b"now 1", b"later 0", b"later 1"]
    await broker.stop()


async def test_a_target_that_is_offline_gets_its_records_at_the_next_start(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    disk = FaultyDisk()
    broker = start(tmp_path, clock=clock, disk=disk)
    partition = await create_delaying(broker)
    other = await create_delaying(broker, "invoices")
    await produce(broker, partition, sequenced(0))
    await produce(broker, other, sequenced(0))
    disk.cursed, disk.write_error = "orders", BROKEN
    clock.advance(1000)
    wake(broker)
    await until(lambda: not partition.is_online and len(readable(other)) == 2)
    assert pending(broker) == 1
    disk.heal()

    broker, partition = await again(broker, tmp_path, clock)
    await settle(broker, clock)
    assert readable(partition) == [b"now 0", b"later 0"]
    await broker.stop()


def wake(broker: Broker) -> None:
    if "schedule" in vars(broker):
        for shard in broker.schedule.shards:
            shard.wake()
