"""Writes and flushes of all partitions, gathered: one write per partition and loop turn, one flush thread for all.

Group commit: while a flush runs, everything that arrives waits for the next one, so that one fdatasync serves them all.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Collection

from headwater.broker.partition import Partition
from headwater.clock import Clock
from headwater.storage.log import FlushTask

logger = logging.getLogger(__name__)

_Flush = tuple[Partition, FlushTask]


class Journal:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._to_write: list[Partition] = []
        self._is_turn = False
        self._flushing: set[Partition] = set()
        self._flush_again: set[Partition] = set()
        self._queue: queue.SimpleQueue[_Flush | None] = queue.SimpleQueue()
        self._on_completed: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="headwater-flush", daemon=True)
        self._thread.start()

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
        if self._to_write:
            self.write_now()

    def write_soon(self, partition: Partition) -> None:
        if not self._to_write and not self._is_turn:
            self._loop.call_soon(self.write_now)
        self._to_write.append(partition)

    def write_now(self) -> None:
        partitions, self._to_write = self._to_write, []
        now_ms = self._clock.now_ms()
        for partition in partitions:
            partition.write_staged(now_ms)

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
        self._queue.put((partition, task))

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
        self._queue.put(None)
        self._thread.join()

    def _completed(self, partition: Partition, task: FlushTask, error: Exception | None) -> None:
        self._flushing.discard(partition)
        again = partition in self._flush_again
        self._flush_again.discard(partition)
        if error is not None:
            logger.error("flush of %s failed, the partition is offline: %s", partition.id, error)
            partition.flush_failed(f"flush failed: {error}")
        else:
            partition.flushed(task)
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


def _outcome(task: FlushTask) -> Exception | None:
    try:
        task.run()
    except Exception as error:
        # Whatever it is, the partition must not be taken for flushed, and the thread must live on for the others.
        return error
    return None
