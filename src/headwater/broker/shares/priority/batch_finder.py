"""Finds the batches of records that lie anywhere in a log, lane by lane.

Records of one lane are often near each other: each lane keeps the headers that were read last, and goes on from there.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shares.log_scan import Span, is_aborted
from headwater.coordination.shares.lane_schedule import LANES
from headwater.file_range import FileRange, ReadableFile
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE, LOG_OVERHEAD
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery.verification import UnverifiedRange

WINDOW_BYTES: Final = 16 << 10


class FoundBatch(NamedTuple):
    span: Span
    file: ReadableFile
    is_deliverable: bool


class ColdRange(NamedTuple):
    """What must be read from the disk first, by a thread."""

    file: ReadableFile
    position: int
    length: int


class _Window:
    """Some batches of a log in a row, walked from the first on."""

    def __init__(self, found: FileRange, data: bytes, aborted: Sequence[AbortedTransaction]) -> None:
        self._found = found
        self._data = data
        self._aborted = aborted
        self._at = 0
        self._batch: FoundBatch | None = None

    def find(self, offset: int) -> FoundBatch | None:
        """The batch that holds the offset, or the first one behind it; None if the window does not tell."""
        batch = self._batch
        if batch is not None and offset < batch.span.first:
            # It lies in front of the window, or of what was asked last.
            return None
        while batch is None or batch.span.last < offset:
            batch = self._batch = self._next()
            if batch is None:
                return None
        return batch

    def _next(self) -> FoundBatch | None:
        data, at = self._data, self._at
        if at + HEADER_SIZE > len(data):
            return None
        header = batches.read_header(data, at)
        assert header.batch_length >= HEADER_SIZE - LOG_OVERHEAD, "the range was verified"
        self._at = at + header.size
        span = Span(header.base_offset, header.last_offset, self._found.position + at, header.size)
        is_deliverable = not header.is_control and not is_aborted(header, self._aborted)
        return FoundBatch(span, self._found.file, is_deliverable)


class BatchFinder:
    def __init__(self, partition: Partition, limit_offset: int, *, committed_only: bool) -> None:
        self._partition = partition
        self._limit_offset = limit_offset
        self._committed_only = committed_only
        self._windows: list[_Window | None] = [None for _ in LANES]

    def find(self, lane: int, offset: int) -> FoundBatch | ColdRange | UnverifiedRange | None:
        """The batch that holds the offset, or the first one behind it; None if there is none."""
        window = self._windows[lane]
        batch = None if window is None else window.find(offset)
        return batch or self._find(lane, offset)

    def _find(self, lane: int, offset: int) -> FoundBatch | ColdRange | UnverifiedRange | None:
        partition = self._partition
        found = partition.read(offset, WINDOW_BYTES, limit_offset=self._limit_offset, first_batch_whole=True)
        if found is None or isinstance(found, UnverifiedRange) or not found.length:
            return found if isinstance(found, UnverifiedRange) else None
        length = min(found.length, WINDOW_BYTES)
        data = found.file.pread_resident(length, found.position)
        if data is None:
            return ColdRange(found.file, found.position, length)
        window = self._windows[lane] = _Window(found, data, self._aborted(found, offset))
        return window.find(offset)

    def _aborted(self, found: FileRange, offset: int) -> Sequence[AbortedTransaction]:
        return self._partition.aborted(found, offset) if self._committed_only else ()
