"""What a log needs from time to time: retention, compaction, periodic flushes, checkpoints, forgetting producers.

Each job is a plain method of the current time, so that a test calls it directly; timers only decide when.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.errors import HeadwaterError
from headwater.storage import compaction
from headwater.storage.garbage import Garbage

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._last_flush_ms: dict[Partition, int] = {}

    def start(self) -> None:
        config = self._broker.config
        delay_ms = config.log_initial_task_delay_ms
        self._every("flush", 0, lambda: self._broker.config.headwater_flush_interval_ms, self.flush_due)
        self._every("retention", delay_ms, lambda: self._broker.config.log_retention_check_interval_ms, self.retain)
        self._every("compaction", delay_ms, lambda: self._broker.config.log_cleaner_backoff_ms, self.compact)
        self._every("checkpoint", delay_ms, lambda: config.log_flush_offset_checkpoint_interval_ms, self.checkpoint)
        self._every(
            "producer expiry", delay_ms, lambda: config.producer_id_expiration_check_interval_ms, self.forget_producers
        )

    async def stop(self) -> None:
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(
        self, name: str, delay_ms: int, interval_ms: Callable[[], int], job: Callable[[], Awaitable[object]]
    ) -> None:
        async def repeat() -> None:
            await asyncio.sleep(delay_ms / 1000)
            while True:
                await asyncio.sleep(interval_ms() / 1000)
                try:
                    await job()
                except (HeadwaterError, OSError) as error:
                    logger.error("%s failed and is tried again later: %s", name, error)

        self._tasks.append(asyncio.create_task(repeat(), name=f"headwater {name}"))

    # -- jobs

    async def flush_due(self) -> None:
        """Brings records to disk that no producer waits for, as soon as the settings promise."""
        now_ms = self._broker.clock.monotonic_ms()
        for partition in self._broker.catalog.all_partitions():
            if partition.log.flushed_offset == partition.log.end_offset:
                continue
            if partition.config.headwater_flush != "os" or self._flush_ms_passed(partition, now_ms):
                self._last_flush_ms[partition] = now_ms
                self._broker.journal.flush_soon(partition)

    def _flush_ms_passed(self, partition: Partition, now_ms: int) -> bool:
        return now_ms - self._last_flush_ms.setdefault(partition, now_ms) >= partition.config.flush_ms

    async def retain(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for partition in tuple(self._broker.catalog.all_partitions()):
            if partition.log.failure is None and not partition.is_closed:
                partition.log.roll_if_due(now_ms)
                await self.collect(partition.log.expire(now_ms, partition.high_watermark))

    async def compact(self) -> None:
        """One log after the other, the dirtiest parts of each as its settings ask; stops between batches at a stop."""
        config = self._broker.config
        if not config.log_cleaner_enable:
            return
        for partition in tuple(self._broker.catalog.all_partitions()):
            log = partition.log
            if not partition.config.is_compacted or log.failure is not None or partition.is_closed:
                continue
            now_ms = self._broker.clock.now_ms()
            log.roll_if_due(now_ms)
            task = compaction.plan(log, now_ms, partition.high_watermark)
            if task is None:
                continue
            await asyncio.to_thread(task.run, config.log_cleaner_dedupe_buffer_size, lambda: self._is_stopping)
            if not self._is_stopping and not partition.is_closed:
                await self.collect(log.install(task))
                logger.info("compacted %s", partition.id)

    async def checkpoint(self) -> None:
        """Where recovery would begin, and where each log starts. A failed log keeps the point it reached."""
        points = {one.id: one.log.flushed_offset for one in self._broker.catalog.all_partitions()}
        await asyncio.to_thread(self._broker.data.write_recovery_points, points)
        await self.checkpoint_start_offsets()

    async def checkpoint_start_offsets(self) -> None:
        offsets = {one.id: one.log.start_offset for one in self._broker.catalog.all_partitions()}
        await asyncio.to_thread(self._broker.data.write_start_offsets, offsets)

    async def forget_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for partition in self._broker.catalog.all_partitions():
            partition.log.producers.expire(now_ms, self._broker.config.producer_id_expiration_ms)

    # -- threads

    async def collect(self, garbage: Garbage) -> None:
        """Removes files in a thread: unlinking a large one takes the file system a while."""
        if garbage:
            await asyncio.to_thread(garbage.run)
