"""One partition: its log, how far consumers may read, and which fetches wait for it.

Owned by the event loop. A produced batch is staged at once (checked, given its offset); everything staged in a loop
turn is written by one gathered write at the end of the turn; a reply leaves when the acknowledgement rule is met. The
log is the partition's own: other code asks the partition."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.broker.reads.watcher import Watcher
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.topic_names import is_internal
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.file_range import FileRange
from headwater.ids import TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import NO_OFFSET, BatchHeader, Marker
from headwater.storage.cleaning.garbage import Garbage
from headwater.storage.epochs import EpochEnd
from headwater.storage.flush.flush_task import FlushTask
from headwater.storage.log import Log
from headwater.storage.producers.states import ProducerState
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery.verification import UnverifiedRange, VerifiedPart
from headwater.storage.time_lookup import Lookup, TimestampOffset

if TYPE_CHECKING:
    from headwater.broker.writes.journal import Journal
    from headwater.storage.cleaning.compaction import CleaningTask

logger = logging.getLogger(__name__)


class Partition:
    __slots__ = (
        "_awaiting_flush",
        "_awaiting_write",
        "_durable_before",
        "_journal",
        "_log",
        "_next_offset",
        "_staged",
        "config",
        "high_watermark",
        "id",
        "is_closed",
        "is_internal",
        "last_stable_offset",
        "leader_epoch",
        "watchers",
    )

    def __init__(
        self, identity: TopicPartition, log: Log, config: TopicConfig, journal: "Journal", leader_epoch: int = 0
    ) -> None:
        self.id = identity
        self._log = log
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

    # -- state

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record that is written, whether consumers may see it or not."""
        return self._log.end_offset

    @property
    def is_flushed(self) -> bool:
        """Whether everything that is written is also on disk."""
        return self._log.flushed_offset == self._log.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset from which recovery would have to read after a crash."""
        return self._log.recovery_point

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def directory(self) -> Path:
        return self._log.directory

    @property
    def failure(self) -> str | None:
        """Why the partition is out of service; None while it works."""
        return self._log.failure

    @property
    def is_online(self) -> bool:
        return self._log.failure is None and not self.is_closed

    def use_config(self, config: TopicConfig) -> None:
        self.config = self._log.config = config

    # -- writing

    def stage(self, header: BatchHeader, batch: memoryview, append: Append, *, acks: int, now_ms: int) -> None:
        """Give the batch its offset. `batch` must stay untouched until the end of the loop turn."""
        if self.is_closed or self._log.failure is not None:
            self.check_online()
        append.log_start_offset = self._log.start_offset
        if header.producer_id >= 0:
            duplicate = self._log.check_sequence(header)
            if duplicate is not None:
                self._acknowledge_duplicate(append, duplicate.base_offset, duplicate.next_offset, acks)
                return
        base_offset = self._next_offset
        header = batches.patch(batch, header, base_offset, self.leader_epoch)
        if header.producer_id >= 0:
            self._log.producers.update(header, now_ms)
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
        """End a producer's transaction in this partition, if it has one; `append` completes when the marker is on
        disk."""
        self.check_marker(producer_id, producer_epoch, marker, transaction_version)
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
        self._log.end_transaction(header, marker, now_ms)

    def _must_flush(self, acks: int) -> bool:
        if self.config.headwater_flush == "ack" and acks == ACKS_ALL:
            return True
        return self._next_offset - self._log.flushed_offset >= self.config.flush_messages

    def _acknowledge_duplicate(self, append: Append, base_offset: int, next_offset: int, acks: int) -> None:
        """The producer sent the batch again because it missed our reply. The first one may still be on its way to
        disk."""
        append.base_offset, append.next_offset = base_offset, next_offset
        if next_offset > self._log.end_offset:
            self._awaiting_write.append((append, self._must_flush(acks)))
        elif self._must_flush(acks) and next_offset > self._log.flushed_offset:
            self._await_flush(append)
        else:
            append.complete()

    def write_staged(self, now_ms: int) -> None:
        """End of turn: write everything staged at once, then send the replies that need nothing else."""
        staged, self._staged = self._staged, []
        waiting, self._awaiting_write = self._awaiting_write, []
        segment_count = len(self._log.segments)
        try:
            self._log.append(staged, now_ms)
        except Exception as error:
            self._refuse_staged(waiting, error)
            return
        if len(self._log.segments) != segment_count:
            # As in Kafka, a sealed segment is flushed under every policy: this bounds what recovery scans after a
            # crash.
            self._journal.flush_soon(self)
        for append, must_flush in waiting:
            if must_flush:
                self._await_flush(append)
            else:
                append.complete()
        self._move_high_watermark()

    def _refuse_staged(self, waiting: Sequence[tuple[Append, bool]], error: Exception) -> None:
        """Contain the failure: the other partitions of the turn are written all the same."""
        if not isinstance(error, HeadwaterError):
            logger.error("the log of %s failed unexpectedly", self.id, exc_info=error)
            self._log.fail(f"unexpected {type(error).__name__}: {error}")
        self._next_offset = self._log.end_offset
        if self._log.failure is None:
            try:
                # The disk was full. Give back the sequences that were taken for batches which were never written.
                self._log.rebuild_producers()
            except (HeadwaterError, OSError) as second:
                self._log.fail(f"the disk was full, and its producers cannot be told apart any more: {second}")
        if self._log.failure is None:
            assert isinstance(error, HeadwaterError), "anything else has failed the log"
            for append, _ in waiting:
                append.fail(error)
            return
        logger.error("%s is offline until the next start: %s", self.id, self._log.failure)
        in_doubt = self._in_doubt()
        for append, _ in waiting:
            append.fail(in_doubt)
        self._fail_waiting(in_doubt)

    def _await_flush(self, append: Append) -> None:
        self._awaiting_flush.append(append)
        self._durable_before = max(self._durable_before, append.next_offset)
        self._journal.flush_soon(self)

    def plan_flush(self) -> FlushTask | None:
        """What must be flushed for everything written to survive a power failure; None if nothing must. Never again
        after a failed flush: the next one may succeed, and would say nothing about what was lost."""
        return None if self._log.failure is not None else self._log.flush_task()

    def flushed(self, task: FlushTask) -> None:
        """The task ran without an error."""
        self._log.flushed(task)
        flushed_offset = self._log.flushed_offset
        waiting = self._awaiting_flush
        self._move_high_watermark()
        while waiting and waiting[0].next_offset <= flushed_offset:
            waiting.popleft().complete()
        if waiting:
            self._journal.flush_soon(self)

    def flush_failed(self, reason: str) -> None:
        """Take the partition out of service: which records are on disk is unknown until the next start."""
        self._log.fail(reason)
        self._fail_waiting(self._in_doubt())

    def _fail_waiting(self, error: HeadwaterError) -> None:
        waiting, self._awaiting_flush = self._awaiting_flush, deque()
        for append in waiting:
            append.fail(error)
        self._wake_watchers(is_stable_end_moved=True)

    def _move_high_watermark(self) -> None:
        """Make records visible: one produced with acks=all once it is on disk, any other once it is written, and none
        before the records in front of it."""
        end_offset = self._log.end_offset
        flushed_offset = self._log.flushed_offset
        visible = end_offset if flushed_offset >= self._durable_before else max(flushed_offset, self.high_watermark)
        if visible > self.high_watermark:
            stable_before = self.last_stable_offset
            self.high_watermark = self.last_stable_offset = visible
            transactions = self._log.producers.transactions
            if transactions.open or transactions.ended:
                self._move_last_stable_offset()
            if self.watchers:
                self._wake_watchers(is_stable_end_moved=self.last_stable_offset > stable_before)

    def _move_last_stable_offset(self) -> None:
        """Records deleted from the head of the log count as stable, whichever transaction they belonged to."""
        stable = self._log.producers.transactions.stable_before(self.high_watermark)
        self.last_stable_offset = max(stable, self._log.start_offset)

    def _wake_watchers(self, *, is_stable_end_moved: bool) -> None:
        for watcher in tuple(self.watchers):
            if is_stable_end_moved or not watcher.committed_only:
                watcher.partition_moved(self)

    # -- reading

    def read(
        self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool
    ) -> FileRange | UnverifiedRange | None:
        """Whole batches, beginning with the batch that holds `offset`; None if there is nothing to read yet.

        An UnverifiedRange must be verified first (`verify`); then the caller reads again.
        """
        log = self._log
        if self.is_closed or log.failure is not None:
            self.check_online()
        if offset >= limit_offset and log.start_offset <= offset <= log.end_offset:
            return None
        return log.read(
            offset, bytes_max, limit_offset=limit_offset, first_batch_whole=first_batch_whole, is_verified=True
        )

    def verify(self, unverified: UnverifiedRange) -> None:
        """Verify checksums in a thread, then wake the waiting fetches, as if the partition had moved."""
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
        aborted = self._log.aborted
        return aborted.in_range(found, offset) if aborted.segments else ()

    def read_written(self, offset: int, bytes_max: int, limit_offset: int) -> FileRange:
        """For the broker's own logs: as `read`, but also batches that consumers may not see yet."""
        return self._log.read(offset, bytes_max, limit_offset=limit_offset, first_batch_whole=True)

    def first_record(self) -> TimestampOffset:
        """Where the log starts, and in which leader epoch."""
        log = self._log
        is_empty = log.start_offset >= log.end_offset
        epoch = self.leader_epoch if is_empty else log.epochs.epoch_at(log.start_offset)
        return TimestampOffset(-1, log.start_offset, epoch)

    def plan_lookup(self, timestamp: int | None, limit_offset: int) -> Lookup:
        """Find the first record at or after `timestamp`, or the record with the latest one. The lookup blocks: run it
        in a thread."""
        if timestamp is None:
            return self._log.latest_timestamp_lookup()
        return self._log.timestamp_lookup(timestamp, limit_offset)

    # -- leader epochs

    def check_leader_epoch(self, believed: int) -> None:
        """Refuse a client that knows another leader epoch; -1 is a client that knows none."""
        if believed < 0 or believed == self.leader_epoch:
            return
        if believed < self.leader_epoch:
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self.id} is at leader epoch {self.leader_epoch}, not {believed}"
            )
        raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.id} is only at leader epoch {self.leader_epoch}")

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The last epoch that is not above `epoch`, and where it ended for consumers."""
        if epoch == self.leader_epoch:
            # Also while nothing has been written in the current epoch yet.
            return EpochEnd(epoch, self.high_watermark)
        return self._log.epochs.end_offset(epoch, self.high_watermark)

    def divergence(self, last_fetched_epoch: int, offset: int) -> EpochEnd | None:
        """Where this log and a client's parted, if the client read a batch that this log does not hold (KIP-595)."""
        end = self._log.epochs.end_offset(last_fetched_epoch, self._log.end_offset)
        if end.epoch < 0 or (end.epoch == last_fetched_epoch and end.end_offset >= offset):
            return None
        return end

    # -- producers

    @property
    def producers(self) -> Iterable[ProducerState]:
        return self._log.producers

    def producer(self, producer_id: int) -> ProducerState | None:
        return self._log.producers.get(producer_id)

    def recognises(self, header: BatchHeader) -> bool:
        """Whether the producer sent the batch before; refuses one that is out of order."""
        return self._log.check_sequence(header) is not None

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        state = self._log.producers.get(producer_id)
        return (
            state is not None and state.producer_epoch == producer_epoch and state.current_txn_first_offset != NO_OFFSET
        )

    def check_marker(self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int) -> None:
        """Refuse a marker that another coordinator or a later transaction has overtaken."""
        self._log.producers.check_marker(producer_id, producer_epoch, marker, transaction_version)

    def forget_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the sequences of producers that have been silent for `expiration_ms`."""
        self._log.producers.expire(now_ms, expiration_ms)

    # -- cleaning

    def retain(self, now_ms: int) -> Garbage:
        """Roll the active segment if it is due, and remove the segments that retention no longer keeps."""
        self._log.roll_if_due(now_ms)
        garbage = self._log.expire(now_ms, self.high_watermark)
        self._move_last_stable_offset()
        return garbage

    def advance_start(self, offset: int) -> Garbage:
        """Make everything before `offset`, which is visible, unreadable."""
        garbage = self._log.advance_start(offset)
        self._move_last_stable_offset()
        return garbage

    def plan_compaction(self, now_ms: int) -> "CleaningTask | None":
        """What is to be compacted now; None if nothing is. The task blocks: run it in a thread, then `install` it."""
        # Late import: many brokers have nothing to compact, and start-up time counts.
        from headwater.storage.cleaning import compaction  # noqa: PLC0415

        self._log.roll_if_due(now_ms)
        return compaction.plan(self._log, now_ms, self.last_stable_offset)

    def install(self, task: "CleaningTask") -> Garbage:
        """Replace segments by their compacted form, unless they are gone by now."""
        return self._log.install(task)

    # -- the end

    def check_online(self) -> None:
        if self.is_closed:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.id} is gone")
        if self._log.failure is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.id} is offline: {self._log.failure}")

    def _in_doubt(self) -> Refusal:
        """For batches that the next start may find. Clients take a storage error for a promise that nothing was kept,
        and would reuse the sequence for other records, which would then look like duplicates of these."""
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            f"{self.id} is offline, and whether the batch was kept is known at its next start: {self._log.failure}",
        )

    def close(self) -> None:
        """The topic is deleted: fail the requests that still wait."""
        self.is_closed = True
        self._log.fail("the partition is gone")
        self._fail_waiting(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.id} is gone"))

    def delete(self) -> Garbage:
        """Rename the directory, so that no partition finds it; removing the files is left to a thread."""
        return self._log.delete()

    def hand_over_log(self) -> Log:
        """For the data directory, which closes all logs when the broker stops."""
        return self._log
