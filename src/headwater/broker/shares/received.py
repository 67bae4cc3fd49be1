"""Records of a receive or a peek, out of the batches in a file. A client says how many bytes it takes; how much a batch
holds, its size does not tell."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from headwater.broker.shares.log_scan import is_aborted
from headwater.config.live import LiveConfig
from headwater.coordination.shares.events import AcquiredRange
from headwater.errors import CorruptBatch, ErrorCode, Refusal
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.records import Record
from headwater.storage.producers.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)

T = TypeVar("T")


class CountedRecord(NamedTuple):
    record: Record
    delivery_count: int


class Contents(NamedTuple):
    """The records of acquired ranges."""

    records: Sequence[CountedRecord]
    # Offsets without a record, because compaction removed it.
    gaps: Sequence[int]
    # The first offset that is left out, because there are bytes enough, or because of the fault; None if none is.
    cut_at: int | None
    # Why the first batch that is left out cannot be read.
    fault: CorruptBatch | None


class BatchReader:
    """What may be large is decoded in a thread, one range at a time, so that it takes memory for one."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._turn = asyncio.Lock()

    async def read(self, found: FileRange, decode: Callable[[bytes, int], T]) -> T:
        """Call `decode` with the bytes, and with the most that a batch may be decompressed to."""
        try:
            return await self._read(found, decode)
        except OSError as trouble:
            logger.error("%s cannot be read: %s", found.file.path, trouble)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"records cannot be read: {trouble}") from trouble

    async def _read(self, found: FileRange, decode: Callable[[bytes, int], T]) -> T:
        config = self._config.current
        payload_bytes_max = config.headwater_batch_decompressed_bytes_max
        data = found.read_resident() if found.length <= config.headwater_batch_inline_bytes_max else None
        if data is not None and not any(header.codec for header, _ in batches.iterate(data)):
            return decode(data, payload_bytes_max)
        async with self._turn:
            return await asyncio.to_thread(lambda: decode(found.read(), payload_bytes_max))


def contents_of(data: bytes, payload_bytes_max: int, *, ranges: Sequence[AcquiredRange], bytes_max: int) -> Contents:
    """The records of these ranges, in order: one at least, and no more than there is room for."""
    counts = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
    records: list[CountedRecord] = []
    cut_at: int | None = None
    fault: CorruptBatch | None = None
    for header, one in batches.iterate(data):
        if cut_at is not None:
            break
        if not any(first <= header.last_offset and header.base_offset <= last for first, last, _ in ranges):
            continue
        try:
            decoded = batches.read_records(one, header, payload_bytes_max)
        except CorruptBatch as error:
            fault = error
            cut_at = min(offset for offset in counts if offset >= header.base_offset)
            break
        for record in decoded:
            if record.offset not in counts:
                continue
            bytes_max -= record_bytes(record)
            if bytes_max < 0 and records:
                cut_at = record.offset
                break
            records.append(CountedRecord(record, counts[record.offset]))
    there = {each.record.offset for each in records}
    gaps = [offset for offset in counts if offset not in there and (cut_at is None or offset < cut_at)]
    return Contents(records, gaps, cut_at, fault)


def records_from(
    data: bytes, payload_bytes_max: int, *, offset: int, aborted: Sequence[AbortedTransaction]
) -> tuple[list[Record], int]:
    """The records from `offset` on of the first batch that has one, and the offset that follows it."""
    for header, one in batches.iterate(data):
        if header.next_offset <= offset:
            continue
        if not header.is_control and not is_aborted(header, aborted):
            decoded = batches.read_records(one, header, payload_bytes_max)
            return [record for record in decoded if record.offset >= offset], header.next_offset
        offset = header.next_offset
    return [], offset


def record_bytes(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def header_of(data: bytes, payload_bytes_max: int) -> BatchHeader:
    del payload_bytes_max
    return batches.read_header(data)
