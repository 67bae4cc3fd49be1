"""One delivery: what is due for a target, appended to it as a batch of the schedule's own producer.

The machine has stored which records the batch holds, and its sequence, before it asks for it. So the append may be
repeated until it succeeds, also by the next process after a crash: a target that has the batch recognises it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.schedule import contents, split
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import Clock
from headwater.coordination.schedule.commands import Deliver
from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BROKER_PRODUCER_IDS
from headwater.protocol.batches.compression import Codec

if TYPE_CHECKING:
    from headwater.broker.schedule.measurements import ScheduleMeasurements

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.1
RETRY_PAUSE_S_MAX = 10.0


class OtherSequence(Exception):
    """The target expects another sequence of the schedule's producer."""

    def __init__(self, next_sequence: int) -> None:
        super().__init__(f"sequence {next_sequence} is due")
        self.next_sequence = next_sequence


class Delivery:
    def __init__(
        self,
        deliver: Deliver,
        log: Partition,
        find_target: Callable[[], Partition | None],
        at_once: asyncio.Semaphore,
        clock: Clock,
        measurements: "ScheduleMeasurements",
    ) -> None:
        """`find_target` gives None once the target's topic is deleted."""
        self._deliver = deliver
        self._log = log
        self._find_target = find_target
        self._at_once = at_once
        self._clock = clock
        self._measurements = measurements

    async def run(self) -> bool:
        """Returns when the target has the batch on disk; false if there is no target any more."""
        pause_s = RETRY_PAUSE_S
        while (target := self._find_target()) is not None:
            try:
                # It bounds the memory of all deliveries, and is free while this one pauses.
                async with self._at_once:
                    await self._append(target)
            except (HeadwaterError, OSError) as error:
                self._measurements.attempts_failed.value += 1
                if pause_s == RETRY_PAUSE_S:
                    count = len(self._deliver.entries)
                    logger.warning("%d records are due in %s, which does not take them: %s", count, target.id, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_PAUSE_S_MAX)
            else:
                return True
        return False

    async def _append(self, target: Partition) -> None:
        target.check_online()
        batch = await self._build(target)
        done: Pending[Append] = Pending()
        append = Append(done.resolve)
        header = batches.read_header(batch)
        try:
            target.stage(header, memoryview(batch), append, acks=ACKS_ALL, now_ms=self._clock.now_ms())
        except HeadwaterError as error:
            state = target.producer(header.producer_id)
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and state is not None:
                raise OtherSequence((state.last_sequence + 1) & 0x7FFF_FFFF) from error
            raise
        await done.wait()
        if append.error is not None:
            raise append.error
        self._count()

    async def _build(self, target: Partition) -> bytearray:
        entries = self._deliver.entries
        found = await contents.read(self._log, [entry.offset for entry in entries])
        for offset, reason in found.damaged.items():
            logger.error("the record scheduled at offset %d of %s is lost: %s", offset, self._log.id, reason)
        self._measurements.unreadable.value += len(found.damaged)
        config = target.config
        return batches.build(
            [
                split.delivered(found.contents[entry.offset], index, entry.due_ms)
                for index, entry in enumerate(entries)
                if entry.offset in found.contents
            ],
            # The sequences of records that are left out are taken, too, so that each attempt has the same.
            last_offset_delta=self._deliver.sequence_count - 1,
            codec=Codec.NONE if config.stored_codec is None else config.stored_codec,
            level=config.compression_level,
            producer_id=BROKER_PRODUCER_IDS + self._log.id.partition,
            producer_epoch=0,
            base_sequence=self._deliver.base_sequence,
            log_append_time_ms=self._clock.now_ms() if config.is_log_append_time else None,
        )

    def _count(self) -> None:
        now_ms = self._clock.now_ms()
        observe = self._measurements.lateness_ms.observe
        for entry in self._deliver.entries:
            observe(max(now_ms - entry.due_ms, 0))
        self._measurements.delivered.value += len(self._deliver.entries)
