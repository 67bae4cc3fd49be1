"""The checks of a large batch, to be run in a thread: decompression, every record, and the topic's own compression.

Law: the event loop gets its turn. The batch is worked off in parts of `compression.PART_BYTES`. Decompression,
compression and checksums release the GIL, and the walk over the records of one part keeps it for about 0.3 ms, unless a
record is larger than a part. Memory is bounded by parts too, and by the largest record.
"""

# Lazy annotations: the types of late imports stand in them.
from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headwater.broker.writes import intake
from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, records
from headwater.protocol.batches.batch import NO_TIMESTAMP, BatchHeader, Buffer
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.invalid_record import InvalidRecord, refusal_of_each

if TYPE_CHECKING:
    from headwater.broker.schedule.split import Splitter

# Long enough for a thread that waits for the GIL to get it. `sleep(0)` is not: this thread would take it again first.
_PAUSE_S = 50e-6
# The libraries of these release the GIL at each part, so that the event loop gets its turn anyway. A pause every few
# parts leaves a core to other clients, too; a batch of so many parts that it takes long pauses after each.
_RELEASE_THE_GIL = frozenset({Codec.GZIP, Codec.LZ4, Codec.ZSTD})
_PARTS_BETWEEN_PAUSES = 4
_PARTS_MANY = 128


def check(
    produced: memoryview,
    topic: TopicConfig,
    broker: BrokerConfig,
    now_ms: int,
    schemas: intake.RecordCheck | None = None,
) -> memoryview:
    """For a batch whose header and checksum `intake.admit` has accepted. Gives the batch to append, as `admit` does,
    but for the time of a topic with LogAppendTime, which `intake.admit_checked` sets. Raises `intake.DelayedBatch` as
    `admit` does."""
    header = batches.read_header(produced)
    bytes_max = broker.headwater_batch_decompressed_bytes_max
    parts = compression.decompress_in_parts(header.codec, produced[batches.HEADER_SIZE :], bytes_max)
    earliest, latest = intake.timestamp_limits(topic, now_ms)
    walk = None
    if topic.reads_records:
        walk = _RecordWalk(header, topic, earliest, latest, now_ms, schemas)
        parts = walk.over(parts)
    parts = _with_pauses(parts, _PARTS_BETWEEN_PAUSES if header.codec in _RELEASE_THE_GIL else 1)
    codec = topic.stored_codec
    stored = None
    if codec is not None and codec != header.codec:
        stored = _recompressed(parts, codec, topic)
    else:
        for _ in parts:
            pass
    if walk is None:
        intake.check_timestamps(header, earliest, latest)
    elif walk.timestamp_found != header.max_timestamp:
        batches.set_max_timestamp(produced, walk.timestamp_found)
    intake.check_record_count(header)
    if walk is not None and walk.splitter is not None:
        walk.splitter.split(produced)
    if stored is None or codec is None:
        return produced
    return memoryview(batches.with_payload(produced, stored, codec))


def _with_pauses(parts: Iterator[Buffer], interval: int) -> Iterator[Buffer]:
    for number, part in enumerate(parts, 1):
        yield part
        if number % interval == 0 or number > _PARTS_MANY:
            time.sleep(_PAUSE_S)


def _recompressed(parts: Iterator[Buffer], codec: int, topic: TopicConfig) -> bytes:
    stored: list[bytes] = []
    size = batches.HEADER_SIZE
    for piece in _compressed(parts, codec, topic.compression_level):
        stored.append(piece)
        size += len(piece)
        if size > topic.max_message_bytes:
            raise intake.too_large(size, topic)
    return b"".join(stored)


def _compressed(parts: Iterator[Buffer], codec: int, level: int | None) -> Iterator[bytes]:
    if codec == Codec.NONE:
        yield from map(bytes, parts)
        return
    compressor = compression.compressor(codec, level)
    for part in parts:
        yield compressor.compress(part)
    yield compressor.flush()


class _RecordWalk:
    """Checks the records in a payload that comes in parts."""

    def __init__(
        self,
        header: BatchHeader,
        topic: TopicConfig,
        earliest: int,
        latest: int,
        now_ms: int,
        schemas: intake.RecordCheck | None,
    ) -> None:
        self._header = header
        self._topic = topic
        self._schemas = schemas
        self._keys_required = topic.is_compacted
        self._limits = earliest, latest
        # The index of the next record, and what has come of it.
        self._index = 0
        self._begun = bytearray()
        self._refused: list[tuple[int, bool]] = []
        # Records that ask the broker for something impossible, or that do not follow their schemas.
        self._at_fault: list[tuple[int, str]] = []
        self.timestamp_found = NO_TIMESTAMP
        self.splitter: Splitter | None = None
        if topic.headwater_delay_enable:
            # Late import: few topics take delayed records.
            from headwater.broker.schedule.split import Splitter  # noqa: PLC0415

            self.splitter = Splitter(header, topic, now_ms)

    def over(self, parts: Iterator[Buffer]) -> Iterator[Buffer]:
        """The same parts, each after it was checked."""
        try:
            for part in parts:
                self._walk(part)
                yield part
            self._end()
        except InvalidRecord as refusal:
            if refusal.index < 0 or not self._refused:
                raise
            # As `intake` does: of the records that can be read, all that the topic does not take are named.
        if self._refused:
            raise self._refusal()

    def _walk(self, part: Buffer, *, is_last: bool = False) -> None:
        begun = self._begun
        if begun:
            begun += part
        first_index = self._index
        position, self._index, timestamp_found = records.validate_part(
            begun or part,
            self._index,
            self._header.record_count,
            is_last,
            self._keys_required,
            self._header.base_timestamp,
            *self._limits,
            self._refused,
        )
        self.timestamp_found = max(self.timestamp_found, timestamp_found)
        if self._topic.reads_contents:
            self._read_contents(begun or part, position, first_index)
        if begun:
            del begun[:position]
        else:
            begun += memoryview(part)[position:]
        if begun and self._index == self._header.record_count:
            raise InvalidRecord("bytes remain after the last record")
        if len(self._refused) >= intake.refused_max(self._header):
            raise self._refusal()

    def _end(self) -> None:
        if self._begun:
            self._walk(b"", is_last=True)
        if self._index < self._header.record_count:
            raise InvalidRecord(records.CUT_OFF, self._index)
        if self._at_fault and not self._refused:
            raise refusal_of_each(self._at_fault)

    def _read_contents(self, part: Buffer, end: int, first_index: int) -> None:
        """Of the whole records in the part, which end at `end`."""
        left = intake.refused_max(self._header) - len(self._at_fault)
        count = self._index - first_index
        with memoryview(part)[:end] as whole:
            self._at_fault += intake.content_faults(whole, count, self._topic, self._schemas, left, first_index)
            if self.splitter is not None and not self._at_fault:
                self.splitter.take(whole, count)

    def _refusal(self) -> InvalidRecord:
        earliest, latest = self._limits
        out_of_range = f"has a timestamp outside [{earliest}, {latest}]"
        refused = [
            (index, out_of_range if is_for_time else records.NO_KEY)
            for index, is_for_time in self._refused[: intake.refused_max(self._header)]
        ]
        code = ErrorCode.INVALID_TIMESTAMP if any(each[1] for each in self._refused) else ErrorCode.INVALID_RECORD
        first, fault = refused[0]
        others = f" ({len(refused)} records are refused)" if len(refused) > 1 else ""
        return InvalidRecord(fault + others, first, code, refused)
