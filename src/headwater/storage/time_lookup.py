"""Finds offsets by time. Planned on the loop from the indexes alone; `run` decodes batches and belongs in a thread."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.records import Record
from headwater.storage.recovery.scan import DECOMPRESSED_BYTES_MAX, headers
from headwater.storage.segment import Segment


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Lookup:
    """Searches ranges, captured on the loop, for the first record at or after `timestamp` and `start_offset`."""

    __slots__ = ("_ranges", "_start_offset", "_timestamp")

    def __init__(self, ranges: Sequence[FileRange], timestamp: int, start_offset: int) -> None:
        self._ranges = ranges
        self._timestamp = timestamp
        self._start_offset = start_offset

    def run(self) -> TimestampOffset | None:
        for span in self._ranges:
            for position, header in headers(span.file, span.position, span.position + span.length):
                if header.max_timestamp >= self._timestamp and header.last_offset >= self._start_offset:
                    for record in _records(span, position, header):
                        if record.timestamp >= self._timestamp and record.offset >= self._start_offset:
                            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None


def _records(span: FileRange, position: int, header: BatchHeader) -> Sequence[Record]:
    data = span.file.pread(header.size, position)
    batches.verify(data, header)
    return batches.read_records(data, header, DECOMPRESSED_BYTES_MAX)


def plan_lookup(segments: Sequence[Segment], timestamp: int, *, start_offset: int, limit_offset: int) -> Lookup:
    candidates = [
        segment
        for segment in segments
        if segment.next_offset > start_offset
        and segment.base_offset < limit_offset
        and segment.max_time.timestamp >= timestamp
    ]
    # The first has the record, unless all of its records that late lie before the start offset; then the second has it.
    ranges = [segment.range_since(timestamp, limit_offset) for segment in candidates[:2]]
    return Lookup(ranges, timestamp, start_offset)


def plan_latest(segments: Sequence[Segment], start_offset: int) -> Lookup:
    """The record with the latest timestamp of all; the first, if several have it."""
    visible = [segment for segment in segments if segment.size and segment.next_offset > start_offset]
    latest = max(visible, key=lambda segment: segment.max_time.timestamp, default=None)
    if latest is None:
        return Lookup((), 0, start_offset)
    timestamp = latest.max_time.timestamp
    return Lookup([latest.range_since(timestamp, latest.next_offset)], timestamp, start_offset)
