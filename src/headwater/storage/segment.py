"""One segment: a `.log` file of batches, the two sparse indexes that find them, and the transactions aborted in it.

The last segment of a log is active and takes appends. The others are sealed and never change.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headwater.errors import CorruptBatch
from headwater.file_range import FileRange
from headwater.protocol.batches.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer
from headwater.storage import names
from headwater.storage.disk import Disk, File
from headwater.storage.index import DamagedIndex, Index, OffsetEntry, OffsetIndex, TimeEntry, TimeIndex
from headwater.storage.position_cache import PositionCache
from headwater.storage.producers.transaction_index import AbortedTransaction, TransactionIndex
from headwater.storage.recovery import scan
from headwater.storage.recovery.verification import UnverifiedRange, Verification, VerifiedPart

T = TypeVar("T")


class Segment:
    __slots__ = (
        "_extension",
        "_file",
        "_first_timestamp",
        "_indexed_time",
        "_max_time",
        "_positions",
        "_report",
        "_unindexed_bytes",
        "_was_read",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "disk",
        "interval_bytes",
        "is_sealed",
        "next_index_bytes",
        "next_offset",
        "offset_index",
        "size",
        "time_index",
        "verification",
    )

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        *,
        extension: str = "",
        size: int = 0,
        next_offset: int | None = None,
        is_sealed: bool = False,
        is_new: bool = False,
        has_aborted: bool = False,
        now_ms: int,
        interval_bytes: int,
        report: Callable[[str], None],
    ) -> None:
        self.disk = disk
        self.directory = directory
        self._extension = extension
        self.base_offset = base_offset
        self.size = size
        # The offset after the last batch, where the next segment begins.
        self.next_offset = base_offset if next_offset is None else next_offset
        self.is_sealed = is_sealed
        self.created_ms = now_ms
        self.offset_index = OffsetIndex(disk, self.path(names.OFFSET_INDEX), base_offset, is_new=is_new)
        self.time_index = TimeIndex(disk, self.path(names.TIME_INDEX), base_offset, is_new=is_new)
        # The index of transactions that were aborted here; None if none was.
        self.aborted = self._transaction_index(is_new=False) if has_aborted else None
        self._report = report
        self.interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self.next_index_bytes = 0
        self._first_timestamp: int | None = None
        self._max_time: TimeEntry | None = TimeEntry(NO_TIMESTAMP, base_offset) if is_new else None
        self._indexed_time: TimeEntry | None = None
        self._positions = PositionCache()
        self._was_read = False
        self.verification = Verification()
        self._file = disk.open(self.path(names.LOG), create=True) if is_new else None

    def successor(self, base_offset: int, size: int, next_offset: int, has_aborted: bool) -> "Segment":
        """A sealed segment that compaction has put in the place of this one and perhaps others after it."""
        return Segment(
            self.disk,
            self.directory,
            base_offset,
            size=size,
            next_offset=next_offset,
            is_sealed=True,
            has_aborted=has_aborted,
            now_ms=self.created_ms,
            interval_bytes=self.interval_bytes,
            report=self._report,
        )

    def path(self, suffix: str) -> Path:
        return self.directory / names.file_name(self.base_offset, suffix + self._extension)

    @property
    def file(self) -> File:
        self._was_read = True
        file = self._file
        if file is None:
            file = self._file = self.disk.open(self.path(names.LOG), writable=not self.is_sealed)
        return file

    def is_in(self, found: FileRange) -> bool:
        """Whether it is a range of this segment's file."""
        return found.file is self._file

    def close_if_idle(self) -> None:
        """Closes the files of a sealed segment that was not read since the last call: of many segments few are read."""
        if self.is_sealed and not self._was_read:
            self._release()
        self._was_read = False

    def close(self) -> None:
        """No append follows, and the segment opens no file for writing any more."""
        self.is_sealed = True
        self._release()

    def _release(self) -> None:
        """Gives up its files, which close with their last reader."""
        self._file = None
        for index in self.indexes:
            index.release()

    # -- time

    @property
    def max_time(self) -> TimeEntry:
        """The latest timestamp in the segment, and the last offset of the first batch that has it."""
        if self._max_time is None:
            last = self._usable(self.time_index.last)
            if last is not None and not self._is_true(last):
                self.rebuild_indexes(f"{self.time_index.path.name} does not match its segment")
            if self._max_time is None:  # no index was rebuilt meanwhile
                self._max_time = last or TimeEntry(NO_TIMESTAMP, self.base_offset)
        return self._max_time

    @property
    def first_timestamp(self) -> int:
        """The first batch's timestamp, from which the age of the segment counts."""
        if self._first_timestamp is None:
            self._first_timestamp = next(
                (header.max_timestamp for _, header in scan.headers(self.file, 0, self.size)), NO_TIMESTAMP
            )
        return self._first_timestamp

    def range_since(self, timestamp: int, limit_offset: int) -> FileRange:
        """All batches before `limit_offset` that may hold a record at or after `timestamp`."""
        entry = self._usable(lambda: self.time_index.lookup(timestamp))
        if entry is not None and not self._is_true(entry):
            self.rebuild_indexes(f"{self.time_index.path.name} does not match its segment")
            entry = self.time_index.lookup(timestamp)
        start = 0 if entry is None else self.locate(entry.offset)
        end = self.size if limit_offset >= self.next_offset else self.locate(limit_offset)
        return FileRange(self.file, start, max(end - start, 0))

    @property
    def largest_timestamp(self) -> int:
        """For retention. A segment whose records have no timestamp counts from its creation."""
        timestamp = self.max_time.timestamp
        return timestamp if timestamp >= 0 else self.created_ms

    # -- writing

    def append(self, batch_list: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """One gathered write. After an OSError the file may have grown, and the segment has not."""
        position = self.size
        file = self._file
        if file is None:
            file = self.file
        file.pwritev([buffer for _, buffer in batch_list], position)
        for header, _ in batch_list:
            self.note(header, position)
            position += header.batch_length + LOG_OVERHEAD

    def note(self, header: BatchHeader, position: int) -> None:
        """Accounts for a batch whose bytes are in the file."""
        last_offset = header.base_offset + header.last_offset_delta
        size = header.batch_length + LOG_OVERHEAD
        max_time = self._max_time
        if max_time is None:
            max_time = self.max_time
        if header.max_timestamp > max_time.timestamp:
            self._max_time = TimeEntry(header.max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if self._unindexed_bytes > self.interval_bytes:
            self.offset_index.append(last_offset, position)
            if self._max_time is not self._indexed_time:
                self._indexed_time = self.max_time
                self.time_index.append(*self._indexed_time)
            self._unindexed_bytes = 0
            # With room for one more entry of each, and for the last entry of the time index.
            self.next_index_bytes = max(self.offset_index.size_bytes + 8, self.time_index.size_bytes + 24)
        self._unindexed_bytes += size
        self.size = position + size
        self.next_offset = last_offset + 1
        self._positions.note_batch(last_offset, position)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Accounts for an aborted transaction whose marker is in the file."""
        if self.aborted is None:
            self.aborted = self._transaction_index(is_new=True)
        self.aborted.append(aborted)

    def _transaction_index(self, *, is_new: bool) -> TransactionIndex:
        return TransactionIndex(self.disk, self.path(names.TRANSACTION_INDEX), self.base_offset, is_new=is_new)

    def seal(self) -> None:
        """Ends the appends. The time index gets a last entry, so that its end tells the segment's latest timestamp."""
        self.note_max_time()
        self.is_sealed = True
        # It is synced once more at most, so the second descriptor is no longer worth keeping.
        if self._file is not None:
            self._file.close_second_opening()
        self._positions.forget()

    def unseal(self) -> None:
        """Makes the segment active again: the segments after it are gone."""
        self.is_sealed = False
        self._file = None

    def note_max_time(self) -> None:
        self.time_index.append(*self.max_time)

    def truncate(self, offset: int) -> None:
        """Drops the batches at `offset` and after it, and a batch that holds it in its middle."""
        self.next_offset = self.cut(self.locate(offset))

    def cut(self, position: int) -> int:
        """Cuts the file at `position`, where a batch begins, and makes the segment active. Returns the offset after the
        last batch that is left."""
        self.unseal()
        self.file.truncate(position)
        return self.rewind(position)

    def rewind(self, position: int) -> int:
        """Forgets all about the bytes from `position` on. Returns the offset after the last batch before it."""
        self._usable(lambda: (self.offset_index.truncate(position), self.time_index.entries))
        last = self.offset_index.at(len(self.offset_index) - 1) if len(self.offset_index) else None
        start = 0 if last is None else last.position
        self.time_index.truncate(self.base_offset if last is None else last.offset)
        self.size = position
        self._unindexed_bytes = 0
        self._positions.forget()
        self._first_timestamp = None
        self._max_time = self.time_index.last() or TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._indexed_time = None
        next_offset = self.base_offset
        for _, header in scan.headers(self.file, start, position):
            next_offset = header.next_offset
            if header.max_timestamp > self._max_time.timestamp:
                self._max_time = TimeEntry(header.max_timestamp, header.last_offset)
        if self.aborted is not None:
            # A damaged index stays as it is until the log rebuilds it.
            with suppress(DamagedIndex):
                self.aborted.truncate(next_offset)
        self.verification.cut(next_offset, position)
        return next_offset

    def end_offset_at(self, position: int) -> int:
        """The offset after the last batch that begins before `position`, or any later offset before the next batch."""
        if position == self.size:
            return self.next_offset
        remembered = self._positions.end_offset_at(position)
        if remembered is not None:
            return remembered
        next_offset = self.base_offset
        entry = self._checked(lambda: self.offset_index.lookup_position(position - 1))
        for _, header in scan.headers(self.file, 0 if entry is None else entry.position, position):
            next_offset = header.next_offset
        return next_offset

    # -- verification

    def mark_unverified(self) -> None:
        """All that the segment holds now was written by an earlier process, and is verified before a client gets it."""
        self.verification = Verification(self.next_offset, self.size)

    def accept(self, unverified: UnverifiedRange, verified: VerifiedPart) -> None:
        """Takes the result of a verification, unless the file was cut or replaced meanwhile."""
        if self.verification.accept(unverified, verified) and verified.problem is not None:
            self._report(f"{self.path(names.LOG).name} is damaged: {verified.problem}; see `headwater log verify`")

    def _unverified_at(self, offset: int) -> UnverifiedRange:
        """What must be verified next to read from `offset` on; raises CorruptBatch where damage is known."""
        return self.verification.next_at(self, self._checked(lambda: self.offset_index.lookup(offset)))

    # -- reading

    def read(
        self, offset: int, bytes_max: int, limit_offset: int, *, first_batch_whole: bool, is_verified: bool = False
    ) -> FileRange | UnverifiedRange | None:
        """Whole batches from the first that reaches `offset`; None if this segment has none. With `is_verified` only
        verified batches, or the range that has to be verified first."""
        end, next_offset, known = self.size, self.next_offset, None
        if is_verified and offset < self.verification.before_offset:
            known = self.verification.known_at(offset)
            if known is None:
                return self._unverified_at(offset)
            if known.end < self.verification.before:
                end, next_offset = known.end, known.next_offset
        start = self.locate(offset)
        if start == self.size:
            return None
        if limit_offset < next_offset:
            end = self.locate(limit_offset)
        elif known is not None and known.problem is None and end < self.size and end - start < bytes_max:
            # The read could give more, once more is verified.
            return self._unverified_at(offset)
        if end - start > bytes_max:
            cut = self._boundary(start, start + bytes_max)
            if cut == start and first_batch_whole:
                cut = self._batch_end(start)
            end = min(end, cut)
        return FileRange(self.file, start, max(end - start, 0))

    def locate(self, offset: int) -> int:
        """The position of the first batch whose last offset is at or after `offset`; the segment's end if none is."""
        if offset >= self.next_offset:
            return self.size
        remembered = self._positions.locate(offset)
        if remembered is not None:
            return remembered
        entry = self._checked(lambda: self.offset_index.lookup(offset))
        start = 0 if entry is None else entry.position
        for position, _, _, last_offset in scan.spans(self.file, start, self.size):
            if last_offset >= offset:
                return position
        return self.size

    def _boundary(self, start: int, cut: int) -> int:
        """The last batch boundary at or before `cut`, and at or after the boundary `start`."""
        remembered = self._positions.start_before(cut)
        if remembered is not None:
            return max(start, remembered)
        entry = self._checked(lambda: self.offset_index.lookup_position(cut))
        boundary = start if entry is None else max(start, entry.position)
        for position, end, base_offset, _ in scan.spans(self.file, boundary, self.size):
            if end > cut:
                self._positions.note_end(position, base_offset)
                return position
        return self.size

    def batch_start(self, position: int) -> int:
        """The beginning of some batch at or before `position`."""
        entry = self._checked(lambda: self.offset_index.lookup_position(position))
        return 0 if entry is None else entry.position

    def _batch_end(self, position: int) -> int:
        for _, header in scan.headers(self.file, position, self.size, HEADER_SIZE):
            return position + header.size
        return self.size

    # -- indexes

    def rebuild_indexes(self, reason: str) -> None:
        self._report(f"{self.path(names.LOG).name}: {reason}; its indexes are built anew")
        self.reset_indexes()
        self._max_time = TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._positions.forget()
        next_offset, size, self._unindexed_bytes = self.next_offset, self.size, 0
        self.next_offset = self.base_offset
        try:
            for position, header in scan.headers(self.file, 0, size):
                if not self.next_offset <= header.base_offset <= header.last_offset < next_offset:
                    # An index entry with these offsets would lead readers past records that exist.
                    raise CorruptBatch(f"{self.path(names.LOG).name} has wrong offsets at position {position}")
                self.note(header, position)
            if self.is_sealed:
                self.seal()
        except CorruptBatch:
            self._positions.forget()
            raise
        finally:
            # A damaged batch does not end the segment: appends go on where they ended.
            self.next_offset, self.size = next_offset, size

    @property
    def index_bytes(self) -> int:
        """The size of the larger of the offset index and the time index."""
        return self._usable(lambda: max(self.offset_index.size_bytes, self.time_index.size_bytes))

    @property
    def indexes(self) -> Sequence[Index]:
        """In the order in which a flush writes them: recovery starts at an entry of the offset index, and trusts that
        the others know everything before it."""
        if self.aborted is None:
            return self.time_index, self.offset_index
        return self.time_index, self.aborted, self.offset_index

    @property
    def has_pending_entries(self) -> bool:
        return any(index.pending_bytes > 0 for index in self.indexes)

    def reset_indexes(self) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        self._indexed_time = None

    def _usable(self, lookup: Callable[[], T]) -> T:
        """The result of `lookup`, after rebuilding the indexes if a file turns out to be damaged."""
        try:
            return lookup()
        except DamagedIndex as damage:
            self.rebuild_indexes(str(damage))
            return lookup()

    def _checked(self, lookup: Callable[[], OffsetEntry | None]) -> OffsetEntry | None:
        """As `_usable`; rebuilds also where the entry does not match the batch that it leads to."""
        entry = self._usable(lookup)
        if entry is None or self.holds(entry):
            return entry
        self.rebuild_indexes(f"{self.offset_index.path.name} does not match its segment")
        return lookup()

    def holds(self, entry: OffsetEntry) -> bool:
        """Whether the batch at the entry's position ends with the entry's offset."""
        return self._last_offset_at(entry.position) == entry.offset

    def _last_offset_at(self, position: int) -> int | None:
        try:
            for _, header in scan.headers(self.file, position, self.size, HEADER_SIZE):
                return header.last_offset
        except CorruptBatch:
            return None
        return None

    def _is_true(self, entry: TimeEntry) -> bool:
        position = self.locate(entry.offset)
        for _, header in scan.headers(self.file, position, self.size, HEADER_SIZE):
            return header.last_offset == entry.offset and header.max_timestamp == entry.timestamp
        return False
