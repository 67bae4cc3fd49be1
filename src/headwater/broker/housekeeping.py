"""Periodic jobs: retention, compaction, periodic flushes, checkpoints, and the expiry of producers, offsets and ids.

Each job is a plain method that reads the clock, so that a test calls it directly; timers only decide when it runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.errors import HeadwaterError
from headwater.storage.cleaning.garbage import Garbage

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        # When records began to wait for a flush, in partitions where only flush.ms asks for one.
        self._dirty_since_ms: dict[Partition, int] = {}

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

        self._every(
            "offset expiry", delay_ms, lambda: config.offsets_retention_check_interval_ms, self._broker.groups.expire
        )
        self._every(
            "transactional id expiry",
            delay_ms,
            lambda: config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self._broker.transactions.expire,
        )
        self._every(
            "pruning of share group state",
            delay_ms,
            lambda: config.share_coordinator_state_topic_prune_interval_ms,
            self._broker.prune_shares,
        )

    async def stop(self) -> None:
        """Wait for the jobs under way: their threads cannot be cancelled."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    def _every(
        self, name: str, delay_ms: int, interval_ms: Callable[[], int], job: Callable[[], Awaitable[object]]
    ) -> None:
        async def repeat() -> None:
            await self._pause(delay_ms)
            while not await self._pause(interval_ms()):
                try:
                    await job()
                except (HeadwaterError, OSError) as error:
                    logger.error("%s failed and is tried again later: %s", name, error)
                except Exception:
                    logger.exception("%s failed and is tried again later", name)

        self._tasks.append(asyncio.create_task(repeat(), name=f"headwater {name}"))

    async def _pause(self, milliseconds: int) -> bool:
        """Sleep; true if the broker stopped meanwhile."""
        try:
            async with asyncio.timeout(milliseconds / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    def _in_service(self) -> Iterator[Partition]:
        """The partitions that a job may work on. Checked again before each, because a job waits between two of them."""
        for partition in tuple(self._broker.partitions.all()):
            if self._stopping.is_set():
                return
            if partition.is_online:
                yield partition

    # -- jobs

    async def flush_due(self) -> None:
        """Flush records that no producer waits for, as soon as the settings promise."""
        now_ms = self._broker.clock.monotonic_ms()
        dirty_since_ms: dict[Partition, int] = {}
        for partition in self._in_service():
            if partition.is_flushed:
                continue
            since_ms = self._dirty_since_ms.get(partition, now_ms)
            if partition.config.headwater_flush != "os" or now_ms - since_ms >= partition.config.flush_ms:
                self._broker.journal.flush_soon(partition)
            else:
                dirty_since_ms[partition] = since_ms
        self._dirty_since_ms = dirty_since_ms

    async def retain(self) -> None:
        for partition in self._in_service():
            with _alone("retention", partition):
                await self.collect(partition.retain(self._broker.clock.now_ms()))

    async def compact(self) -> None:
        """Compact one log after the other, as far as its settings ask. When the broker stops, ends between batches."""
        config = self._broker.config
        if not config.log_cleaner_enable:
            return
        for partition in self._in_service():
            if partition.config.is_compacted:
                with _alone("compaction", partition):
                    await self._compact(partition, config.log_cleaner_dedupe_buffer_size)

    async def _compact(self, partition: Partition, buffer_bytes: int) -> None:
        task = partition.plan_compaction(self._broker.clock.now_ms())
        if task is None:
            return
        await asyncio.to_thread(task.run, buffer_bytes, self._stopping.is_set)
        if not self._stopping.is_set() and not partition.is_closed:
            await self.collect(partition.install(task))
            logger.info("compacted %s", partition.id)

    async def checkpoint(self) -> None:
        await self._broker.partitions.checkpoint()

    async def forget_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for partition in self._broker.partitions.all():
            partition.forget_producers(now_ms, self._broker.config.producer_id_expiration_ms)

    # -- threads

    async def collect(self, garbage: Garbage) -> None:
        """Remove files in a thread: unlinking a large file blocks for a while."""
        if garbage:
            await asyncio.to_thread(garbage.run)


@contextmanager
def _alone(job: str, partition: Partition) -> Generator[None]:
    """Contain the error of one partition: a job, above all retention on a full disk, must go on with the others."""
    try:
        yield
    except (HeadwaterError, OSError) as error:
        logger.error("%s of %s failed and is tried again later: %s", job, partition.id, error)
