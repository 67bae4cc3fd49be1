"""A partition's log: segments in order, and what is known about their contents.

One owner calls it. What blocks (flush, unlink, compaction, lookup by time) is planned here, run by the owner in any
thread, and installed here again. A write that fails leaves no trace or stops the log; nothing is ever half there.
"""

import errno
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId
from headwater.protocol.batches.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer, Marker
from headwater.storage import checkpoints, names
from headwater.storage.cleaning import removal, swap
from headwater.storage.cleaning.garbage import Garbage
from headwater.storage.disk import Disk
from headwater.storage.epochs import EpochStart, LeaderEpochs
from headwater.storage.errors import DiskFull, LogFailed, OffsetOutOfRange, is_disk_full
from headwater.storage.file_range import FileRange
from headwater.storage.flush import flush_task
from headwater.storage.flush.flush_task import FlushTask
from headwater.storage.producers.aborted_transactions import AbortedTransactions
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.producers.states import Duplicate, ProducerStates
from headwater.storage.recovery import loader
from headwater.storage.recovery.loader import Loaded
from headwater.storage.recovery.replay import load_producers, recall_producers
from headwater.storage.segment import Segment
from headwater.storage.time_lookup import Lookup, plan_latest, plan_lookup

if TYPE_CHECKING:
    from headwater.storage.cleaning.compaction import CleaningTask

__all__ = ["DiskFull", "FileRange", "FlushTask", "Garbage", "Log", "LogFailed", "OffsetOutOfRange"]

logger = logging.getLogger(__name__)

# How far the active segment grows before a flush also writes its index entries and a producer snapshot, which is how
# much recovery reads besides the unflushed tail. Many producers make a snapshot dearer, and rarer.
_CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
_CHECKPOINT_BYTES_PER_PRODUCER: Final = 1024


class Log:
    __slots__ = (
        "_config",
        "_recall_offset",
        "_report",
        "aborted",
        "active",
        "checkpointed_bytes",
        "directories_to_sync",
        "directory",
        "disk",
        "end_offset",
        "epochs",
        "failure",
        "first_dirty_offset",
        "flushed_offset",
        "is_recovered",
        "producers",
        "sealed_unflushed",
        "segments",
        "snapshots",
        "start_offset",
        "truncations",
    )

    def __init__(
        self, disk: Disk, directory: Path, config: TopicConfig, loaded: Loaded, report: Callable[[str], None]
    ) -> None:
        self.disk = disk
        self.directory = directory
        self._config = config
        self._report = report
        self.segments: list[Segment] = loaded.segments
        self.active = loaded.segments[-1]
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.flushed_offset = loaded.flushed_offset
        self.producers: ProducerStates = loaded.producers
        self.aborted = AbortedTransactions(loaded.segments, loaded.snapshots, report)
        self.epochs: LeaderEpochs = loaded.epochs
        self.first_dirty_offset = loaded.first_dirty_offset
        self.is_recovered = loaded.is_recovered
        self.failure: str | None = None
        # A clean start leaves the batches before this offset unread. The first retry that it cannot place needs them.
        self._recall_offset = None if loaded.is_recovered else loaded.end_offset
        # Bookkeeping of what the next flush has to cover besides the active segment.
        self.sealed_unflushed = [
            segment
            for segment in self.segments[:-1]
            if segment.next_offset > self.flushed_offset or segment.has_pending_entries
        ]
        self.snapshots = loaded.snapshots
        # After a crash nobody knows whether the names of the newest segments are on disk.
        self.directories_to_sync = [directory] if loaded.is_recovered else []
        self.checkpointed_bytes = 0
        self.truncations = 0

    @classmethod
    def create(cls, disk: Disk, directory: Path, config: TopicConfig, *, topic_id: TopicId, now_ms: int) -> "Log":
        """Not durable before `sync_creation`."""
        disk.make_directory(directory)
        epochs = LeaderEpochs([EpochStart(0, 0)])
        disk.write_file(directory / names.PARTITION_METADATA, checkpoints.partition_metadata(topic_id))
        disk.write_file(directory / names.LEADER_EPOCHS, epochs.encode())
        active = loader.new_segment(disk, directory, 0, config, now_ms=now_ms, report=logger.warning)
        loaded = Loaded([active], SnapshotFiles(disk, directory), epochs=epochs)
        log = cls(disk, directory, config, loaded, logger.warning)
        log.directories_to_sync = [directory, directory.parent]
        return log

    def sync_creation(self) -> None:
        """Makes a new log durable, but for its name in the directory above, which the caller syncs once for all."""
        for name in (names.PARTITION_METADATA, names.LEADER_EPOCHS):
            self.disk.sync_file(self.directory / name)
        self.disk.sync_directory(self.directory)
        self.directories_to_sync = []

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        config: TopicConfig,
        *,
        clean: bool,
        recovery_point: int,
        start_offset: int,
        now_ms: int,
        report: Callable[[str], None],
    ) -> "Log":
        """`clean`: the log was closed, and `recovery_point` is its end; no record is read. Otherwise what follows the
        recovery point is verified, cut at the first batch that is not whole, and on disk before anybody reads it."""
        opening = loader.Loader(disk, directory, config, now_ms, report)
        loaded = opening.load(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
        log = cls(disk, directory, config, loaded, report)
        for segment in log.segments:
            segment.doubt()
        if log.is_recovered:
            log._flush(with_active_indexes=False)
        return log

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
        """Takes the log out of service: what is on disk is no longer known."""
        if self.failure is None:
            self.failure = reason

    # -- writing

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]], now_ms: int) -> None:
        """Batches with their offsets, the first at `end_offset`. All of them are written, or none is and the log is as
        before (DiskFull) or out of service (LogFailed)."""
        if self.failure is not None:
            raise LogFailed(self.failure)
        end_offset = self.end_offset
        config = self._config
        epochs = self.epochs
        latest_epoch = epochs.latest
        start = number = pending_bytes = 0
        try:
            for header, _ in batches:
                if self.active.is_full(header, pending_bytes, config, now_ms):
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
                epochs.is_changed, self.epochs = True, epochs
            self._undo(end_offset, error)

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins to write at the end. On disk when it returns; DiskFull leaves the epochs as they were."""
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
            self.fail(f"write failed: {error}")
            raise LogFailed(f"{self.directory.name}: {self.failure}") from error
        try:
            for path in removal.cut_back(self, end_offset):
                self.disk.remove(path)
        except OSError as second:
            self.fail(f"disk full, and what was half written cannot be taken back: {second}")
            raise LogFailed(f"{self.directory.name}: {self.failure}") from second
        raise DiskFull(f"{self.directory.name}: {error.strerror}") from error

    def roll_if_due(self, now_ms: int) -> None:
        """Closes the active segment `segment.ms` after it was begun, though nothing is appended that would. What its
        records say about time does not count here: old data that is written today is not due again every minute."""
        active = self.active
        if self.failure is None and active.size and active.is_old(NO_TIMESTAMP, now_ms, self._config):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Begins a new segment, unless the active one is still empty."""
        if self.active.size:
            try:
                self._roll(now_ms)
            except OSError as error:
                self._undo(self.end_offset, error)

    def _roll(self, now_ms: int) -> None:
        # Whatever fails here leaves a file that the next attempt overwrites.
        self._write_snapshot()
        segment = loader.new_segment(
            self.disk, self.directory, self.end_offset, self._config, now_ms=now_ms, report=self._report
        )
        self.active.seal()
        self.sealed_unflushed.append(self.active)
        self.segments.append(segment)
        self.active = segment
        self.checkpointed_bytes = 0
        self.directories_to_sync = self.directories_to_sync or [self.directory]

    def _write_snapshot(self) -> None:
        offset = self.end_offset
        if offset == 0:
            return
        self.snapshots.write(offset, self.producers.before(offset), self.active.base_offset)

    # -- reading

    def read(
        self, offset: int, bytes_max: int, *, limit_offset: int, first_batch_whole: bool, is_verified: bool = False
    ) -> FileRange:
        """Whole batches from the one that holds `offset`, or the next where compaction removed it, before
        `limit_offset`. With `first_batch_whole` the first is given even if it is larger than `bytes_max`. With
        `is_verified` it may be UnverifiedRange, which is to be settled before the read is tried again."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        active = self.active
        if offset < limit_offset:
            segments = self.segments
            if offset >= active.base_offset:
                number = len(segments) - 1
            else:
                number = bisect_right(segments, offset, key=_base_offset) - 1
            for segment in segments[number:]:
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
        """What must reach the disk for everything appended so far to survive; None if it has."""
        if self.flushed_offset == self.end_offset and not self.sealed_unflushed:
            return None
        due_bytes = self.checkpointed_bytes + _CHECKPOINT_BYTES + len(self.producers) * _CHECKPOINT_BYTES_PER_PRODUCER
        is_due = self.active.size >= due_bytes
        if is_due:
            # Without the snapshot recovery reads more, and that is all.
            with suppress(OSError):
                self._write_snapshot()
        return flush_task.plan(self, with_active_indexes=is_due)

    @property
    def recovery_point(self) -> int:
        """From where recovery has to read: what is not on disk, or not yet known to an index that it has to trust."""
        return min(self.flushed_offset, self.aborted.durable_before)

    @property
    def _is_dirty(self) -> bool:
        return bool(
            self.flushed_offset < self.end_offset
            or self.sealed_unflushed
            or self.active.has_pending_entries
            or self.snapshots.has_unsynced
            or self.directories_to_sync
        )

    def _flush(self, *, with_active_indexes: bool) -> None:
        task = flush_task.plan(self, with_active_indexes=with_active_indexes)
        task.run()
        self.flushed(task)

    def flushed(self, task: FlushTask) -> None:
        """The task ran without an error."""
        for chunk in task.chunks:
            chunk.install()
        self.sealed_unflushed = [
            segment for segment in self.sealed_unflushed if segment not in task.sealed or segment.has_pending_entries
        ]
        if task.truncations == self.truncations:
            self.flushed_offset = max(self.flushed_offset, task.end_offset)

    def keep_rebuilt_indexes(self) -> None:
        """Indexes that turned out to be damaged and were built anew are for the next flush to write."""
        for segment in self.segments[:-1]:
            if segment.has_pending_entries and segment not in self.sealed_unflushed:
                self.sealed_unflushed.append(segment)

    # -- removing

    def expire(self, now_ms: int, limit_offset: int) -> Garbage:
        """Removes what retention no longer keeps, all of it before `limit_offset`, the high watermark."""
        return Garbage(self.disk) if self.failure is not None else removal.expire(self, now_ms, limit_offset)

    def advance_start(self, offset: int) -> Garbage:
        """Makes everything before `offset` unreadable; segments that hold nothing else are removed."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        return removal.advance_start(self, offset)

    def truncate_to(self, offset: int) -> Garbage:
        """Takes back everything at `offset` and after it, as a follower does whose leader has something else there."""
        if self.failure is not None:
            raise LogFailed(self.failure)
        return removal.truncate(self, offset) if offset < self.end_offset else Garbage(self.disk)

    def install(self, task: "CleaningTask") -> Garbage:
        """Puts what the task has cleaned in the place of what it was cleaned from, if that is still there."""
        return swap.install(self, task)

    def delete(self) -> Garbage:
        """The directory gets a name that is no partition's; readers keep the files that they have open."""
        self.fail("the log is deleted")
        if not self.disk.is_directory(self.directory):
            return Garbage(self.disk)  # it was lost before, or is something of another's
        tree = self.directory.with_name(names.directory_aside(self.directory.name, names.DIRECTORY_DELETED))
        self.disk.rename(self.directory, tree)
        return Garbage(self.disk, tree=tree)

    # -- producers

    def check_sequence(self, header: BatchHeader) -> Duplicate | None:
        """As `ProducerStates.check`, with every batch known that it goes by."""
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
        """Takes in a marker that has its offset and is about to be appended."""
        aborted = self.producers.end_transaction(header, marker, now_ms)
        if aborted is not None:
            self.aborted.staged.append(aborted)

    def rebuild_producers(self) -> None:
        """Gives back the sequences of batches, and the ends of transactions, that were staged but never written."""
        self.aborted.staged.clear()
        before = self.producers
        if before.truncate(self.end_offset):
            recall_producers(before, self.segments, self.end_offset)
        else:
            self.producers = load_producers(self.segments, self.snapshots, self.end_offset, self._report)
            self.producers.transactions.carry_over(before.transactions, self.end_offset)

    # -- the end

    def close(self, *, clean: bool = True) -> None:
        """Everything on disk, and a snapshot at the end, so that the next `open` has nothing to read."""
        if clean and self.failure is None:
            try:
                self._write_snapshot()
                self.active.note_max_time()
                self.keep_rebuilt_indexes()
                self.epochs.write(self.disk, self.directory)
                if self._is_dirty:
                    self._flush(with_active_indexes=True)
                if self.aborted.durable_before < self.end_offset:
                    raise OSError(errno.ENOSPC, "no space for the aborted transactions")
            except OSError as error:
                self.fail(f"close failed: {error}")
                raise LogFailed(f"{self.directory.name}: {self.failure}") from error
        self.fail("the log is closed")
        for segment in self.segments:
            segment.is_sealed = True
            segment.let_go()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
