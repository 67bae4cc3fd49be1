"""A partition's log. Four nouns: a *store* is a `.log` file of batches (`File`, or a `FileRange` of it); an *index*
finds batches in a store (`Index`); a *segment* is a store with its indexes (`Segment`); a *log* is segments in order,
the last of which takes appends, and what is known about their contents: leader epochs, producers, transactions.

A log has one owner, which calls it from one thread, and `Log` alone assigns its attributes. What blocks (flush, unlink,
compaction, lookup by time) is planned here, run by the owner in any thread, and installed here again. A failed write
leaves no trace, or takes the log out of service."""

import errno
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.file_range import FileRange
from headwater.protocol.batches.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer, Marker
from headwater.storage import checkpoints, names
from headwater.storage.cleaning import removal, retention, swap
from headwater.storage.cleaning.garbage import Garbage, discard
from headwater.storage.disk import Disk
from headwater.storage.epochs import LeaderEpochs
from headwater.storage.errors import DiskFull, LogFailed, OffsetOutOfRange, is_disk_full
from headwater.storage.flush.flush_task import FlushBacklog, FlushTask
from headwater.storage.producers.aborted_transactions import AbortedTransactions
from headwater.storage.producers.states import Duplicate, ProducerStates
from headwater.storage.recovery.log_contents import LogContents, new_segment
from headwater.storage.recovery.replay import load_producers, recall_producers
from headwater.storage.recovery.verification import UnverifiedRange
from headwater.storage.roll_policy import is_full, is_old
from headwater.storage.segment import Segment
from headwater.storage.time_lookup import Lookup, plan_latest, plan_lookup

if TYPE_CHECKING:
    from headwater.storage.cleaning.compaction import CleaningTask


class Log:
    __slots__ = (
        "_backlog",
        "_config",
        "_recall_offset",
        "_report",
        "_snapshots",
        "aborted",
        "active",
        "directory",
        "disk",
        "end_offset",
        "epochs",
        "failure",
        "first_dirty_offset",
        "flushed_offset",
        "is_recovered",
        "producers",
        "segments",
        "start_offset",
        "truncations",
        "verified_bytes",
    )

    def __init__(
        self, disk: Disk, directory: Path, config: TopicConfig, contents: LogContents, report: Callable[[str], None]
    ) -> None:
        self.disk = disk
        self.directory = directory
        self._config = config
        self._report = report
        self.segments: Sequence[Segment] = contents.segments
        self.active = contents.segments[-1]
        self.start_offset = contents.start_offset
        self.end_offset = contents.end_offset
        self.flushed_offset = contents.flushed_offset
        # Compaction has not been at this offset and behind it.
        self.first_dirty_offset = contents.first_dirty_offset
        # Counts how often the end was cut back: tasks that were planned before a cut are not installed after it.
        self.truncations = 0
        self.producers: ProducerStates = contents.producers
        self.aborted = AbortedTransactions(contents.segments, contents.snapshots, report)
        self.epochs: LeaderEpochs = contents.epochs
        self.is_recovered = contents.is_recovered
        # By recovery, when the log was opened.
        self.verified_bytes = contents.verified_bytes
        self.failure: str | None = None
        # A clean start reads no batch before this offset; the first retry that the snapshot cannot place needs them.
        self._recall_offset = None if contents.is_recovered else contents.end_offset
        self._snapshots = contents.snapshots
        sealed = [
            segment
            for segment in contents.segments[:-1]
            if segment.next_offset > contents.flushed_offset or segment.has_pending_entries
        ]
        self._backlog = FlushBacklog(disk, directory, contents.snapshots, sealed, contents.directories_unsynced)

    def sync_creation(self) -> None:
        """Makes a new log durable, except for its name: the caller syncs the directory above once for all new logs."""
        for name in (names.PARTITION_METADATA, names.LEADER_EPOCHS):
            self.disk.sync_file(self.directory / name)
        self.disk.sync_directory(self.directory)
        self._backlog.forget_directories()

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self.active.interval_bytes = config.index_interval_bytes

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def fail(self, reason: str) -> None:
        """Takes the log out of service: nobody knows any more what is on disk."""
        if self.failure is None:
            self.failure = reason

    def _failed(self, reason: str) -> LogFailed:
        self.fail(reason)
        return LogFailed(f"{self.directory.name}: {self.failure}")

    def _use(self, segments: Sequence[Segment]) -> None:
        """The log consists of these segments from now on."""
        self.segments = segments
        self.active = segments[-1]
        self.aborted.refresh(segments)
        self._backlog.retain(segments[:-1])

    # -- writing

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]], now_ms: int) -> None:
        """Writes batches that have their offsets, the first at `end_offset`. Either all of them are written, or none is
        and the log is as before (DiskFull) or out of service (LogFailed)."""
        if self.failure is not None:
            raise LogFailed(self.failure)
        end_offset = self.end_offset
        config = self._config
        epochs = self.epochs
        latest_epoch = epochs.latest
        start = number = pending_bytes = 0
        try:
            for header, _ in batches:
                if is_full(self.active, header, pending_bytes, config, now_ms):
                    self._write(batches[start:number])
                    start, pending_bytes = number, 0
                    self._roll(now_ms)
                if header.leader_epoch > latest_epoch:
                    latest_epoch = header.leader_epoch
                    self._begin_epoch(latest_epoch, header.base_offset)
                pending_bytes += header.batch_length + LOG_OVERHEAD
                number += 1
            self._write(batches[start:] if start else batches)
        except OSError as error:
            if epochs is not self.epochs:
                self.epochs = epochs
                epochs.mark_unwritten()
            self._undo(end_offset, error)

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins to write at the end. Durable when it returns; DiskFull leaves the epochs as they were."""
        if self.failure is not None:
            raise LogFailed(self.failure)
        try:
            self._begin_epoch(epoch, self.end_offset)
        except OSError as error:
            self._undo(self.end_offset, error)

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        epochs = LeaderEpochs(self.epochs.starts)
        epochs.assign(epoch, start_offset)
        epochs.write(self.disk, self.directory)
        self.epochs = epochs

    def _write(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        if batches:
            assert batches[0][0].base_offset == self.end_offset, "offsets are given without gaps"
            self.active.append(batches)
            self.end_offset = self.active.next_offset
            if self.aborted.staged:
                self.aborted.note_written(self.active)

    def _undo(self, end_offset: int, error: OSError) -> None:
        if not is_disk_full(error):
            raise self._failed(f"write failed: {error}") from error
        try:
            for path in self._cut_back(end_offset):
                self.disk.remove(path)
        except OSError as second:
            raise self._failed(f"disk full, and what was half written cannot be taken back: {second}") from second
        raise DiskFull(f"{self.directory.name}: {error.strerror}") from error

    def roll_if_due(self, now_ms: int) -> None:
        """Closes the active segment `segment.ms` after it was begun, even if nothing is appended. Timestamps of records
        do not count here: a segment of old data that is written today would be due again every minute."""
        active = self.active
        if self.failure is None and active.size and is_old(active, NO_TIMESTAMP, now_ms, self._config):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Begins a new segment, unless the active one is still empty."""
        if self.active.size:
            try:
                self._roll(now_ms)
            except OSError as error:
                self._undo(self.end_offset, error)

    def _roll(self, now_ms: int) -> None:
        # A failure leaves at most a file that the next attempt overwrites.
        self._write_snapshot()
        begun = new_segment(
            self.disk, self.directory, self.end_offset, self._config, now_ms=now_ms, report=self._report
        )
        sealed = self.active
        sealed.seal()
        self._use([*self.segments, begun])
        self._backlog.add_sealed(sealed)

    def _write_snapshot(self) -> None:
        offset = self.end_offset
        if offset == 0:
            return
        self._snapshots.write(offset, self.producers.before(offset), self.active.base_offset)

    # -- reading

    @overload
    def read(
        self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool, is_verified: Literal[True]
    ) -> FileRange | UnverifiedRange: ...

    @overload
    def read(self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool) -> FileRange: ...

    def read(
        self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool, is_verified: bool = False
    ) -> FileRange | UnverifiedRange:
        """Whole batches from the one that holds `offset`, or the next where compaction removed it, before
        `limit_offset`. With `first_batch_whole` the first may be larger than `bytes_max`. With `is_verified` the result
        has no batch of an earlier process that is not verified yet: where the first would be such a batch, the result
        is the range to verify before the read is tried again."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        active = self.active
        if offset < limit_offset:
            if offset >= active.base_offset:
                candidates: Sequence[Segment] = (active,)
            else:
                candidates = self.segments[bisect_right(self.segments, offset, key=_base_offset) - 1 :]
            for segment in candidates:
                found = segment.read(
                    offset, bytes_max, limit_offset, first_batch_whole=first_batch_whole, is_verified=is_verified
                )
                if found is not None:
                    return found
        return FileRange(active.file, active.size, 0)

    def timestamp_lookup(self, timestamp: int, limit_offset: int) -> Lookup:
        """The first record at or after `timestamp`, before `limit_offset`."""
        return plan_lookup(self.segments, timestamp, start_offset=self.start_offset, limit_offset=limit_offset)

    def latest_timestamp_lookup(self) -> Lookup:
        """The record with the latest timestamp of all."""
        return plan_latest(self.segments, self.start_offset)

    # -- flushing

    def flush_task(self) -> FlushTask | None:
        """What must reach the disk so that everything appended so far survives; None if all of it has."""
        if self.flushed_offset == self.end_offset and not self._backlog.sealed:
            return None
        is_due = self._backlog.is_checkpoint_due(self.active, self.producers)
        if is_due:
            # Without the snapshot recovery reads more; nothing else depends on it.
            with suppress(OSError):
                self._write_snapshot()
        return self._backlog.plan(self.active, self.end_offset, self.truncations, with_active_indexes=is_due)

    def flushed(self, task: FlushTask) -> None:
        """The task ran without an error."""
        self._backlog.complete(task)
        if task.truncations == self.truncations:
            self.flushed_offset = max(self.flushed_offset, task.end_offset)

    def flush(self, *, with_active_indexes: bool) -> None:
        """Flushes at once, while the log is opened or closed and nobody waits for it."""
        plan = self._backlog.plan
        task = plan(self.active, self.end_offset, self.truncations, with_active_indexes=with_active_indexes)
        task.run()
        self.flushed(task)

    @property
    def recovery_point(self) -> int:
        """Where recovery has to start: before batches that are not on disk, and before markers of aborted transactions
        that their index, which it trusts, does not have on disk."""
        return min(self.flushed_offset, self.aborted.durable_before)

    # -- removing

    def expire(self, now_ms: int, limit_offset: int) -> Garbage:
        """Removes the segments that retention no longer keeps, none beyond `limit_offset`, the high watermark."""
        if self.failure is not None:
            return Garbage(self.disk)
        self._backlog.add_rebuilt(self.segments[:-1])
        for segment in self.segments:
            segment.close_if_idle()
        count = retention.expired_count(
            self.segments, self._config, start_offset=self.start_offset, limit_offset=limit_offset, now_ms=now_ms
        )
        if count == len(self.segments):
            self.roll(now_ms)
        return self._drop_head(count)

    def advance_start(self, offset: int) -> Garbage:
        """Makes everything before `offset` unreadable, and removes the segments that hold nothing else."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        self.start_offset = offset
        return self._drop_head(bisect_right(self.segments, offset, key=_base_offset) - 1)

    def _drop_head(self, count: int) -> Garbage:
        dropped, kept = self.segments[:count], self.segments[count:]
        base_offset = kept[0].base_offset
        self._use(kept)
        self.start_offset = max(self.start_offset, base_offset)
        self.epochs.truncate_start(self.start_offset)
        self.first_dirty_offset = max(self.first_dirty_offset, self.start_offset)
        try:
            return discard(self.disk, removal.files_of(dropped) + self._snapshots.cut_before(base_offset))
        except OSError as error:
            raise self._failed(f"removal failed: {error}") from error

    def truncate_to(self, offset: int) -> Garbage:
        """Removes everything at `offset` and after it, as a follower does whose leader has other records there."""
        if self.failure is not None:
            raise LogFailed(self.failure)
        if offset >= self.end_offset:
            return Garbage(self.disk)
        try:
            paths = self._cut_back(offset)
            self.epochs.truncate_end(offset)
            self.epochs.write(self.disk, self.directory)
            self.rebuild_producers()
            return discard(self.disk, paths)
        except OSError as error:
            raise self._failed(f"truncation failed: {error}") from error

    def _cut_back(self, offset: int) -> list[Path]:
        """Makes `offset` the end again. Returns the files that no longer belong to the log, newest segment first."""
        kept, paths = removal.cut_back(self.segments, offset)
        self._use(kept)
        self._backlog.add_directory()
        self.truncations += 1
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.flushed_offset = min(self.flushed_offset, offset)
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        return paths + self._snapshots.cut_after(offset)

    def install(self, task: "CleaningTask") -> Garbage:
        """Puts the cleaned segments in the place of those they were made from. Where the log was cut at either end
        since the task was planned, it stays as it is until the next round."""
        replacement = task.replacement
        if replacement is None:
            return Garbage(self.disk)
        is_cut = task.truncations != self.truncations or replacement.replaced[0] not in self.segments
        if self.failure is not None or is_cut:
            return Garbage(self.disk, replacement.files)
        try:
            # Older snapshots may know of open transactions whose markers are gone now.
            for path in self._snapshots.cut_before(replacement.cleaned[-1].next_offset):
                self.disk.remove(path)
            segments, discarded = swap.install(self.segments, replacement)
        except OSError as error:
            raise self._failed(f"installing a compacted segment failed: {error}") from error
        self._use(segments)
        self.first_dirty_offset = max(self.first_dirty_offset, task.first_dirty_offset)
        checkpoint = checkpoints.encode([str(self.first_dirty_offset)])
        return Garbage(self.disk, discarded, checkpoint=(self.directory / names.CLEANER_CHECKPOINT, checkpoint))

    def delete(self) -> Garbage:
        """Renames the directory to a name that is no partition's; readers keep the files that they have open."""
        self.fail("the log is deleted")
        if not self.disk.is_directory(self.directory):
            return Garbage(self.disk)  # it was lost before, or something else has the name
        tree = self.directory.with_name(names.directory_aside(self.directory.name, names.DIRECTORY_DELETED))
        self.disk.rename(self.directory, tree)
        return Garbage(self.disk, tree=tree)

    # -- producers

    def check_sequence(self, header: BatchHeader) -> Duplicate | None:
        """As `ProducerStates.check`, which it repeats once with the batches that a clean start left unread."""
        try:
            return self.producers.check(header)
        except Refusal as refusal:
            if self._recall_offset is None or refusal.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            offset, self._recall_offset = self._recall_offset, None
            with suppress(OSError, HeadwaterError):
                recall_producers(self.producers, self.segments, offset)
            return self.producers.check(header)

    def end_transaction(self, header: BatchHeader, marker: Marker, now_ms: int) -> None:
        """Accounts for a marker that has its offset and is about to be appended."""
        aborted = self.producers.end_transaction(header, marker, now_ms)
        if aborted is not None:
            self.aborted.stage(aborted)

    def rebuild_producers(self) -> None:
        """Undoes the effects of staged batches and markers that were never written: sequences, ends of transactions."""
        self.aborted.drop_staged()
        before = self.producers
        if before.truncate(self.end_offset):
            recall_producers(before, self.segments, self.end_offset)
        else:
            self.producers = load_producers(self.segments, self._snapshots, self.end_offset, self._report)
            self.producers.transactions.carry_over(before.transactions, self.end_offset)

    # -- the end

    def close(self, *, clean: bool = True) -> None:
        """Flushes everything and writes a snapshot at the end, so that the next start has nothing to read."""
        if clean and self.failure is None:
            try:
                self._write_snapshot()
                self.active.note_max_time()
                self._backlog.add_rebuilt(self.segments[:-1])
                self.epochs.write(self.disk, self.directory)
                if (
                    self.flushed_offset < self.end_offset
                    or self.active.has_pending_entries
                    or not self._backlog.is_empty
                ):
                    self.flush(with_active_indexes=True)
                if self.aborted.durable_before < self.end_offset:
                    raise OSError(errno.ENOSPC, "no space for the aborted transactions")
            except OSError as error:
                raise self._failed(f"close failed: {error}") from error
        self.fail("the log is closed")
        for segment in self.segments:
            segment.close()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
