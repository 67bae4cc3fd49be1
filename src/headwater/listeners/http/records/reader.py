"""Records that a client of HTTP reads, decoded: from an offset on, with a wait if there are none yet."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.broker.reads.fetch import PartitionFetch, PartitionRead
from headwater.broker.reads.offset_lookup import Place
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.aborted_record_filter import AbortedRecordFilter
from headwater.protocol.batches.records import Record

# From here on records are decoded in a thread, so that the loop serves others.
_INLINE_BYTES_MAX = 128 * 1024


class Position(NamedTuple):
    """Where to read a partition from."""

    topic: str
    partition: int
    offset: int


class ReadRecords(NamedTuple):
    records: Sequence[Record]
    # Where to read on.
    next_offset: int
    high_watermark: int
    start_offset: int
    error: Refusal | None = None


def check_readable(broker: Broker, guard: Guard, topic: str) -> None:
    """Raises a Refusal, which does not tell a client without rights whether the topic exists."""
    if not guard.reads(topic):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to read topic '{topic}'")
    broker.topics.existing(topic)


async def read(
    broker: Broker,
    positions: Sequence[Position],
    *,
    records_max: int,
    bytes_max: int,
    wait_ms: int,
    bytes_min: int = 1,
    committed_only: bool = True,
) -> list[ReadRecords]:
    """Read partitions that the caller may read. Waits until they have `bytes_min` of records, at most `wait_ms`."""
    fetches = [PartitionFetch(broker.partition(topic, index), offset, bytes_max) for topic, index, offset in positions]
    fetch = broker.fetch(
        fetches,
        bytes_min=bytes_min if wait_ms else 0,
        bytes_max=bytes_max,
        wait_ms=wait_ms,
        committed_only=committed_only,
    )
    try:
        reads = await fetch.wait()
    except asyncio.CancelledError:
        fetch.abandon()
        raise
    found: list[ReadRecords] = []
    left = records_max
    for (_, _, offset), fetched, result in zip(positions, fetches, reads, strict=True):
        decoded = await _decoded(fetched, result, offset, left, broker.config.headwater_batch_decompressed_bytes_max)
        left -= len(decoded.records)
        found.append(decoded)
    return found


async def _decoded(
    fetched: PartitionFetch, read: PartitionRead, offset: int, records_max: int, bytes_max: int
) -> ReadRecords:
    if read.error:
        partition = fetched.partition
        message = f"{partition.id} has offsets {partition.start_offset} to {partition.high_watermark}, not {offset}"
        if read.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
            message = f"{partition.id} cannot be read: {read.error.name}"
        return ReadRecords((), offset, -1, -1, Refusal(read.error, message))
    if read.records is None or records_max <= 0:
        return ReadRecords((), offset, read.high_watermark, read.log_start_offset)
    data = read.records.read_resident() if len(read.records) <= _INLINE_BYTES_MAX else None
    # Compressed batches may be a hundred times as large as they look.
    if data is not None and not any(header.codec for header, _ in batches.iterate(data)):
        records, next_offset = _decode(data, read, offset, records_max, bytes_max)
    else:
        range_of_file = read.records
        records, next_offset = await asyncio.to_thread(
            lambda: _decode(range_of_file.read(), read, offset, records_max, bytes_max)
        )
    return ReadRecords(records, next_offset, read.high_watermark, read.log_start_offset)


def _decode(
    data: bytes, read: PartitionRead, offset: int, records_max: int, bytes_max: int
) -> tuple[list[Record], int]:
    aborted = AbortedRecordFilter(read.aborted or ())
    found: list[Record] = []
    for header, batch in batches.iterate(data):
        if aborted.hides(header, batch) or header.is_control or header.next_offset <= offset:
            offset = max(offset, header.next_offset)
            continue
        for record in batches.read_records(batch, header, bytes_max):
            if record.offset < offset:
                continue
            if len(found) == records_max:
                return found, record.offset
            found.append(record)
        offset = header.next_offset
    return found, offset


async def offset_of(broker: Broker, topic: str, partition: int, wanted: str, *, committed_only: bool = True) -> int:
    """The offset that `earliest`, `latest`, a number, or `time:` with milliseconds since 1970 stands for."""
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= 19:
        return int(wanted)
    if wanted in ("earliest", "latest"):
        place = Place.EARLIEST if wanted == "earliest" else Place.LATEST
        if place is Place.EARLIEST:
            return broker.online_partition(topic, partition).start_offset
        return (await broker.look_up_offset(topic, partition, place, committed_only=committed_only)).offset
    kind, _, number = wanted.partition(":")
    if kind == "time" and number.isascii() and number.isdigit() and len(number) <= 15:
        found = await broker.look_up_offset(topic, partition, int(number), committed_only=committed_only)
        if found.offset >= 0:
            return found.offset
        return (await broker.look_up_offset(topic, partition, Place.LATEST, committed_only=committed_only)).offset
    message = f"an offset is earliest, latest, a number, or time:MILLISECONDS, not {wanted[:40]!r}"
    raise Refusal(ErrorCode.INVALID_REQUEST, message)
