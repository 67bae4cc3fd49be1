"""Finds out the lanes of the records in one segment: from its `.lanes` file as far as that goes, then from its records.

Planned on the loop, run in any thread, installed on the loop (`log_lanes.py`), as is the writing of a file.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE, BatchHeader
from headwater.protocol.batches.directives import PRIORITY, PRIORITY_NORMAL, priority_of
from headwater.protocol.batches.records import Record
from headwater.storage import names
from headwater.storage.disk import Disk
from headwater.storage.index import DamagedIndex, Entries
from headwater.storage.lanes.lane_table import LaneTable
from headwater.storage.recovery.scan import DECOMPRESSED_BYTES_MAX, Scan, ends_early
from headwater.storage.segment import Segment

# Larger files are mapped, smaller ones read: a mapping holds a file descriptor.
MAPPED_BYTES_MIN: Final = 256 << 10
# Records are walked in Python: after so many bytes, or records, the loop gets its turn (`large_batch.py`).
_BYTES_BETWEEN_PAUSES: Final = 1 << 20
_RECORDS_BETWEEN_PAUSES: Final = 1000
_PAUSE_S: Final = 50e-6
_NAME: Final = PRIORITY.encode()


class LaneTask:
    def __init__(
        self, disk: Disk, segment: Segment, known: LaneTable | None, truncations: int, report: Callable[[str], None]
    ) -> None:
        self.segment = segment
        # None: nothing is known of the segment yet.
        self.known = known
        self.truncations = truncations
        # What was found, behind `known` or in all.
        self.found: LaneTable | None = None
        # How much of the segment its file covers; None if the task has not looked.
        self.stored_position: int | None = None
        self._disk = disk
        self._file = segment.file
        self._path = segment.path(names.LANE_INDEX)
        self._size = segment.size
        self._next_offset = segment.next_offset
        self._is_sealed = segment.is_sealed
        self._report = report

    @property
    def size_bytes(self) -> int:
        """How much of the segment is to be read, if it has no file."""
        return self._size - (0 if self.known is None else self.known.position)

    def run_at_once(self) -> bool:
        """On the loop, for few bytes that are in memory. False: it takes a thread."""
        known = self.known
        assert known is not None, "a file takes a thread"
        if not self._file.is_resident(known.position, self.size_bytes):
            return False
        table = known.continuation()
        scan = self._scan(table)
        for position, header, batch in scan:
            if header.codec:
                return False
            _add(table, header, batch, position)
        if scan.problem is not None:
            return False
        self._end(table)
        return True

    def run(self) -> None:
        """Reads files alone; any thread may do so beside the owner of the segment."""
        known = self.known
        if known is None:
            table = self._stored()
            self.stored_position = table.position
        else:
            table = known.continuation()
        problem = self._read_on(table)
        if problem is not None:
            # A reader that comes to the damage is told. Until then these are records without a priority.
            self._report(f"{self._path.name} lacks records that are damaged: {problem}; see `headwater log verify`")
            if table.next_offset < self._next_offset:
                table.add(table.next_offset, self._next_offset - 1, PRIORITY_NORMAL)
            table.give_up(self._size)
        self._end(table)

    def _read_on(self, table: LaneTable) -> str | None:
        scan = self._scan(table)
        bytes_left = _BYTES_BETWEEN_PAUSES
        try:
            for position, header, batch in scan:
                _add(table, header, batch, position, _paused)
                bytes_left -= header.size
                if bytes_left <= 0:
                    time.sleep(_PAUSE_S)
                    bytes_left = _BYTES_BETWEEN_PAUSES
        except OSError as error:
            return f"it cannot be read: {error}"
        if scan.problem is None and scan.position < self._size:
            return ends_early(scan.next_offset, self._next_offset)
        return scan.problem

    def _scan(self, table: LaneTable) -> Scan:
        return Scan(self._file, table.position, self._size, table.next_offset, self._next_offset)

    def _end(self, table: LaneTable) -> None:
        # A sealed segment may end with offsets that compaction has emptied.
        table.fill(self._next_offset)
        self.found = table

    def _stored(self) -> LaneTable:
        """What the segment's file has; nothing if it has none that can be used."""
        try:
            table = read_file(self._disk, self._path, self.segment.base_offset)
            self._check(table)
        except FileNotFoundError:
            return LaneTable.empty(self.segment.base_offset)
        except (DamagedIndex, CorruptBatch, OSError) as damage:
            self._report(f"{self._path.name} is built anew: {damage}")
            return LaneTable.empty(self.segment.base_offset)
        return table

    def _check(self, table: LaneTable) -> None:
        """Whether the table ends with a batch of this segment."""
        mark = table.last_batch
        assert mark is not None, "every file has one"
        if not 0 <= mark.position < table.position <= self._size or table.next_offset > self._next_offset:
            raise DamagedIndex("it goes beyond its segment")
        header = batches.read_header(self._file.pread(HEADER_SIZE, mark.position))
        there = (header.base_offset, header.leader_epoch, header.crc)
        if there != mark[1:] or mark.position + header.size != table.position:
            raise DamagedIndex("it was written for other batches")


class LaneFileTask:
    """Writes the file of a segment. One that cannot be written costs the next start a scan, and nothing else."""

    def __init__(self, disk: Disk, segment: Segment, table: LaneTable) -> None:
        self.segment = segment
        self.table = table
        # The same out of the file, if the segment is sealed: what does not change any more need not be in memory.
        self.reread: LaneTable | None = None
        self._disk = disk
        self._path: Path = segment.path(names.LANE_INDEX)
        self._is_sealed = segment.is_sealed
        # The table of an active segment grows meanwhile.
        self._data = None if segment.is_sealed else table.encode()

    def run(self) -> None:
        try:
            self._disk.replace_file(self._path, self._data or self.table.encode())
            if not self._disk.exists(self._path.with_suffix(names.LOG)):
                # Retention has removed the segment meanwhile.
                self._disk.remove(self._path)
            elif self._is_sealed:
                self.reread = read_file(self._disk, self._path, self.table.base_offset)
        except (OSError, DamagedIndex):
            with suppress(OSError):
                self._disk.remove(self._path.with_name(self._path.name + names.TEMPORARY))


def read_file(disk: Disk, path: Path, base_offset: int) -> LaneTable:
    data: Entries
    data = disk.read_file(path) if disk.size(path) < MAPPED_BYTES_MIN else disk.open(path).map()
    return LaneTable.decode(data, base_offset)


def _paused(records: list[Record]) -> Iterator[Record]:
    for start in range(0, len(records), _RECORDS_BETWEEN_PAUSES):
        yield from records[start : start + _RECORDS_BETWEEN_PAUSES]
        time.sleep(_PAUSE_S)


def _add(
    table: LaneTable,
    header: BatchHeader,
    batch: memoryview,
    position: int,
    walk: Callable[[list[Record]], Iterator[Record]] = iter,
) -> None:
    if not header.is_control and header.record_count:
        records = _prioritized(header, batch)
        first, lane = header.base_offset, PRIORITY_NORMAL
        for record in walk(records):
            priority = priority_of(record.headers)
            if priority != lane:
                if record.offset > first:
                    table.add(first, record.offset - 1, lane)
                first, lane = record.offset, priority
        table.add(first, header.last_offset, lane)
    table.end_with(header, position)


def _prioritized(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The records of a batch, if any of them may have a priority. One that cannot be decoded was never admitted; its
    readers are told, and no order is promised to them."""
    try:
        payload = bytes(batches.payload(batch, header, DECOMPRESSED_BYTES_MAX))
        if _NAME not in payload:
            return []
        records = batches.read_records(batch, header, DECOMPRESSED_BYTES_MAX)
    except HeadwaterError:
        return []
    offset = header.base_offset
    for record in records:
        if not offset <= record.offset <= header.last_offset:
            return []
        offset = record.offset + 1
    return records
