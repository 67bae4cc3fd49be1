"""Writes and flushes of all partitions, batched per turn; results that reach their listener without the loop."""

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


async def test_partitions_are_flushed_concurrently(tmp_path: Path) -> None:
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
async def test_flushes_use_the_kernel_where_supported_and_the_thread_elsewhere(
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
    """Syncs with the real kernel; while `is_late`, their completions are held back."""

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


async def until_collected(flushes: KernelEngine) -> None:
    while flushes._pending:
        flushes._ready()
        await asyncio.sleep(0)


async def test_the_flush_thread_takes_over_flushes_while_the_kernel_is_late(
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
    # The drain does not wait for the kernel's late sync.
    await run(broker_of_late_kernel.journal.drain())

    kernel.is_late = False
    await run(until_collected(flushes))
    assert partition._log.failure is None
    assert (await produce(broker_of_late_kernel, partition, batch_of(b"v"))).error is None
    assert flushes._count == begun + 2


async def test_a_late_failure_of_the_kernel_still_fails_the_log(broker_of_late_kernel: Broker) -> None:
    flushes = engine_of(broker_of_late_kernel)
    partition = await create(broker_of_late_kernel, "topic")
    kernel = late_kernel(flushes)
    kernel.is_late = True
    assert (await produce(broker_of_late_kernel, partition, batch_of(b"v"))).error is None
    kernel.is_late, kernel.error = False, OSError(errno.EIO, "a broken disk")
    await run(until_collected(flushes))
    with pytest.raises(Refusal, match="a broken disk"):
        await produce(broker_of_late_kernel, partition, batch_of(b"v"))


async def test_a_failing_writer_does_not_prevent_other_writes_of_the_turn(
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


async def test_drain_waits_for_writes_and_flushes(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        outcomes = [stage(broker, partition, batch_of(b"v")) for _ in range(3)]
        # Drain before the end of the turn, which would write them anyway.
        await broker.journal.drain()
        assert all(outcome.is_done for outcome in outcomes)
        assert partition._log.flushed_offset == 3


async def test_settle_waits_only_for_the_given_partitions(tmp_path: Path) -> None:
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


async def test_a_flushed_partition_is_not_flushed_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        await produce(broker, partition, batch_of(b"v"))
        count = len(disk.synced)
        broker.journal.flush_soon(partition)
        await run(broker.journal.drain())
        assert len(disk.synced) == count


async def test_a_pending_result_reaches_its_listener_at_once() -> None:
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


async def test_a_pending_result_is_resolved_once_and_has_one_listener() -> None:
    pending: Pending[int] = Pending()
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        pending.then(lambda _: None)
    pending.resolve(1)
    assert await waiting == 1
    with pytest.raises(AssertionError):
        pending.resolve(2)


async def test_a_pending_result_resolves_after_its_listener_was_cancelled() -> None:
    pending: Pending[int] = Pending()
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pending.resolve(1)
