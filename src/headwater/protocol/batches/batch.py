"""Record batches of format v2: header, checksum, and the changes that a broker makes without decoding records.

Law: base offset and leader epoch lie before the range of the checksum, so an append patches them and copies nothing.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches import compression, records
from headwater.protocol.batches.compression import Codec, UnsupportedCodec
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.batches.records import Record

Buffer: TypeAlias = bytes | bytearray | memoryview
_NewHeader: TypeAlias = "Callable[[type[BatchHeader], Iterable[Any]], BatchHeader]"

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and batch length, which the batch length does not count
MAGIC: Final = 2

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
# Producer ids from here on are the broker's own, and no client may use them.
BROKER_PRODUCER_IDS: Final = 2**62

_LENGTH_POSITION = 8
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
_RECORD_COUNT_POSITION = 57
_INT32_MAX = 2**31 - 1

_CODEC_MASK = 0x07
_CODEC_MAX = int(Codec.ZSTD)
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40
# Attributes that no client may set.
_BROKER_ATTRIBUTES = _LOG_APPEND_TIME | _CONTROL

_new_tuple: "_NewHeader" = tuple.__new__  # pyright: ignore[reportUnknownVariableType]
_HEADER = struct.Struct(">qiibIhiqqqhii")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

_MARKER_ABORT, _MARKER_COMMIT = 0, 1


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones. It takes the place of the base timestamp."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        # Sequences are the non-negative 32-bit integers: 0 follows 2^31-1.
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX


class Marker(NamedTuple):
    """The control record that ends a producer's transaction on one partition."""

    committed: bool
    coordinator_epoch: int


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Checks only that there are 61 bytes; `verify` checks the rest."""
    if len(buffer) - position < HEADER_SIZE:
        _refuse_old_format(buffer, position)
        raise InvalidRecord(f"{len(buffer) - position} bytes are too few for a batch header of {HEADER_SIZE}")
    # As _make, which would also count the fields.
    return _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))


def verify(batch: Buffer, header: BatchHeader) -> None:
    """Checks that `batch` is exactly one whole, undamaged batch with this header."""
    if header.magic != MAGIC:
        _refuse_old_format(batch, 0)
        raise CorruptBatch(f"magic {header.magic} is no record batch's")
    size = header.batch_length + LOG_OVERHEAD
    if size < HEADER_SIZE:
        raise _too_small(header)
    if size != len(batch):
        raise InvalidRecord(f"batch claims {size} bytes, but {len(batch)} were given for exactly one batch")
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:])
    if crc != header.crc:
        raise CorruptBatch(f"checksum is {crc:#010x}, the header says {header.crc:#010x}")


def verify_produced(batch: Buffer, header: BatchHeader) -> None:
    """As `verify`; also refuses what a client's header may not claim, with Kafka's codes. Records are not read."""
    verify(batch, header)
    if header.base_offset != 0:
        raise InvalidRecord(f"base offset of a produced batch is {header.base_offset}, not 0")
    count = header.record_count
    if count <= 0:
        raise InvalidRecord(f"batch has an invalid record count {count}")
    if count != header.last_offset_delta + 1:
        raise InvalidRecord(f"batch of {count} records claims a last offset delta of {header.last_offset_delta}")
    attributes = header.attributes
    if attributes & _CODEC_MASK > _CODEC_MAX:
        raise UnsupportedCodec(header.codec)
    if attributes & _BROKER_ATTRIBUTES:
        if header.is_control:
            raise InvalidRecord("clients are not allowed to write control records")
        raise InvalidRecord("a producer may not set the timestamp type LogAppendTime", code=ErrorCode.INVALID_TIMESTAMP)
    if header.base_sequence < 0:
        if header.has_producer_id:
            raise InvalidRecord(f"producer {header.producer_id} sent an invalid sequence number {header.base_sequence}")
    elif header.producer_id >= BROKER_PRODUCER_IDS:
        raise InvalidRecord(f"producer id {header.producer_id} is the broker's own")


def patch(batch: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Give a batch its place in the log. Returns its header from now on; the checksum covers neither number."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, LOG_OVERHEAD, leader_epoch)
    # The same as _replace, in a fraction of the time.
    return _new_tuple(BatchHeader, (base_offset, header.batch_length, leader_epoch, *header[3:]))


def set_log_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Makes `timestamp_ms` the timestamp of every record: readers then take it from the header."""
    attributes: int = _INT16.unpack_from(batch, _ATTRIBUTES_POSITION)[0]
    _INT16.pack_into(batch, _ATTRIBUTES_POSITION, attributes | _LOG_APPEND_TIME)
    set_max_timestamp(batch, timestamp_ms)


def set_max_timestamp(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Corrects a header whose maximum is not that of its records: lookups by time rely on it."""
    _INT64.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    _seal(batch)


def iterate(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Whole batches in order, unverified. Stops at a partial batch: a fetch may cut the last one off anywhere."""
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        if header.size < HEADER_SIZE:
            # A negative or zero length would walk backwards or for ever.
            raise _too_small(header)
        if header.size > end - position:
            return
        yield header, view[position : position + header.size]
        position += header.size


def payload(batch: Buffer, header: BatchHeader, bytes_max: int) -> Buffer:
    """The bytes of the records, decompressed if need be. More than `bytes_max` of them are refused."""
    stored = memoryview(batch)[HEADER_SIZE:]
    return compression.decompress(header.codec, stored, bytes_max) if header.codec else stored


def read_records(batch: Buffer, header: BatchHeader, bytes_max: int) -> list[Record]:
    return records.decode(
        payload(batch, header, bytes_max),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )


def build(
    batch_records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """One whole batch. Records keep their offsets, which may have gaps; `last_offset_delta` may lie beyond the last.

    Compaction leaves batches without records, which keep a producer's last sequence. They are not compressed, and
    `max_timestamp` is the only time in them.
    """
    base_timestamp = batch_records[0].timestamp if batch_records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    if log_append_time_ms is not None:
        max_timestamp = log_append_time_ms
    elif max_timestamp is None:
        max_timestamp = max((record.timestamp for record in batch_records), default=NO_TIMESTAMP)
    if last_offset_delta is None:
        last_offset_delta = batch_records[-1].offset - base_offset if batch_records else 0
    batch = records.encode(batch_records, base_offset, base_timestamp, HEADER_SIZE)
    if not batch_records:
        codec = Codec.NONE
    if codec:
        _compress(batch, codec, level)
    attributes = (
        codec
        | (_LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (_TRANSACTIONAL if transactional else 0)
        | (_CONTROL if control else 0)
        | (_DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(batch_records),
    )
    _seal(batch)
    return batch


def complete(
    batch: bytearray,
    *,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> None:
    """Fills in the header, in place, before records that are encoded already behind room for it."""
    if codec:
        _compress(batch, codec, level)
    _HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        codec | (_TRANSACTIONAL if transactional else 0),
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    _seal(batch)


def with_payload(batch: Buffer, stored: Buffer, codec: int) -> bytearray:
    """The same batch with another codec: `stored` has its records in that codec."""
    rebuilt = bytearray(batch[:HEADER_SIZE])
    rebuilt += stored
    attributes: int = _INT16.unpack_from(rebuilt, _ATTRIBUTES_POSITION)[0]
    _INT16.pack_into(rebuilt, _ATTRIBUTES_POSITION, attributes & ~_CODEC_MASK | codec)
    _INT32.pack_into(rebuilt, _LENGTH_POSITION, len(rebuilt) - LOG_OVERHEAD)
    _seal(rebuilt)
    return rebuilt


def with_records(batch: Buffer, stored: Buffer, codec: int, record_count: int, max_timestamp: int) -> bytearray:
    """The same batch with fewer of its records, which keep their offsets: the batch keeps its range."""
    rebuilt = bytearray(batch[:HEADER_SIZE])
    _INT32.pack_into(rebuilt, _RECORD_COUNT_POSITION, record_count)
    _INT64.pack_into(rebuilt, _MAX_TIMESTAMP_POSITION, max_timestamp)
    return with_payload(rebuilt, stored, codec)


def build_marker(
    marker: Marker,
    *,
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that ends a transaction: one record, no sequence."""
    record = Record(
        base_offset,
        timestamp_ms,
        _MARKER_KEY.pack(0, _MARKER_COMMIT if marker.committed else _MARKER_ABORT),
        _MARKER_VALUE.pack(0, marker.coordinator_epoch),
    )
    return build(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(record: Record) -> Marker | None:
    """None for a control record that does not end a transaction; newer versions only append fields to these."""
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        raise InvalidRecord("control record has no key that names its type")
    version, marker_type = _MARKER_KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"control record key has an invalid version {version}")
    if marker_type not in (_MARKER_ABORT, _MARKER_COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise InvalidRecord("end of transaction has no value that names its coordinator's epoch")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise InvalidRecord(f"end of transaction has an invalid version {version}")
    return Marker(marker_type == _MARKER_COMMIT, coordinator_epoch)


def _refuse_old_format(buffer: Buffer, position: int) -> None:
    # Messages of older formats are valid but no longer accepted, and may be shorter than a header of v2.
    magic_at = position + _MAGIC_POSITION
    if magic_at < len(buffer) and buffer[magic_at] < MAGIC:
        raise InvalidRecord(f"message format {buffer[magic_at]} is not accepted, only {MAGIC}")


def _too_small(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"batch claims {header.size} bytes, fewer than its header of {HEADER_SIZE}")


def _compress(batch: bytearray, codec: int, level: int | None) -> None:
    with memoryview(batch) as view, view[HEADER_SIZE:] as uncompressed:
        compressed = compression.compress(codec, uncompressed, level)
    batch[HEADER_SIZE:] = compressed


def _seal(batch: bytearray | memoryview) -> None:
    with memoryview(batch) as view, view[_ATTRIBUTES_POSITION:] as covered:
        _UINT32.pack_into(batch, _CRC_POSITION, crc32c(covered))
