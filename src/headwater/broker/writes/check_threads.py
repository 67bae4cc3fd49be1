"""Threads that check large batches (`large_batch.py`), so that other clients are served meanwhile.

The batch stays where it was received: its connection is held, which reads and serves nothing until the batch is staged.
That also keeps all orders: those of a connection's requests, of a producer's sequences and of its transaction.
"""

# Lazy annotations: the types of late imports stand in them.
from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from headwater.broker.partition import Partition
from headwater.broker.pending import Fault
from headwater.broker.writes import intake, large_batch
from headwater.broker.writes.journal import Append, Journal
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.metrics import Histogram

if TYPE_CHECKING:
    from headwater.broker.schemas.validation.record_schemas import RecordSchemas


class RequestBytes(Protocol):
    """The memory that a request lies in."""

    def hold(self) -> None:
        """Leave it untouched, and serve no later request of its client, until as many calls of `release`."""
        ...

    def release(self) -> None: ...


class Produce(Protocol):
    """Stages a batch, with the checks that are left."""

    def __call__(self, *, records: memoryview, admit: intake.Admit) -> None: ...


class CheckThreads:
    def __init__(
        self,
        count: int,
        journal: Journal,
        clock: Clock,
        duration_us: Histogram,
        schemas: Callable[[], RecordSchemas],
    ) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="headwater-check")
        self._journal = journal
        self._clock = clock
        self._duration_us = duration_us
        self._schemas = schemas
        self._loop = asyncio.get_running_loop()
        # What each thread does or has still to begin with.
        self._under_way: dict[asyncio.Future[memoryview], Future[memoryview]] = {}

    def check(
        self,
        records: memoryview,
        partition: Partition,
        broker: BrokerConfig,
        append: Append,
        request: RequestBytes | None,
        produce: Produce,
    ) -> None:
        """Check a batch, then have it staged on the event loop."""
        schemas = self._schemas().check_in_thread(partition) if partition.config.has_schemas else None
        if request is not None:
            request.hold()
        topic, began_us = partition.config, self._clock.monotonic_us()
        check = self._executor.submit(large_batch.check, records, topic, broker, self._clock.now_ms(), schemas)
        checking = asyncio.wrap_future(check, loop=self._loop)
        self._under_way[checking] = check

        def done(checked: asyncio.Future[memoryview]) -> None:
            del self._under_way[checked]
            self._duration_us.observe(self._clock.monotonic_us() - began_us)
            # A turn: what is staged is written when it ends, together with what the connection sent meanwhile.
            self._journal.begin_turn()
            try:
                # None where the settings have changed.
                admit = intake.admit_checked if partition.config is topic else None
                _stage(checked, append, records, produce, admit)
                if request is not None:
                    request.release()
            finally:
                self._journal.end_turn()

        checking.add_done_callback(done)

    async def stop(self) -> None:
        """Batches that no thread has begun with are refused: their clients have gone, or waited for long enough."""
        for check in self._under_way.values():
            check.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._executor.shutdown(wait=True)


def _stage(
    checked: asyncio.Future[memoryview],
    append: Append,
    received: memoryview,
    produce: Produce,
    admit: intake.Admit | None,
) -> None:
    """Stage what the checks gave. Without `admit` they are done again."""
    try:
        if checked.cancelled():
            raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "the broker stops")
        try:
            batch = checked.result()
        except intake.DelayedBatch as delayed:
            batch, admit = received, admit and delayed.raise_again
        if admit is None:
            produce(records=received, admit=intake.admit)
        else:
            produce(records=batch, admit=admit)
    except HeadwaterError as error:
        append.fail(error)
    except Exception as error:
        append.fail(Fault(error))
