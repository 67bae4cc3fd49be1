"""One partition: its log, how far consumers may read, and who waits for what.

Owned by the event loop. A produced batch is staged (checked, given its offset) at once; all that was staged in a loop
turn is written by one gathered write at the turn's end; a reply leaves when the acknowledgement rule is met.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.topic_names import is_internal
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.storage.cleaning.garbage import Garbage
from headwater.storage.file_range import FileRange
from headwater.storage.flush.flush_task import FlushTask
from headwater.storage.log import Log
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery.verification import UnverifiedRange, VerifiedPart

logger = logging.getLogger(__name__)

ACKS_ALL = -1


class Watcher(Protocol):
    """Whoever waits for a partition's readable end to move: a fetch in its long poll."""

    @property
    def committed_only(self) -> bool:
        """Whether that end is the last stable offset."""
        ...

    def partition_moved(self, partition: "Partition") -> None: ...

    def expire(self) -> None: ...


class Append:
    """One staged batch and the outcome its producer waits for."""

    __slots__ = ("_notify", "base_offset", "error", "log_append_time_ms", "log_start_offset", "next_offset")

    def __init__(self, notify: Callable[["Append"], None]) -> None:
        self._notify = notify
        self.base_offset = -1
        self.next_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = -1
        self.error: HeadwaterError | None = None

    def fail(self, error: HeadwaterError) -> None:
        self.error = error.kept()
        self.base_offset = -1
        self.tell()

    def tell(self) -> None:
        try:
            self._notify(self)
        except Exception:
            # It must not keep others from theirs, or pass for a failure of the disk.
            logger.exception("an outcome could not be told")


class Journal(Protocol):
    """Where a partition registers its need to be written or flushed; the broker runs both for all partitions."""

    def write_soon(self, writer: "Partition", /) -> None: ...

    def flush_soon(self, partition: "Partition") -> None: ...


class Partition:
    __slots__ = (
        "_awaiting_flush",
        "_awaiting_write",
        "_durable_before",
        "_journal",
        "_next_offset",
        "_staged",
        "config",
        "high_watermark",
        "id",
        "is_closed",
        "is_internal",
        "last_stable_offset",
        "leader_epoch",
        "log",
        "watchers",
    )

    def __init__(
        self, identity: TopicPartition, log: Log, config: TopicConfig, journal: Journal, leader_epoch: int = 0
    ) -> None:
        self.id = identity
        self.log = log
        self.config = config
        self.leader_epoch = leader_epoch
        self.high_watermark = log.end_offset
        self.watchers: set[Watcher] = set()
        self.is_closed = False
        self.is_internal = is_internal(identity.topic)
        self._journal = journal
        self._next_offset = log.end_offset
        self._staged: list[tuple[BatchHeader, memoryview]] = []
        self._awaiting_write: list[tuple[Append, bool]] = []
        self._awaiting_flush: deque[Append] = deque()
        # Everything below this offset must be on disk before consumers may see it.
        self._durable_before = 0
        # How far a read_committed consumer may read: before every transaction whose end is not visible yet.
        self.last_stable_offset = log.end_offset
        self._move_last_stable_offset()

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    # -- writing

    def stage(self, header: BatchHeader, batch: memoryview, append: Append, *, acks: int, now_ms: int) -> None:
        """Gives the batch its offset. `batch` must stay untouched until the end of the loop turn."""
        if self.is_closed or self.log.failure is not None:
            self.check_online()
        append.log_start_offset = self.log.start_offset
        if header.producer_id >= 0:
            duplicate = self.log.check_sequence(header)
            if duplicate is not None:
                self._acknowledge_duplicate(append, duplicate.base_offset, duplicate.next_offset, acks)
                return
        base_offset = self._next_offset
        batches.patch(batch, base_offset, self.leader_epoch)
        header = batches.with_position(header, base_offset, self.leader_epoch)
        if header.producer_id >= 0:
            self.log.producers.update(header, now_ms)
        append.base_offset = base_offset
        append.next_offset = self._next_offset = base_offset + header.last_offset_delta + 1
        if header.is_log_append_time:
            append.log_append_time_ms = header.max_timestamp
        if not self._staged:
            self._journal.write_soon(self)
        self._staged.append((header, batch))
        self._awaiting_write.append((append, self._must_flush(acks)))

    def stage_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        append: Append,
        now_ms: int,
        *,
        transaction_version: int = 1,
    ) -> None:
        """Ends a producer's transaction here; `append` hears when that is on disk. A producer without one is fine, a
        marker that another coordinator or a later transaction has overtaken is refused."""
        self.log.producers.check_marker(producer_id, producer_epoch, marker, transaction_version)
        batch = batches.build_marker(
            marker,
            base_offset=self._next_offset,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.leader_epoch,
        )
        header = batches.read_header(batch)
        self.stage(header, memoryview(batch), append, acks=ACKS_ALL, now_ms=now_ms)
        self.log.end_transaction(header, marker, now_ms)

    def _must_flush(self, acks: int) -> bool:
        if self.config.headwater_flush == "ack" and acks == ACKS_ALL:
            return True
        return self._next_offset - self.log.flushed_offset >= self.config.flush_messages

    def _acknowledge_duplicate(self, append: Append, base_offset: int, next_offset: int, acks: int) -> None:
        """The same batch again: its producer missed our reply. It may itself still be on its way to the disk."""
        append.base_offset, append.next_offset = base_offset, next_offset
        if next_offset > self.log.end_offset:
            self._awaiting_write.append((append, self._must_flush(acks)))
        elif self._must_flush(acks) and next_offset > self.log.flushed_offset:
            self._await_flush(append)
        else:
            append.tell()

    def write_staged(self, now_ms: int) -> None:
        """End of turn: one write for everything staged, then the replies that need no more than that."""
        staged, self._staged = self._staged, []
        waiting, self._awaiting_write = self._awaiting_write, []
        segment_count = len(self.log.segments)
        try:
            self.log.append(staged, now_ms)
        except Exception as error:
            self._refuse_staged(waiting, error)
            return
        if len(self.log.segments) != segment_count:
            # A sealed segment goes to disk under every policy, as in Kafka: it bounds what a crash leaves to scan.
            self._journal.flush_soon(self)
        for append, must_flush in waiting:
            if must_flush:
                self._await_flush(append)
            else:
                append.tell()
        self._move_high_watermark()

    def _refuse_staged(self, waiting: Sequence[tuple[Append, bool]], error: Exception) -> None:
        """What is wrong with one partition ends here: the others of the turn are written all the same."""
        if not isinstance(error, HeadwaterError):
            logger.error("the log of %s failed unexpectedly", self.id, exc_info=error)
            self.log.fail(f"unexpected {type(error).__name__}: {error}")
        self._next_offset = self.log.end_offset
        if self.log.failure is None:
            try:
                # The disk was full: sequences that were taken for batches which never got there must be given back.
                self.log.rebuild_producers()
            except (HeadwaterError, OSError) as second:
                self.log.fail(f"the disk was full, and its producers cannot be told apart any more: {second}")
        if self.log.failure is None:
            assert isinstance(error, HeadwaterError), "anything else has failed the log"
            for append, _ in waiting:
                append.fail(error)
            return
        logger.error("%s is offline until the next start: %s", self.id, self.log.failure)
        in_doubt = self._in_doubt()
        for append, _ in waiting:
            append.fail(in_doubt)
        self._fail_waiting(in_doubt)

    def _await_flush(self, append: Append) -> None:
        self._awaiting_flush.append(append)
        self._durable_before = max(self._durable_before, append.next_offset)
        self._journal.flush_soon(self)

    def flushed(self, task: FlushTask) -> None:
        self.log.flushed(task)
        flushed_offset = self.log.flushed_offset
        waiting = self._awaiting_flush
        self._move_high_watermark()
        while waiting and waiting[0].next_offset <= flushed_offset:
            append = waiting.popleft()
            append.tell()
        if waiting:
            self._journal.flush_soon(self)

    def flush_failed(self, reason: str) -> None:
        """A failed flush says nothing about what is on disk, so nothing more is promised for this partition."""
        self.log.fail(reason)
        self._fail_waiting(self._in_doubt())

    def _fail_waiting(self, error: HeadwaterError) -> None:
        waiting, self._awaiting_flush = self._awaiting_flush, deque()
        for append in waiting:
            append.fail(error)
        self._wake_watchers(is_stable_end_moved=True)

    def _move_high_watermark(self) -> None:
        """A record produced with acks=all becomes visible once it is on disk, any other once it is written; and no
        record before those in front of it."""
        end_offset = self.log.end_offset
        flushed_offset = self.log.flushed_offset
        visible = end_offset if flushed_offset >= self._durable_before else max(flushed_offset, self.high_watermark)
        if visible > self.high_watermark:
            stable_before = self.last_stable_offset
            self.high_watermark = self.last_stable_offset = visible
            transactions = self.log.producers.transactions
            if transactions.open or transactions.ended:
                self._move_last_stable_offset()
            if self.watchers:
                self._wake_watchers(is_stable_end_moved=self.last_stable_offset > stable_before)

    def _move_last_stable_offset(self) -> None:
        """What was deleted from the head of the log is stable, too, whatever transaction it belonged to."""
        stable = self.log.producers.transactions.stable_before(self.high_watermark)
        self.last_stable_offset = max(stable, self.log.start_offset)

    def _wake_watchers(self, *, is_stable_end_moved: bool) -> None:
        for watcher in tuple(self.watchers):
            if is_stable_end_moved or not watcher.committed_only:
                watcher.partition_moved(self)

    # -- reading

    def read(
        self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool
    ) -> FileRange | UnverifiedRange | None:
        """Bytes of whole batches from the one that holds `offset`; None where there is nothing to read yet. An
        UnverifiedRange is what to `verify` before the read is tried again."""
        log = self.log
        if self.is_closed or log.failure is not None:
            self.check_online()
        if offset >= limit_offset and log.start_offset <= offset <= log.end_offset:
            return None
        return log.read(
            offset, bytes_max, limit_offset=limit_offset, first_batch_whole=first_batch_whole, is_verified=True
        )

    def verify(self, unverified: UnverifiedRange) -> None:
        """Verifies in a thread. Fetches that wait for the partition then look again, as if it had moved."""
        if unverified.is_under_way:
            return
        unverified.is_under_way = True
        verifying = asyncio.get_running_loop().run_in_executor(None, unverified.verify)
        verifying.add_done_callback(lambda verified: self._verified(unverified, verified))

    def _verified(self, unverified: UnverifiedRange, verified: asyncio.Future[VerifiedPart]) -> None:
        if not verified.cancelled():
            unverified.accept(verified.result())
            self._wake_watchers(is_stable_end_moved=True)

    def aborted(self, found: FileRange, offset: int) -> Sequence[AbortedTransaction]:
        """The transactions whose records a read_committed consumer must leave out of what it read from `offset` on."""
        aborted = self.log.aborted
        return aborted.in_range(found, offset) if aborted.segments else ()

    # -- removing

    def expire(self, now_ms: int) -> Garbage:
        """Removes what retention no longer keeps."""
        garbage = self.log.expire(now_ms, self.high_watermark)
        self._move_last_stable_offset()
        return garbage

    def advance_start(self, offset: int) -> Garbage:
        """Makes everything before `offset`, which is visible, unreadable."""
        garbage = self.log.advance_start(offset)
        self._move_last_stable_offset()
        return garbage

    # -- the end

    def check_online(self) -> None:
        if self.is_closed:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.id} is gone")
        if self.log.failure is not None:
            raise self._offline()

    def _offline(self) -> Refusal:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.id} is offline: {self.log.failure}")

    def _in_doubt(self) -> Refusal:
        """For batches that the next start may find. A storage error would not do: clients take it for a promise that
        nothing was kept, and give the same sequence to other records, which would then be taken for these."""
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            f"{self.id} is offline, and whether the batch was kept is known at its next start: {self.log.failure}",
        )

    def close(self) -> None:
        """Whoever still waits is told that the partition is gone."""
        self.is_closed = True
        self.log.fail("the partition is gone")
        self._fail_waiting(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.id} is gone"))
