"""The records inside a batch: a varint-framed sequence, walked without trusting any length in it.

The same source also compiles to an extension: `records.pxd` gives it C types, and `COMPILED` says which of the two
runs. Law: the walk stays inside the payload for any input, and no memory is allocated for a size that is only claimed.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches import memory

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

COMPILED: Final = memory.compiled()

# Far beyond any real offset or time, and small enough that no sum of a base and a delta leaves 64 bits.
_BASE_MAX = 2**61
_DELTA_MAX = 2**62
_INT32_MAX = 2**31 - 1
_NO_TIMESTAMP = -1
_RECORD_SIZE_MIN = 7  # length, attributes, timestamp, offset, key, value and header count of one byte each

# The faults of a record, which a walk returns in place of the next position.
_CUT_OFF = -1
_VARINT_TOO_LONG = -2
_RECORD_LENGTH = -3
_TIMESTAMP_DELTA = -4
_OFFSET_DELTA = -5
_FIELD_LENGTH = -6
_HEADER_COUNT = -7
_HEADER_KEY = -8
_LENGTH_MISMATCH = -9

_FAULTS = {
    _CUT_OFF: "ends inside a number",
    _VARINT_TOO_LONG: "has a number with more bytes than its type",
    _RECORD_LENGTH: "has a length outside its payload",
    _TIMESTAMP_DELTA: "has a timestamp that is no time",
    _OFFSET_DELTA: "has an offset that is no position in a batch",
    _FIELD_LENGTH: "has a field that is longer than the record",
    _HEADER_COUNT: "has a header count that it cannot hold",
    _HEADER_KEY: "has a header without key",
    _LENGTH_MISMATCH: "has a length that its fields do not fill",
}
CUT_OFF: Final = _FAULTS[_CUT_OFF]
NO_KEY: Final = "has no key, and a compacted topic accepts none without"


class InvalidRecord(CorruptBatch):
    """Records that contradict their batch or topic. `index` is the first bad record, -1 if there is no single one;
    `refused` has all that are known, each with its fault."""

    def __init__(
        self,
        message: str,
        index: int = -1,
        code: ErrorCode = ErrorCode.INVALID_RECORD,
        refused: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(message if index < 0 else f"record {index} {message}")
        self.code = code
        self.index = index
        self.refused = refused


class Record:
    """One record. A value object: it is never changed."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value, self.headers))

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


def decode(
    payload: Buffer, count: int, base_offset: int, base_timestamp: int, log_append_time_ms: int | None = None
) -> list[Record]:
    """All records; `log_append_time_ms`, if given, is the timestamp of each."""
    _check_claims(len(payload), count, base_offset, base_timestamp)
    data = memory.borrow(payload)
    end = len(payload)
    position = 0
    append_time = _NO_TIMESTAMP if log_append_time_ms is None else log_append_time_ms
    is_append_time = log_append_time_ms is not None
    records: list[Record] = []
    for index in range(count):
        (
            position,
            timestamp_delta,
            offset_delta,
            key_at,
            key_length,
            value_at,
            value_length,
            headers_at,
            header_count,
        ) = _walk(data, position, end)
        if position < 0:
            raise InvalidRecord(_FAULTS[position], index)
        record = Record.__new__(Record)
        record.offset = base_offset + offset_delta
        record.timestamp = append_time if is_append_time else base_timestamp + timestamp_delta
        record.key = None if key_length < 0 else data[key_at : key_at + key_length]
        record.value = None if value_length < 0 else data[value_at : value_at + value_length]
        record.headers = () if header_count == 0 else _decode_headers(data, headers_at, position, header_count)
        records.append(record)
    _check_consumed(position, end)
    return records


def validate(
    payload: Buffer,
    count: int,
    *,
    keys_required: bool,
    sparse: bool = False,
    base_timestamp: int = 0,
    timestamp_min: int = -_BASE_MAX,
    timestamp_max: int = _BASE_MAX,
) -> int:
    """Checks every record without creating any. Returns the greatest timestamp, or -1 if no record has one.

    Offset deltas must be 0, 1, 2 and so on, as producers write them. With `sparse` they only have to rise, as
    compaction leaves them. A record without timestamp (-1) is within any limits.
    """
    return _validate(payload, count, keys_required, sparse, base_timestamp, timestamp_min, timestamp_max)


def _validate(
    payload: Buffer,
    count: int,
    keys_required: bool,
    sparse: bool,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
) -> int:
    _check_claims(len(payload), count, 0, base_timestamp)
    data = memory.borrow(payload)
    end = len(payload)
    position = 0
    expected = 0
    timestamp_found = _NO_TIMESTAMP
    for index in range(count):
        position, timestamp_delta, offset_delta, _, key_length, _, _, _, _ = _walk(data, position, end)
        if position < 0:
            raise InvalidRecord(_FAULTS[position], index)
        if offset_delta != expected and not (sparse and offset_delta > expected):
            raise InvalidRecord(f"has offset delta {offset_delta} where {expected} is next", index)
        if keys_required and key_length < 0:
            raise InvalidRecord(NO_KEY, index)
        timestamp = base_timestamp + timestamp_delta
        if timestamp != _NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max):
            message = f"has timestamp {timestamp}, outside [{timestamp_min}, {timestamp_max}]"
            raise InvalidRecord(message, index, ErrorCode.INVALID_TIMESTAMP)
        expected = offset_delta + 1
        timestamp_found = max(timestamp_found, timestamp)
    _check_consumed(position, end)
    return timestamp_found


def validate_part(
    payload: Buffer,
    index: int,
    count: int,
    is_last: bool,
    keys_required: bool,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
    refused: list[tuple[int, bool]],
) -> tuple[int, int, int]:
    """As `validate`, for a payload that comes in parts: walks the whole records in this part, the first of which is
    record `index` of `count`. Returns the position of the first record that is not whole, that record's index, and the
    greatest timestamp. Records that the topic does not take are added to `refused`, with whether it is for their
    timestamp."""
    _check_claims(0, 0, 0, base_timestamp)
    data = memory.borrow(payload)
    end = len(payload)
    position = 0
    timestamp_found = _NO_TIMESTAMP
    while index < count and position < end:
        if not is_last:
            length, body = _varint(data, position, end, 5)
            if body == _CUT_OFF or (body > 0 and length > end - body):
                break
        position, timestamp_delta, offset_delta, _, key_length, _, _, _, _ = _walk(data, position, end)
        if position < 0:
            raise InvalidRecord(_FAULTS[position], index)
        if offset_delta != index:
            raise InvalidRecord(f"has offset delta {offset_delta} where {index} is next", index)
        timestamp = base_timestamp + timestamp_delta
        if keys_required and key_length < 0:
            refused.append((index, False))
        elif timestamp != _NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max):
            refused.append((index, True))
        timestamp_found = max(timestamp_found, timestamp)
        index += 1
    return position, index, timestamp_found


def refuse(
    payload: Buffer,
    count: int,
    keys_required: bool,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
    refused_max: int,
) -> InvalidRecord | None:
    """For records that `validate` has refused: a refusal that names all that the topic does not take, up to
    `refused_max`. None if it takes those before the first that cannot be read."""
    _check_claims(len(payload), count, 0, base_timestamp)
    data = memory.borrow(payload)
    end = len(payload)
    position = 0
    code = ErrorCode.INVALID_RECORD
    out_of_range = f"has a timestamp outside [{timestamp_min}, {timestamp_max}]"
    refused: list[tuple[int, str]] = []
    for index in range(count):
        position, timestamp_delta, _, _, key_length, _, _, _, _ = _walk(data, position, end)
        if position < 0 or len(refused) == refused_max:
            break
        timestamp = base_timestamp + timestamp_delta
        if keys_required and key_length < 0:
            refused.append((index, NO_KEY))
        elif timestamp != _NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max):
            refused.append((index, out_of_range))
            code = ErrorCode.INVALID_TIMESTAMP
    if not refused:
        return None
    first, fault = refused[0]
    others = f" ({len(refused)} records are refused)" if len(refused) > 1 else ""
    return InvalidRecord(fault + others, first, code, refused)


def encode(records: Sequence[Record], base_offset: int, base_timestamp: int, reserve: int = 0) -> bytearray:
    """The payload, behind `reserve` free bytes for a batch header."""
    _check_claims(0, 0, base_offset, base_timestamp)
    # A list of our own: the records written in the second round are those measured in the first.
    measured = list(records)
    blocks: list[bytes] = []
    size = reserve
    for record in measured:
        _check_encodable(record.offset, record.timestamp, base_offset)
        block = _encode_headers(record.headers) if record.headers else b"\x00"
        blocks.append(block)
        body = _body_size(record, block, base_offset, base_timestamp)
        size += _varint_size(body) + body
    out = bytearray(size)
    target = out
    position = reserve
    for index in range(len(measured)):
        record = measured[index]
        block = blocks[index]
        position = _write_varint(target, position, _body_size(record, block, base_offset, base_timestamp))
        target[position] = 0
        position = _write_varint(target, position + 1, record.timestamp - base_timestamp)
        position = _write_varint(target, position, record.offset - base_offset)
        position = _write_field(target, position, record.key)
        position = _write_field(target, position, record.value)
        memory.paste(target, position, block)
        position += len(block)
    return out


def _walk(data: bytes, position: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """One record: the next position, the two deltas, then positions and sizes of key, value and headers."""
    length, position = _varint(data, position, end, 5)
    if position < 0:
        return _failed(position)
    if length < _RECORD_SIZE_MIN - 1 or length > end - position:
        return _failed(_RECORD_LENGTH)
    end = position + length
    # Reads pass a fault on, so that one check at the end finds the first.
    timestamp_delta, position = _varint(data, position + 1, end, 10)
    offset_delta, position = _varint(data, position, end, 5)
    key_length, key_at = _length(data, position, end)
    value_length, value_at = _length(data, key_at + max(key_length, 0), end)
    header_count, headers_at = _varint(data, value_at + max(value_length, 0), end, 5)
    if headers_at < 0:
        return _failed(headers_at)
    if timestamp_delta < -_DELTA_MAX or timestamp_delta > _DELTA_MAX:
        return _failed(_TIMESTAMP_DELTA)
    if offset_delta < 0 or offset_delta > _INT32_MAX:
        return _failed(_OFFSET_DELTA)
    position = _skip_headers(data, headers_at, end, header_count)
    if position < 0:
        return _failed(position)
    if position != end:
        return _failed(_LENGTH_MISMATCH)
    return position, timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, headers_at, header_count


def _failed(fault: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    return fault, 0, 0, 0, 0, 0, 0, 0, 0


def _varint(data: bytes, position: int, end: int, width: int) -> tuple[int, int]:
    """A zigzag number of at most `width` bytes and the position after it. A fault as `position` is passed on."""
    if position < 0:
        return 0, position
    value = 0
    shift = 0
    while position < end:
        byte = data[position]
        position += 1
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            value |= byte << shift
            return (value >> 1) ^ -(value & 1), position
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift == 7 * width:
            break
    else:
        return 0, _CUT_OFF
    return 0, _VARINT_TOO_LONG


def _length(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The length of a field that fits, negative for null, and the position of its bytes."""
    length, position = _varint(data, position, end, 5)
    if length > end - position:
        return 0, _FIELD_LENGTH
    return length, position


def _skip_headers(data: bytes, position: int, end: int, count: int) -> int:
    # A header takes at least two bytes: a larger count is refused before it costs a loop.
    if count < 0 or count > (end - position) // 2:
        return _HEADER_COUNT
    for _ in range(count):
        length, position = _length(data, position, end)
        if length < 0:
            return _HEADER_KEY
        length, position = _length(data, position + length, end)
        if position < 0:
            return position
        position += max(length, 0)
    return position


def _decode_headers(data: bytes, position: int, end: int, count: int) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = _length(data, position, end)
        # Kafka stores any bytes as a header key, and decodes them with replacements for invalid UTF-8.
        key = data[position : position + length].decode("utf-8", "replace")
        length, position = _length(data, position + length, end)
        headers.append((key, None if length < 0 else data[position : position + length]))
        position += max(length, 0)
    return tuple(headers)


def _encode_headers(headers: Headers) -> bytes:
    fields: list[bytes | None] = []
    for key, value in headers:
        fields.append(key.encode())
        fields.append(value)
    size = _varint_size(len(headers))
    for field in fields:
        size += _field_size(field)
    out = bytearray(size)
    target = out
    position = _write_varint(target, 0, len(headers))
    for field in fields:
        position = _write_field(target, position, field)
    return bytes(out)


def _body_size(record: Record, block: bytes, base_offset: int, base_timestamp: int) -> int:
    return (
        1
        + _varint_size(record.timestamp - base_timestamp)
        + _varint_size(record.offset - base_offset)
        + _field_size(record.key)
        + _field_size(record.value)
        + len(block)
    )


def _zigzag(value: int) -> int:
    magnitude = value if value >= 0 else ~value
    return (magnitude << 1) | (value < 0)


def _varint_size(value: int) -> int:
    zigzag = _zigzag(value)
    size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


def _write_varint(target: bytearray, position: int, value: int) -> int:
    zigzag = _zigzag(value)
    while zigzag > 0x7F:
        target[position] = zigzag & 0x7F | 0x80
        zigzag >>= 7
        position += 1
    target[position] = zigzag
    return position + 1


def _field_size(field: bytes | None) -> int:
    return 1 if field is None else _varint_size(len(field)) + len(field)


def _write_field(target: bytearray, position: int, field: bytes | None) -> int:
    if field is None:
        return _write_varint(target, position, -1)
    position = _write_varint(target, position, len(field))
    memory.paste(target, position, field)
    return position + len(field)


def _check_claims(size: int, count: int, base_offset: int, base_timestamp: int) -> None:
    if count < 0 or count > size // _RECORD_SIZE_MIN:
        raise InvalidRecord(f"{size} bytes cannot hold {count} records")
    if base_offset < -_BASE_MAX or base_offset > _BASE_MAX:
        raise InvalidRecord(f"base offset {base_offset} is no position in a log")
    if base_timestamp < -_BASE_MAX or base_timestamp > _BASE_MAX:
        raise InvalidRecord(f"base timestamp {base_timestamp} is no time")


def _check_encodable(offset: int, timestamp: int, base_offset: int) -> None:
    if timestamp < -_BASE_MAX or timestamp > _BASE_MAX:
        raise InvalidRecord(f"timestamp {timestamp} is no time", code=ErrorCode.INVALID_TIMESTAMP)
    if offset < base_offset or offset - base_offset > _INT32_MAX:
        raise InvalidRecord(f"offset {offset} has no place in a batch from {base_offset}")


def _check_consumed(position: int, end: int) -> None:
    if position != end:
        raise InvalidRecord(f"{end - position} bytes remain after the last record")
