"""Sparse indexes of a segment: offset to position, and timestamp to offset, in Kafka's formats.

An entry is a hint: a lower bound from which to walk the batches, checked against the batch that it leads to. Entries of
an active segment live in memory and reach the file only through a flush (never through a shared memory mapping, where a
full disk would kill the process with SIGBUS). Those of a sealed segment are read through a mapping made on first use.
"""

import mmap
from bisect import bisect_right
from collections.abc import Callable
from operator import lt
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final, NamedTuple, TypeAlias

from headwater.protocol.batches.batch import NO_TIMESTAMP
from headwater.storage.disk import Disk

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_NEVER_WRITTEN: Final = -1

Entries: TypeAlias = bytes | bytearray | mmap.mmap


class DamagedIndex(Exception):
    """The file is not what was written. The index is rebuilt by a scan of its segment."""


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class Index:
    """Entries of one size, in ascending order, in memory or in a file."""

    __slots__ = ("_disk", "_entries", "base_offset", "path", "revision", "written_bytes")
    entry: ClassVar[Struct]
    # Whether a segment may have no such file. Where every segment has one, a missing file is a lost file.
    is_optional: ClassVar[bool] = False

    def __init__(self, disk: Disk, path: Path, base_offset: int, *, is_new: bool) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._entries: Entries | None = bytearray() if is_new else None
        # How much of the file is known to be right; the next flush replaces the rest.
        self.written_bytes = _NEVER_WRITTEN
        # Counts how often entries were removed: a flush that was planned before has not written what replaced them.
        self.revision = 0

    @property
    def entries(self) -> Entries:
        entries = self._entries
        if entries is None:
            entries = self._entries = self._map()
            self.written_bytes = len(entries)
        return entries

    @property
    def size_bytes(self) -> int:
        return len(self.entries)

    @property
    def pending_bytes(self) -> int:
        """Bytes in memory that no flush has written yet. At least 1 where the file itself is still to be created."""
        return 0 if self._entries is None else len(self._entries) - self.written_bytes

    def __len__(self) -> int:
        return len(self.entries) // self.entry.size

    def pending(self) -> tuple[int, bytes]:
        """The file position of the unwritten entries, and those entries."""
        start = max(self.written_bytes, 0)
        return start, bytes(self.entries[start:])

    def release(self) -> None:
        """Frees the entries, if all of them can be read again from the file."""
        if self.pending_bytes == 0:
            self._entries = None

    def reset(self) -> None:
        """Drops all entries; the next flush replaces the file."""
        self._entries = bytearray()
        self.written_bytes = _NEVER_WRITTEN
        self.revision += 1

    def is_ascending(self) -> bool:
        """Checks every entry, for files that a crash may have left half written."""
        columns = list(zip(*self.entry.iter_unpack(self.entries), strict=True))
        return all(all(map(lt, column, column[1:])) for column in columns)

    def _column(self, column: int) -> Callable[[int], int]:
        """A function from an entry's number to one of its fields, as the key of a binary search."""
        entries, unpack_from, size = self.entries, self.entry.unpack_from, self.entry.size
        return lambda number: unpack_from(entries, number * size)[column]

    def _append(self, *fields: int) -> None:
        entries = self.entries
        if not isinstance(entries, bytearray):
            entries = self._entries = bytearray(entries)
        entries += self.entry.pack(*fields)

    def _cut(self, count: int) -> None:
        if count < len(self):
            self._entries = bytearray(self.entries[: count * self.entry.size])
            self.written_bytes = _NEVER_WRITTEN
            self.revision += 1

    def _map(self) -> Entries:
        try:
            entries = self._disk.open(self.path).map()
        except FileNotFoundError:
            raise DamagedIndex(f"{self.path.name} is missing") from None
        if len(entries) % self.entry.size:
            raise DamagedIndex(f"{self.path.name} has {len(entries)} bytes, no multiple of {self.entry.size}")
        if entries:
            first = self.entry.unpack_from(entries)
            last = self.entry.unpack_from(entries, len(entries) - self.entry.size)
            if min(*first, *last) < 0 or last < first:
                raise DamagedIndex(f"{self.path.name} runs from {first} to {last}")
        return entries


class OffsetIndex(Index):
    __slots__ = ()
    entry = _OFFSET_ENTRY

    def append(self, offset: int, position: int) -> None:
        self._append(offset - self.base_offset, position)

    def at(self, number: int) -> OffsetEntry:
        relative_offset, position = self.entry.unpack_from(self.entries, number * self.entry.size)
        return OffsetEntry(self.base_offset + relative_offset, position)

    def lookup(self, offset: int) -> OffsetEntry | None:
        """The last entry at or before `offset`; None: walk from the beginning of the segment."""
        return self._last(bisect_right(range(len(self)), offset - self.base_offset, key=self._column(0)))

    def lookup_position(self, position: int) -> OffsetEntry | None:
        """The last entry of a batch that begins at or before `position`."""
        return self._last(bisect_right(range(len(self)), position, key=self._column(1)))

    def truncate(self, position: int) -> None:
        """Removes the entries of batches that begin at `position` or after it."""
        self._cut(bisect_right(range(len(self)), position - 1, key=self._column(1)))

    def _last(self, number: int) -> OffsetEntry | None:
        return self.at(number - 1) if number else None


class TimeIndex(Index):
    __slots__ = ()
    entry = _TIME_ENTRY

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry only for a new maximum: a lookup asks for the first batch that is late enough."""
        last = self.last()
        if timestamp > (NO_TIMESTAMP if last is None else last.timestamp):
            self._append(timestamp, offset - self.base_offset)

    def at(self, number: int) -> TimeEntry:
        timestamp, relative_offset = self.entry.unpack_from(self.entries, number * self.entry.size)
        return TimeEntry(timestamp, self.base_offset + relative_offset)

    def last(self) -> TimeEntry | None:
        count = len(self)
        return self.at(count - 1) if count else None

    def lookup(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is before `timestamp`: no batch up to that one is as late."""
        number = bisect_right(range(len(self)), timestamp - 1, key=self._column(0))
        return self.at(number - 1) if number else None

    def truncate(self, offset: int) -> None:
        """Removes the entries at `offset` or after it."""
        self._cut(bisect_right(range(len(self)), offset - 1 - self.base_offset, key=self._column(1)))
