"""Writes and flushes of all partitions, gathered: one write per partition and loop turn, one flush thread for all.

Group commit: while a flush runs, everything that arrives waits for the next one, so that one fdatasync serves them all.
A flush that is no more than one fdatasync is handed to the kernel; whatever else there is to do takes the thread, as
does what the kernel is late with.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from headwater.broker.partition import Partition
from headwater.broker.writes.kernel_flushes import Flush, KernelFlushes
from headwater.broker.writes.reply_batch import ReplyBatch
from headwater.clock import Clock
from headwater.storage.flush.flush_task import FlushTask

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """Has something to write at the end of the turn: a partition, or a shard that gathers what its partition gets."""

    def write_staged(self, now_ms: int) -> None: ...


class Journal:
    def __init__(self, clock: Clock) -> None:
        self.gathering = ReplyBatch()
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._to_write: list[Writer] = []
        self._is_turn = False
        self._flushing: dict[Partition, FlushTask] = {}
        self._flush_again: set[Partition] = set()
        self._queue: queue.SimpleQueue[Flush | None] = queue.SimpleQueue()
        self._on_completed: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="headwater-flush", daemon=True)
        self._thread.start()
        self._kernel = KernelFlushes(self._completed, self._queue.put)

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
            try:
                with self.gathering:
                    writer.write_staged(now_ms)
            except Exception:
                # Nobody would ask for the writes of the others again.
                logger.exception("what was staged is not written, or not all who wait for it are told")

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
        self._flushing[partition] = task
        flush = Flush(partition, task)
        if not self._kernel.begin(flush):
            self._queue.put(flush)

    async def drain(self) -> None:
        """Waits until nothing is being flushed any more."""
        while self._to_write or self._flushing:
            if self._to_write:
                self.write_now()
                continue
            await self._completion()

    async def settle(self, partitions: Collection[Partition]) -> None:
        """Waits until none of these is being flushed any more."""
        while not self._flushing.keys().isdisjoint(partitions):
            await self._completion()

    async def _completion(self) -> None:
        completed = self._loop.create_future()
        self._on_completed.append(lambda: None if completed.done() else completed.set_result(None))
        await completed

    def close(self) -> None:
        self._kernel.close()
        self._queue.put(None)
        self._thread.join()

    def _completed(self, flush: Flush, error: Exception | None) -> None:
        partition, task = flush
        is_second = self._flushing.get(partition) is not task
        if is_second and error is None:
            # The kernel was late, and the thread has done the same: one of the two has been heard before.
            return
        again = False
        if not is_second:
            del self._flushing[partition]
            again = partition in self._flush_again
            self._flush_again.discard(partition)
        try:
            if error is not None:
                raise error
            with self.gathering:
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
            error = _outcome(flush.task)
            try:
                # One by one: whoever waits for a fast disk need not wait for a slow one.
                self._loop.call_soon_threadsafe(self._completed, flush, error)
            except RuntimeError:  # the loop is closed: there is nobody left to tell
                return
            # It may be long until the next: the files of a topic that is deleted meanwhile must not stay open for it.
            del flush, error


def _outcome(task: FlushTask) -> Exception | None:
    try:
        task.run()
    except Exception as error:
        # Whatever it is, the partition must not be taken for flushed, and the thread must live on for the others.
        return error
    return None
