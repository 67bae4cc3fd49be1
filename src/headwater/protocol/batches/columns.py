"""The records of many batches as columns in Arrow's layout, without an object per record.

Compiles like `records`: `columns.pxd` gives the C types. Law: the walk stays inside the payload for any input, memory
is bounded by the bytes received, and a payload that is refused leaves no trace.
"""

from typing import Final, NamedTuple, TypeAlias

from headwater.protocol import buffer_pool
from headwater.protocol.batches import buffers, memory, records

Buffer: TypeAlias = bytes | bytearray | memoryview

COMPILED: Final = memory.compiled()
# Arrow's offsets into data are 32 bits wide.
BYTES_MAX: Final = 2**31 - 1

_BASE_MAX = 2**61
_DELTA_MAX = 2**62
_INT32_MAX = 2**31 - 1
_RECORD_SIZE_MIN = 7
_INT32_SIZE = 4
_INT64_SIZE = 8
_ROOM_MIN = 1024
_MICROSECONDS = 1000
_MILLISECONDS_MAX = (2**63 - 1) // 1000
_BAD = -1  # in place of a position: the bytes there are no record


class BytesColumn(NamedTuple):
    """Byte strings: row n is data[offsets[start + n] : offsets[start + n + 1]], null where its validity bit is 0."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    start: int = 0


class LongColumn(NamedTuple):
    """64-bit numbers. Times are microseconds since 1970."""

    validity: Buffer | None
    data: Buffer
    start: int = 0


class HeadersColumn(NamedTuple):
    """The headers of row n are keys and values from offsets[start + n] up to the next offset; null if it has none."""

    validity: Buffer | None
    offsets: Buffer
    keys: BytesColumn
    values: BytesColumn
    start: int = 0


class Columns(NamedTuple):
    """Rows to read or to write. A column that was not asked for, or does not exist, is None."""

    row_count: int
    key: BytesColumn | None = None
    value: BytesColumn | None = None
    offset: LongColumn | None = None
    timestamp: LongColumn | None = None
    headers: HeadersColumn | None = None


class _BytesBuilder:
    """A growing column of byte strings, or of the lengths of lists. Its room doubles when it runs out."""

    def __init__(self) -> None:
        self.reused = buffer_pool.BufferPool()
        self.data_room = 0
        self.clear()

    def clear(self) -> None:
        if self.data_room > buffer_pool.BYTES_MAX:
            self.reused = buffer_pool.BufferPool()
            self.data_room = 0
        self.data = self.reused.get(0)
        # The next column will need about as much room as the last.
        if self.data_room > len(self.data):
            buffers.resize(self.data, self.data_room)
        self.data_room = len(self.data)
        self.offsets = bytearray(_INT32_SIZE)
        self.validity = bytearray()
        self.row_room = 0
        self.row_count = self.size = self.null_count = 0
        self.mark()

    def mark(self) -> None:
        self.marked_row_count = self.row_count
        self.marked_size = self.size
        self.marked_null_count = self.null_count

    def rewind(self) -> None:
        """Removes the rows since `mark`."""
        for row in range(self.marked_row_count, self.row_count):
            self.validity[row >> 3] |= 1 << (row & 7)
        self.row_count = self.marked_row_count
        self.size = self.marked_size
        self.null_count = self.marked_null_count

    def push(self, source: bytes, start: int, length: int) -> None:
        """Adds bytes; a negative length adds null."""
        if length < 0:
            self._push_null()
        else:
            if self.size + length > self.data_room:
                self.data_room = max(self.size + length, 2 * self.data_room, _ROOM_MIN)
                buffers.resize(self.data, self.data_room)
            buffers.copy(self.data, self.size, source, start, length)
            self._push_size(length)

    def push_list(self, length: int) -> None:
        """An empty list becomes null, as in Spark's Kafka source for a record without headers."""
        if length == 0:
            self._push_null()
        else:
            self._push_size(length)

    def _push_null(self) -> None:
        self._push_size(0)
        row = self.row_count - 1
        self.validity[row >> 3] &= ~(1 << (row & 7))
        self.null_count += 1

    def _push_size(self, length: int) -> None:
        if self.row_count == self.row_room:
            self.row_room = max(2 * self.row_room, _ROOM_MIN)
            buffers.resize(self.offsets, _INT32_SIZE * (self.row_room + 1))
            # All rows are valid until one is null, so that columns without nulls cost nothing.
            self.validity.extend(b"\xff" * (self.row_room // 8 - len(self.validity)))
        self.size += length
        self.row_count += 1
        buffers.put_int32(self.offsets, self.row_count, self.size)

    def byte_count(self) -> int:
        return self.size + _INT32_SIZE * self.row_count

    def take_validity(self) -> Buffer | None:
        if self.null_count == 0:
            return None
        buffers.resize(self.validity, (self.row_count + 7) // 8)
        return self.validity

    def take_offsets(self) -> Buffer:
        buffers.resize(self.offsets, _INT32_SIZE * (self.row_count + 1))
        return self.offsets

    def take(self) -> BytesColumn:
        column = BytesColumn(self.take_validity(), self.take_offsets(), memoryview(self.data)[: self.size])
        self.clear()
        return column


class ColumnBuilder:
    """Collects records from the batches of one partition. Builds only the columns that are asked for."""

    def __init__(
        self,
        *,
        key: bool = False,
        value: bool = False,
        offset: bool = False,
        timestamp: bool = False,
        headers: bool = False,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._has_key = key
        self._has_value = value
        self._has_offset = offset
        self._has_timestamp = timestamp
        self._has_headers = headers
        self._bytes_max = bytes_max
        self._keys = _BytesBuilder()
        self._values = _BytesBuilder()
        self._lists = _BytesBuilder()
        self._header_keys = _BytesBuilder()
        self._header_values = _BytesBuilder()
        self._clear()

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def byte_count(self) -> int:
        """The size of the columns so far: callers take them long before they reach `bytes_max`."""
        number_columns = self._has_offset + self._has_timestamp
        return (
            self._keys.byte_count()
            + self._values.byte_count()
            + self._lists.byte_count()
            + self._header_keys.byte_count()
            + self._header_values.byte_count()
            + _INT64_SIZE * number_columns * self._row_count
        )

    def append(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time_ms: int | None,
        first_offset: int,
        end_offset: int,
    ) -> int:
        """Adds the records from `first_offset` up to `end_offset` and returns their number.

        `append_time_ms`, if given, is the timestamp of each. Payloads that `records.decode` refuses are refused with
        the same error. A time that microseconds cannot express becomes the latest, or earliest, that they can.
        """
        if self._received + len(payload) > self._bytes_max:
            raise OverflowError(f"columns of more than {self._bytes_max} bytes: take those that are there first")
        is_append_time = append_time_ms is not None
        append_time = _in_microseconds(append_time_ms) if append_time_ms is not None else 0
        row_count = self._row_count
        self._mark()
        try:
            is_sound = (
                0 <= count <= len(payload) // _RECORD_SIZE_MIN
                and -_BASE_MAX <= base_offset <= _BASE_MAX
                and -_BASE_MAX <= base_timestamp <= _BASE_MAX
                and self._fill(
                    payload, count, base_offset, base_timestamp, is_append_time, append_time, first_offset, end_offset
                )
            )
            if not is_sound:
                # The walk here only tells good from bad. The walk that creates records says what is wrong.
                records.decode(payload, count, base_offset, base_timestamp)
                raise AssertionError("records and columns disagree about a payload")
        except BaseException:
            self._rewind(row_count)
            raise
        added = self._row_count - row_count
        if added > 0:
            self._received += len(payload)
        return added

    def take(self) -> Columns:
        """The columns so far. The builder is empty again and does not touch them any more."""
        headers = None
        if self._has_headers:
            lists = self._lists
            headers = HeadersColumn(
                lists.take_validity(), lists.take_offsets(), self._header_keys.take(), self._header_values.take()
            )
            lists.clear()
        buffers.resize(self._offsets, _INT64_SIZE * self._row_count if self._has_offset else 0)
        buffers.resize(self._timestamps, _INT64_SIZE * self._row_count if self._has_timestamp else 0)
        columns = Columns(
            row_count=self._row_count,
            key=self._keys.take() if self._has_key else None,
            value=self._values.take() if self._has_value else None,
            offset=LongColumn(None, self._offsets) if self._has_offset else None,
            timestamp=LongColumn(None, self._timestamps) if self._has_timestamp else None,
            headers=headers,
        )
        self._clear()
        return columns

    def _clear(self) -> None:
        self._offsets = bytearray()
        self._timestamps = bytearray()
        self._number_room = self._row_count = self._received = 0

    def _mark(self) -> None:
        for builder in (self._keys, self._values, self._lists, self._header_keys, self._header_values):
            builder.mark()

    def _rewind(self, row_count: int) -> None:
        for builder in (self._keys, self._values, self._lists, self._header_keys, self._header_values):
            builder.rewind()
        self._row_count = row_count

    def _reserve(self, row_count: int) -> None:
        if self._row_count + row_count > self._number_room:
            self._number_room = max(self._row_count + row_count, 2 * self._number_room)
            if self._has_offset:
                buffers.resize(self._offsets, _INT64_SIZE * self._number_room)
            if self._has_timestamp:
                buffers.resize(self._timestamps, _INT64_SIZE * self._number_room)

    def _fill(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        is_append_time: bool,
        append_time: int,
        first_offset: int,
        end_offset: int,
    ) -> bool:
        """False: the payload is bad, and some rows may have been added."""
        size = len(payload)
        self._reserve(count)
        data = memory.borrow(payload)
        position = 0
        for _ in range(count):
            length, position = _varint(data, position, size, 5)
            if position < 0 or length < _RECORD_SIZE_MIN - 1 or length > size - position:
                return False
            end = position + length
            # Reads pass a bad position on, so that one check at the end is enough.
            timestamp_delta, position = _varint(data, position + 1, end, 10)
            offset_delta, position = _varint(data, position, end, 5)
            key_length, key_at = _length(data, position, end)
            value_length, value_at = _length(data, key_at + max(key_length, 0), end)
            header_count, headers_at = _varint(data, value_at + max(value_length, 0), end, 5)
            if (
                headers_at < 0
                or not -_DELTA_MAX <= timestamp_delta <= _DELTA_MAX
                or not 0 <= offset_delta <= _INT32_MAX
            ):
                return False
            if header_count != 0:
                if _skip_headers(data, headers_at, end, header_count) != end:
                    return False
            elif headers_at != end:
                return False
            position = end
            offset = base_offset + offset_delta
            if offset < first_offset or offset >= end_offset:
                continue
            if self._has_key:
                self._keys.push(data, key_at, key_length)
            if self._has_value:
                self._values.push(data, value_at, value_length)
            if self._has_offset:
                buffers.put_int64(self._offsets, self._row_count, offset)
            if self._has_timestamp:
                timestamp = append_time if is_append_time else _in_microseconds(base_timestamp + timestamp_delta)
                buffers.put_int64(self._timestamps, self._row_count, timestamp)
            if self._has_headers:
                self._lists.push_list(header_count)
                if header_count > 0:
                    self._push_headers(data, headers_at, end, header_count)
            self._row_count += 1
        return position == size

    def _push_headers(self, data: bytes, position: int, end: int, count: int) -> None:
        keys, values = self._header_keys, self._header_values
        for _ in range(count):
            length, position = _length(data, position, end)
            if _is_ascii(data, position, length):
                keys.push(data, position, length)
            else:
                # Kafka decodes header keys with replacements for invalid UTF-8, which are longer.
                shown = data[position : position + length].decode("utf-8", "replace").encode()
                if keys.size + len(shown) > self._bytes_max:
                    raise OverflowError(f"header keys of more than {self._bytes_max} bytes")
                keys.push(memory.borrow(shown), 0, len(shown))
            length, position = _length(data, position + length, end)
            values.push(data, position, length)
            position += max(length, 0)


def _in_microseconds(milliseconds: int) -> int:
    return max(min(milliseconds, _MILLISECONDS_MAX), -_MILLISECONDS_MAX) * _MICROSECONDS


def _varint(data: bytes, position: int, end: int, width: int) -> tuple[int, int]:
    """A zigzag number of at most `width` bytes and the position after it. A bad position is passed on."""
    if position < 0:
        return 0, _BAD
    value = 0
    shift = 0
    while position < end and shift < 7 * width:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The tenth byte has room for one bit.
            if shift == 63 and byte > 1:
                break
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    return 0, _BAD


def _length(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The length of a field that fits, negative for null, and the position of its bytes."""
    length, position = _varint(data, position, end, 5)
    if length > end - position:
        return 0, _BAD
    return length, position


def _skip_headers(data: bytes, position: int, end: int, count: int) -> int:
    # A header takes at least two bytes: a larger count is refused before it costs a loop.
    if count < 0 or count > (end - position) // 2:
        return _BAD
    for _ in range(count):
        length, position = _length(data, position, end)
        if length < 0 or position < 0:
            return _BAD
        length, position = _length(data, position + length, end)
        if position < 0:
            return _BAD
        position += max(length, 0)
    return position


def _is_ascii(data: bytes, position: int, length: int) -> bool:
    end = position + length
    while position < end and data[position] <= 0x7F:
        position += 1
    return position == end
