"""Writes and flushes of all partitions: one write per partition and loop turn, group commit for flushes, and replies
that leave together.

Group commit: while a partition is being flushed, everything that arrives waits for its next flush, so that one
fdatasync serves many producers."""

import asyncio
import logging
from collections.abc import Callable, Collection
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from headwater.broker.measurements import Measurements
from headwater.broker.pending import Fault
from headwater.broker.writes.flush_thread import FlushThread
from headwater.broker.writes.kernel_engine import KernelEngine
from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.storage.flush.flush_task import FlushTask

if TYPE_CHECKING:
    from headwater.broker.partition import Partition

logger = logging.getLogger(__name__)

ACKS_ALL = -1


class Append:
    """One batch on its way into a partition, and the outcome that its producer waits for.

    `complete` (or `fail`) is called once, when the acknowledgement rule is met."""

    __slots__ = ("_notify", "base_offset", "error", "log_append_time_ms", "log_start_offset", "next_offset")

    def __init__(self, notify: Callable[["Append"], None]) -> None:
        self._notify = notify
        self.base_offset = -1
        self.next_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = -1
        # A `Fault` where a bug kept the outcome from coming.
        self.error: HeadwaterError | None = None

    def fail(self, error: HeadwaterError | Fault) -> None:
        self.error = cast("HeadwaterError", error.kept())
        self.base_offset = -1
        self.complete()

    def complete(self) -> None:
        try:
            self._notify(self)
        except Exception:
            # A listener's fault must neither keep the other producers from their outcome nor look like a disk failure.
            logger.exception("an outcome could not be told")


class Sender(Protocol):
    """A client's connection with replies that are ready."""

    def send_ready(self) -> None: ...


class ReplyBatch:
    """Context manager: connections with replies that one write or flush made ready send them when the block exits. A
    client with several requests in flight gets them with one system call, and wakes up once."""

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        # An ordered set of connections; None outside of the block.
        self._senders: dict[Sender, None] | None = None

    def takes(self, sender: Sender) -> bool:
        """Whether the block sends for this connection when it exits."""
        if self._senders is None:
            return False
        self._senders[sender] = None
        return True

    def __enter__(self) -> None:
        assert self._senders is None, "blocks do not nest"
        self._senders = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        senders, self._senders = self._senders, None
        for sender in senders or ():
            try:
                sender.send_ready()
            except Exception:
                # The other connections must still send: nothing would call them again.
                logger.exception("replies that are ready could not be sent")


class StagedWriter(Protocol):
    """Writes at the end of the turn: a partition, or a shard that collects events for its partition."""

    def write_staged(self, now_ms: int) -> None: ...


class Flush(NamedTuple):
    partition: "Partition"
    task: FlushTask
    begun_us: int


# Called on the event loop with a flush that ended, and its error if it failed. May be called twice for one flush: the
# kernel engine repeats a late flush in the thread, and both complete.
Completed: TypeAlias = Callable[[Flush, Exception | None], None]


class FlushEngine(Protocol):
    """Runs flushes: in a thread, or in the kernel (`headwater.flush.engine`)."""

    def begin(self, flush: Flush) -> None: ...

    def close(self) -> None:
        """Finish what was begun, then end."""
        ...


class Journal:
    def __init__(self, clock: Clock, engine: str, measurements: Measurements) -> None:
        self.replies = ReplyBatch()
        self._clock = clock
        self._measurements = measurements
        self._loop = asyncio.get_running_loop()
        self._to_write: list[StagedWriter] = []
        self._is_turn = False
        self._flushing: dict[Partition, FlushTask] = {}
        self._flush_again: set[Partition] = set()
        self._on_completed: list[Callable[[], None]] = []
        thread = FlushThread(self._completed)
        self._engine: FlushEngine = thread if engine == "thread" else KernelEngine(self._completed, thread)

    def begin_turn(self) -> None:
        """A listener begins to serve its clients. What they produce is written together when the turn ends.

        Batches staged since the last turn are written first: they lie in buffers that are about to be overwritten.
        """
        # Sending replies can make a connection serve further requests, which stage further writes.
        while self._to_write:
            self.write_now()
        self._is_turn = True

    def end_turn(self) -> None:
        self._is_turn = False
        # A shard writes by staging a batch with its partition, which then has to be written, too.
        while self._to_write:
            self.write_now()

    def write_soon(self, writer: StagedWriter) -> None:
        if not self._to_write and not self._is_turn:
            self._loop.call_soon(self.write_now)
        self._to_write.append(writer)

    def write_now(self) -> None:
        writers, self._to_write = self._to_write, []
        now_ms = self._clock.now_ms()
        for writer in writers:
            try:
                with self.replies:
                    writer.write_staged(now_ms)
            except Exception:
                # The other writers of this turn must still be called: nothing would call them again.
                logger.exception("what was staged is not written, or not all who wait for it are told")

    def flush_soon(self, partition: "Partition") -> None:
        if partition in self._flushing:
            self._flush_again.add(partition)
            return
        task = partition.plan_flush()
        if task is None:
            return
        self._flushing[partition] = task
        self._engine.begin(Flush(partition, task, self._clock.monotonic_us()))

    async def drain(self) -> None:
        """Wait until nothing is being flushed any more."""
        while self._to_write or self._flushing:
            if self._to_write:
                self.write_now()
                continue
            await self._completion()

    async def wait_for_flushes(self, partitions: Collection["Partition"]) -> None:
        """Wait until none of these is being flushed any more."""
        while not self._flushing.keys().isdisjoint(partitions):
            await self._completion()

    async def _completion(self) -> None:
        completed = self._loop.create_future()
        self._on_completed.append(lambda: None if completed.done() else completed.set_result(None))
        await completed

    def close(self) -> None:
        self._engine.close()

    def _completed(self, flush: Flush, error: Exception | None) -> None:
        partition, task, begun_us = flush
        is_second = self._flushing.get(partition) is not task
        if is_second and error is None:
            # A late flush that was repeated: the other engine has completed it before.
            return
        again = False
        if not is_second:
            del self._flushing[partition]
            again = partition in self._flush_again
            self._flush_again.discard(partition)
        try:
            if error is not None:
                raise error
            with self.replies:
                partition.flushed(task)
            self._measurements.flush_us.observe(self._clock.monotonic_us() - begun_us)
        except Exception as failure:
            # The failure stays with this partition: others may have been flushed along with it.
            logger.error("flush of %s failed, the partition is offline", partition.id, exc_info=failure)
            self._measurements.flushes_failed.value += 1
            partition.flush_failed(f"flush failed: {failure}")
            again = False
        if again:
            self.flush_soon(partition)
        callbacks, self._on_completed = self._on_completed, []
        for callback in callbacks:
            callback()
