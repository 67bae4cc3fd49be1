"""Reads the records that are to become dead letters. All that blocks or takes long is done in threads: reads from the
disk, decompression, and the walk over the records of a batch.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.errors import HeadwaterError
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.storage.recovery.verification import UnverifiedRange

logger = logging.getLogger(__name__)

READ_BYTES = 256 << 10
# So many bytes of records are held at a time; a larger record is held alone.
HELD_BYTES_MAX = 1 << 20
VERIFICATION_POLL_S = 0.01


class SourceRecord(NamedTuple):
    record: Record
    # The compression of its batch.
    codec: int


class Sources(NamedTuple):
    # None stands for content that is gone: retention has deleted it, or its batch is damaged.
    records: dict[int, SourceRecord | None]
    # Offsets at which there is no record: it is delayed, or compaction has removed it.
    gaps: set[int]

    def __contains__(self, offset: object) -> bool:
        return offset in self.records or offset in self.gaps


class _Decoded(NamedTuple):
    records: dict[int, SourceRecord | None]
    size: int
    # Up to where the log was looked through.
    next_offset: int


async def read_records(partition: Partition, offsets: Sequence[int], decompressed_bytes_max: int) -> Sources:
    """The records at these offsets, in their order; at least one, and as many as may be held."""
    found = Sources({}, set())
    held = 0
    for offset in offsets:
        if offset in found:
            continue
        if held >= HELD_BYTES_MAX:
            break
        piece = await _readable(partition, offset)
        if piece is None:
            found.records[offset] = None
            continue
        wanted = {each for each in offsets if each not in found}
        decoded = await asyncio.get_running_loop().run_in_executor(
            None, _decode, piece, offset, wanted, HELD_BYTES_MAX - held, decompressed_bytes_max
        )
        held += decoded.size
        found.records.update(decoded.records)
        found.gaps.update(
            each for each in wanted if offset <= each < decoded.next_offset and each not in decoded.records
        )
        if offset not in found:
            found.records[offset] = None
    return found


async def _readable(partition: Partition, offset: int) -> FileRange | None:
    while True:
        partition.check_online()
        if not partition.start_offset <= offset < partition.end_offset:
            return None
        found = partition.read(offset, READ_BYTES, limit_offset=partition.end_offset, first_batch_whole=True)
        if not isinstance(found, UnverifiedRange):
            return found
        partition.verify(found)
        await asyncio.sleep(VERIFICATION_POLL_S)


def _decode(
    piece: FileRange, offset: int, wanted: Iterable[int], held_bytes_max: int, decompressed_bytes_max: int
) -> _Decoded:
    offsets = frozenset(wanted)
    records: dict[int, SourceRecord | None] = {}
    size, next_offset = 0, offset
    for header, batch in batches.iterate(piece.read()):
        if size >= held_bytes_max and size:
            break
        next_offset = header.next_offset
        if header.is_control or offsets.isdisjoint(range(header.base_offset, next_offset)):
            continue
        try:
            batches.verify(batch, header)
            decoded = batches.read_records(batch, header, decompressed_bytes_max)
        except HeadwaterError as error:
            records.update(dict.fromkeys(offsets.intersection(range(header.base_offset, next_offset))))
            logger.error(
                "dead letters of offsets %d to %d lack content: %s", header.base_offset, next_offset - 1, error
            )
            continue
        for record in decoded:
            if record.offset in offsets:
                records[record.offset] = SourceRecord(record, header.codec)
                size += size_of(record)
    return _Decoded(records, size, next_offset)


def size_of(record: Record) -> int:
    """About how many bytes a record takes."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def codec_of(sources: Iterable[SourceRecord | None]) -> int:
    """Copies are compressed as their records were: what fitted into a batch there does so here."""
    return next((source.codec for source in sources if source is not None and source.codec), Codec.NONE)
