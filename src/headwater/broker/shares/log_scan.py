"""The batches in a range of a log, by their headers alone: what a share group may acquire, and where its bytes are.

The headers are read in chunks, so that large batches cost no more than small ones, and no more than was asked for.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.shares.commands import LogBatch
from headwater.coordination.shares.share_partition import SharePartition
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE, BatchHeader
from headwater.storage.producers.transaction_index import AbortedTransaction

CHUNK_BYTES = 64 << 10


class Span(NamedTuple):
    """The offsets and the bytes of one batch."""

    first: int
    last: int
    position: int
    size: int


class Scan(NamedTuple):
    batches: Sequence[LogBatch]
    spans: Sequence[Span]
    # Where the headers go on that are not in the page cache; None if all that was needed is there.
    cold_position: int | None
    # Whether the batches end before one that has to be looked into first, in a thread (`expiry.py`).
    is_waiting: bool = False

    def trimmed(self, found: FileRange, first: int, last: int) -> FileRange:
        """The bytes of the batches that hold these offsets."""
        held = [span for span in self.spans if span.first <= last and first <= span.last]
        end = held[-1].position + held[-1].size
        return FileRange(found.file, held[0].position, end - held[0].position)


def scan(
    found: FileRange, offset: int, share: SharePartition, records_max: int, aborted: Sequence[AbortedTransaction]
) -> Scan:
    """Walk the batches from `offset` on, until there is as much to acquire as is wanted."""
    listed: list[LogBatch] = []
    spans: list[Span] = []
    position, end = found.position, found.position + found.length
    chunk, chunk_position = b"", position
    while position < end and records_max > 0:
        at = position - chunk_position
        if at + HEADER_SIZE > len(chunk):
            read = found.file.pread_resident(min(CHUNK_BYTES, end - position), position)
            if read is None:
                return Scan(listed, spans, position)
            chunk, chunk_position, at = read, position, 0
            if len(chunk) < HEADER_SIZE:
                break
        header = batches.read_header(chunk, at)
        if header.base_offset > offset:
            # Compaction left nothing of what was here.
            listed.append(LogBatch(offset, header.base_offset - 1, False))
        is_deliverable = not header.is_control and not is_aborted(header, aborted)
        listed.append(LogBatch(header.base_offset, header.last_offset, is_deliverable))
        spans.append(Span(header.base_offset, header.last_offset, position, header.size))
        if is_deliverable:
            records_max -= share.available_size(header.base_offset, header.last_offset)
        offset = max(offset, header.next_offset)
        position += header.size
    return Scan(listed, spans, None)


def is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
