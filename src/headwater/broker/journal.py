"""Writes and flushes of all partitions, gathered: one write per partition and loop turn, one flush thread for all.

Group commit: while a flush runs, everything that arrives waits for the next one, so that one fdatasync serves them all.
A flush that is no more than one fdatasync is handed to the kernel; whatever else there is to do takes the thread.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from headwater.broker.partition import Partition
from headwater.clock import Clock
from headwater.storage.disk import File
from headwater.storage.log import FlushTask

if TYPE_CHECKING:
    from headwater.storage.kernel_sync import KernelSync

logger = logging.getLogger(__name__)

KERNEL_FLUSHES_MAX = 1024

_Flush = tuple[Partition, FlushTask]


class Writer(Protocol):
    """Has something to write at the end of the turn: a partition, or a shard that gathers what its partition gets."""

    def write_staged(self, now_ms: int) -> None: ...


class Journal:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._to_write: list[Writer] = []
        self._is_turn = False
        self._flushing: set[Partition] = set()
        self._flush_again: set[Partition] = set()
        self._queue: queue.SimpleQueue[_Flush | None] = queue.SimpleQueue()
        self._on_completed: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="headwater-flush", daemon=True)
        self._thread.start()
        self._kernel_flushes: dict[int, _Flush] = {}
        self._kernel_flush_count = 0
        self._kernel: KernelSync | None = None
        self._was_kernel_tried = False

    # -- on the loop

    def begin_turn(self) -> None:
        """A listener serves its clients: what they produce is written at the end of it, all at once. What was staged
        since the turn before lies in buffers that are about to be read into."""
        # Replies that a write lets go may have further requests served.
        while self._to_write:
            self.write_now()
        self._is_turn = True

    def end_turn(self) -> None:
        self._is_turn = False
        # What a shard writes is a batch that it stages with its partition, which then is the next to write.
        while self._to_write:
            self.write_now()

    def write_soon(self, writer: Writer) -> None:
        if not self._to_write and not self._is_turn:
            self._loop.call_soon(self.write_now)
        self._to_write.append(writer)

    def write_now(self) -> None:
        writers, self._to_write = self._to_write, []
        now_ms = self._clock.now_ms()
        for writer in writers:
            writer.write_staged(now_ms)

    def flush_soon(self, partition: Partition) -> None:
        if partition in self._flushing:
            self._flush_again.add(partition)
            return
        if partition.log.failure is not None:
            # After a failed flush the next one may well succeed, and would say nothing about what was lost.
            return
        task = partition.log.flush_task()
        if task is None:
            return
        self._flushing.add(partition)
        if not self._flush_in_kernel(partition, task):
            self._queue.put((partition, task))

    def _flush_in_kernel(self, partition: Partition, task: FlushTask) -> bool:
        file = task.sole_file
        # A file of another type does something of its own when it is synced.
        if file is None or type(file) is not File:
            return False
        if not self._was_kernel_tried:
            self._was_kernel_tried = True
            self._kernel = self._open_kernel()
        if self._kernel is None:
            return False
        self._kernel_flush_count += 1
        try:
            self._kernel.submit(file, self._kernel_flush_count)
        except OSError as error:
            # Nothing was begun: too many are under way, or this file system takes none.
            logger.debug("flush of %s is left to the thread: %s", partition.id, error)
            return False
        self._kernel_flushes[self._kernel_flush_count] = (partition, task)
        return True

    def _open_kernel(self) -> "KernelSync | None":
        # Imported when it is first needed: a broker that nobody waits for starts without it.
        from headwater.storage.kernel_sync import KernelSync  # noqa: PLC0415

        try:
            kernel = KernelSync(KERNEL_FLUSHES_MAX)
        except OSError as error:
            logger.info("flushes are left to a thread, for the kernel does not take them: %s", error)
            return None
        self._loop.add_reader(kernel, self._kernel_completed)
        return kernel

    def _kernel_completed(self) -> None:
        assert self._kernel is not None
        for token, error in self._kernel.collect():
            self._completed(*self._kernel_flushes.pop(token), error)

    async def drain(self) -> None:
        """Waits until nothing is being flushed any more."""
        while self._to_write or self._flushing:
            if self._to_write:
                self.write_now()
                continue
            await self._completion()

    async def settle(self, partitions: Collection[Partition]) -> None:
        """Waits until none of these is being flushed any more."""
        while not self._flushing.isdisjoint(partitions):
            await self._completion()

    async def _completion(self) -> None:
        completed = self._loop.create_future()
        self._on_completed.append(lambda: None if completed.done() else completed.set_result(None))
        await completed

    def close(self) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel)
            self._kernel.close()
            self._kernel = None
        self._queue.put(None)
        self._thread.join()

    def _completed(self, partition: Partition, task: FlushTask, error: Exception | None) -> None:
        self._flushing.discard(partition)
        again = partition in self._flush_again
        self._flush_again.discard(partition)
        try:
            if error is not None:
                raise error
            partition.flushed(task)
        except Exception as failure:
            # It stays this partition's: others may have been flushed along with it.
            logger.error("flush of %s failed, the partition is offline", partition.id, exc_info=failure)
            partition.flush_failed(f"flush failed: {failure}")
            again = False
        if again:
            self.flush_soon(partition)
        callbacks, self._on_completed = self._on_completed, []
        for callback in callbacks:
            callback()

    # -- on the flush thread

    def _run(self) -> None:
        while (flush := self._queue.get()) is not None:
            partition, task = flush
            error = _outcome(task)
            try:
                # One by one: whoever waits for a fast disk need not wait for a slow one.
                self._loop.call_soon_threadsafe(self._completed, partition, task, error)
            except RuntimeError:  # the loop is closed: there is nobody left to tell
                return
            # It may be long until the next: the files of a topic that is deleted meanwhile must not stay open for it.
            del flush, partition, task, error


def _outcome(task: FlushTask) -> Exception | None:
    try:
        task.run()
    except Exception as error:
        # Whatever it is, the partition must not be taken for flushed, and the thread must live on for the others.
        return error
    return None
