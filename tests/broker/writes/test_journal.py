"""Writes and flushes of all partitions, gathered; results handed on in the same instant."""

import asyncio
import errno
import platform
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.pending import Pending
from headwater.broker.writes.kernel_engine import KernelEngine
from headwater.errors import Refusal
from headwater.storage.flush import kernel_sync
from headwater.storage.flush.kernel_sync import KernelSync
from tests.support.broker.embedded_broker import TIMEOUT_S, batch_of, create, produce, run, running, settled, stage
from tests.support.broker.faulty_disk import FaultyDisk


async def test_partitions_are_flushed_side_by_side_in_one_go(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        first = await create(broker, "cursed", 2)
        second = broker.partition("cursed", 1)
        disk.sync_allowed.clear()
        outcomes = [stage(broker, first, batch_of(b"v")), stage(broker, second, batch_of(b"v"))]
        await asyncio.to_thread(disk.sync_started.wait, TIMEOUT_S)
        disk.sync_allowed.set()
        for outcome in outcomes:
            assert (await settled(outcome)).error is None


@pytest.mark.parametrize("machine", [platform.machine(), "abacus"])
async def test_flushes_go_to_the_kernel_where_it_takes_them_and_else_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    async with running(tmp_path) as broker:
        partition = await create(broker, "topic")
        for count in range(1, 4):
            assert (await produce(broker, partition, batch_of(b"v"))).error is None
            assert partition._log.flushed_offset == partition.high_watermark == count
        assert (engine_of(broker)._kernel is None) == (machine == "abacus")


class LateKernel(KernelSync):
    """Real syncs of the real kernel, which are not heard of for as long as it is late."""

    is_late = False
    error: OSError | None = None

    def __init__(self, pending_max: int) -> None:
        super().__init__(pending_max)
        self._held: list[tuple[int, OSError | None]] = []

    def collect(self) -> list[tuple[int, OSError | None]]:
        self._held += super().collect()
        if self.is_late:
            return []
        ended, self._held = self._held, []
        return [(token, self.error or error) for token, error in ended]


@pytest.fixture
async def broker_of_late_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr(kernel_sync, "KernelSync", LateKernel)
    async with running(tmp_path) as broker:
        yield broker


def engine_of(broker: Broker) -> KernelEngine:
    engine = broker.journal._engine
    assert isinstance(engine, KernelEngine)
    return engine


def late_kernel(flushes: KernelEngine) -> LateKernel:
    assert isinstance(flushes._kernel, LateKernel)
    return flushes._kernel


async def until_heard(flushes: KernelEngine) -> None:
    while flushes._pending:
        flushes._ready()
        await asyncio.sleep(0)


async def test_what_the_kernel_is_late_with_the_thread_does_and_all_that_follows_until_the_kernel_is_back(
    broker_of_late_kernel: Broker,
) -> None:
    flushes = engine_of(broker_of_late_kernel)
    partition = await create(broker_of_late_kernel, "topic")
    kernel = late_kernel(flushes)
    begun = flushes._count
    kernel.is_late = True
    for count in range(1, 4):
        assert (await produce(broker_of_late_kernel, partition, batch_of(b"v"))).error is None
        assert partition._log.flushed_offset == partition.high_watermark == count
    assert (flushes._count, len(flushes._pending)) == (begun + 1, 1)
    # Nobody waits for it any more.
    await run(broker_of_late_kernel.journal.drain())

    kernel.is_late = False
    await run(until_heard(flushes))
    assert partition._log.failure is None
    assert (await produce(broker_of_late_kernel, partition, batch_of(b"v"))).error is None
    assert flushes._count == begun + 2


async def test_a_failure_that_the_kernel_is_late_with_counts_all_the_same(broker_of_late_kernel: Broker) -> None:
    flushes = engine_of(broker_of_late_kernel)
    partition = await create(broker_of_late_kernel, "topic")
    kernel = late_kernel(flushes)
    kernel.is_late = True
    assert (await produce(broker_of_late_kernel, partition, batch_of(b"v"))).error is None
    kernel.is_late, kernel.error = False, OSError(errno.EIO, "a broken disk")
    await run(until_heard(flushes))
    with pytest.raises(Refusal, match="a broken disk"):
        await produce(broker_of_late_kernel, partition, batch_of(b"v"))


async def test_a_writer_that_fails_does_not_keep_the_others_of_its_turn_from_being_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def write_staged(self, now_ms: int) -> None:
            raise ZeroDivisionError(now_ms)

    async with running(tmp_path) as broker:
        partition = await create(broker, "topic")
        broker.journal.write_soon(Broken())
        assert (await produce(broker, partition, batch_of(b"v"))).error is None
    assert "ZeroDivisionError" in caplog.text


async def test_draining_waits_for_writes_and_flushes(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        outcomes = [stage(broker, partition, batch_of(b"v")) for _ in range(3)]
        # At once, before the turn ends that would write them anyway.
        await broker.journal.drain()
        assert all(outcome.is_done for outcome in outcomes)
        assert partition._log.flushed_offset == 3


async def test_settling_waits_for_these_partitions_and_no_others(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        slow = await create(broker, "cursed")
        quick = await create(broker, "quick")
        disk.sync_allowed.clear()
        outcome = stage(broker, slow, batch_of(b"v"))
        await asyncio.to_thread(disk.sync_started.wait, TIMEOUT_S)
        await run(broker.journal.wait_for_flushes([quick]))
        settling = asyncio.create_task(broker.journal.wait_for_flushes([slow]))
        await asyncio.sleep(0)
        assert not settling.done()
        disk.sync_allowed.set()
        await run(settling)
        assert outcome.is_done


async def test_there_is_nothing_to_flush_twice(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await produce(broker, partition, batch_of(b"v"))
        count = len(disk.synced)
        broker.journal.flush_soon(partition)
        await run(broker.journal.drain())
        assert len(disk.synced) == count


async def test_a_result_that_is_there_is_handed_on_at_once() -> None:
    heard: list[int] = []
    pending: Pending[int] = Pending()
    pending.then(heard.append)
    assert heard == []
    pending.resolve(7)
    assert heard == [7]

    done: Pending[int] = Pending()
    done.resolve(8)
    done.then(heard.append)
    assert heard == [7, 8]
    assert await done.wait() == 8


async def test_a_result_has_one_giver_and_one_listener() -> None:
    pending: Pending[int] = Pending()
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        pending.then(lambda _: None)
    pending.resolve(1)
    assert await waiting == 1
    with pytest.raises(AssertionError):
        pending.resolve(2)


async def test_whoever_stops_waiting_for_a_result_does_no_harm() -> None:
    pending: Pending[int] = Pending()
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pending.resolve(1)
