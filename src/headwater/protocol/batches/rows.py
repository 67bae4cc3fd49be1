"""Rows in Arrow's layout become records of a batch: assigns rows to partitions, and encodes many rows at once.

The inverse of `columns`, and compiled like it. Law: every offset and index in the buffers is checked before it is
followed.
"""

from typing import Final, NamedTuple

from headwater.protocol.batches import batch, buffers, memory
from headwater.protocol.batches.columns import Buffer, BytesColumn, Columns, LongColumn

COMPILED: Final = memory.compiled()
PARTITION_COUNT_MAX: Final = 2**24

_INT32_SIZE = 4
_INT64_SIZE = 8
_MICROSECONDS = 1000
_TIMESTAMP_MAX = 2**61
_ROW_COUNT_MAX = 2**31 - 1  # row numbers in a selection have 32 bits
_ROOM_MIN = 4096
_NULL = -1
_WORD = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


class EncodedRows(NamedTuple):
    """Records with offsets from 0, behind room for a batch header, which `batch.complete` fills in."""

    batch: bytearray
    row_count: int
    base_timestamp: int
    max_timestamp: int


class RowGroup(NamedTuple):
    """The rows of one partition: [start, stop) in the order that `group_rows` returns."""

    partition: int
    start: int
    stop: int


def group_rows(
    partitions: Buffer, partition_count: int, selection: Buffer | None = None
) -> tuple[bytearray, list[RowGroup]]:
    """Row numbers sorted by partition, in a stable order, and the range of each partition among them.

    With a selection, `partitions` has one number for each selected row, and the result has the selected rows.
    """
    _check_partition_count(partition_count)
    row_count = len(partitions) // _INT32_SIZE
    is_selection = selection is not None
    chosen = memory.borrow(partitions if selection is None else selection)
    if selection is not None and len(selection) != len(partitions):
        raise ValueError(f"{len(selection) // _INT32_SIZE} rows are selected, but {row_count} have a partition")
    given = memory.borrow(partitions)
    counts = bytearray(_INT32_SIZE * partition_count)
    for row in range(row_count):
        partition = buffers.get_int32(given, row)
        if partition < 0 or partition >= partition_count:
            raise ValueError(f"row {row} is for partition {partition}, but there are {partition_count}")
        buffers.increment(counts, partition)
    sizes = memory.borrow(counts)
    places = bytearray(_INT32_SIZE * partition_count)
    groups: list[RowGroup] = []
    start = 0
    for partition in range(partition_count):
        size = buffers.get_int32(sizes, partition)
        buffers.put_int32(places, partition, start)
        if size > 0:
            groups.append(RowGroup(partition, start, start + size))
        start += size
    order = bytearray(_INT32_SIZE * row_count)
    for row in range(row_count):
        place = buffers.increment(places, buffers.get_int32(given, row))
        buffers.put_int32(order, place, buffers.get_int32(chosen, row) if is_selection else row)
    return order, groups


class RowEncoder:
    """Partitions and encodes rows, whose buffers it checks once. A selection has row numbers of 32 bits."""

    def __init__(self, columns: Columns) -> None:
        row_count = columns.row_count
        if not 0 <= row_count <= _ROW_COUNT_MAX:
            raise ValueError(f"{row_count} is no number of rows")
        self._row_count = row_count
        self._keys = _Strings(columns.key, row_count, "keys")
        self._values = _Strings(columns.value, row_count, "values")
        self._times = _Times(columns.timestamp, row_count)
        headers = columns.headers
        lists = None if headers is None else BytesColumn(headers.validity, headers.offsets, b"", headers.start)
        # The lists are measured in headers, not in bytes: the last offset is the number of headers.
        self._lists = _Strings(lists, row_count, "headers", is_list=True)
        header_count = self._lists.end
        self._header_keys = _Strings(None if headers is None else headers.keys, header_count, "header keys")
        self._header_values = _Strings(None if headers is None else headers.values, header_count, "header values")

    def partition_rows(self, partition_count: int, *, keyless: int = -1, selection: Buffer | None = None) -> bytearray:
        """Each row's partition in 32 bits: by its key, as in Kafka's Java client, or `keyless` without one."""
        _check_partition_count(partition_count)
        return self._partition_rows(
            partition_count, keyless, b"" if selection is None else selection, selection is None
        )

    def encode_rows(
        self,
        timestamp_ms: int,
        *,
        bytes_max: int,
        selection: Buffer | None = None,
        start: int = 0,
        stop: int | None = None,
        reserve: int = batch.HEADER_SIZE,
    ) -> EncodedRows:
        """The rows from `start` up to `stop` of the selection, or of all rows: as many as fit into `bytes_max`, but at
        least one, because only the broker decides whether a single row is too large. Rows without timestamp get
        `timestamp_ms`."""
        row_count = self._row_count if selection is None else len(selection) // _INT32_SIZE
        stop = row_count if stop is None else stop
        if not 0 <= start < stop <= row_count:
            raise ValueError(f"rows [{start}, {stop}) are none, or not among {row_count}")
        if reserve < 0:
            raise ValueError(f"{reserve} bytes cannot be left free")
        if not 0 <= timestamp_ms <= _TIMESTAMP_MAX:
            raise ValueError(f"timestamp {timestamp_ms} is no time")
        is_all = selection is None
        return self._encode_rows(timestamp_ms, bytes_max, b"" if is_all else selection, is_all, start, stop, reserve)

    def _partition_rows(self, partition_count: int, keyless: int, selection: Buffer, is_all: bool) -> bytearray:
        chosen = memory.borrow(selection)
        count = self._row_count if is_all else len(selection) // _INT32_SIZE
        partitions = bytearray(_INT32_SIZE * count)
        keys = self._keys
        for position in range(count):
            row = position if is_all else self._row(chosen, position)
            at, length = keys.find(row)
            partition = keyless if length < 0 else (_murmur2(keys.data, at, length) & 0x7FFFFFFF) % partition_count
            buffers.put_int32(partitions, position, partition)
        return partitions

    def _encode_rows(
        self, timestamp_ms: int, bytes_max: int, selection: Buffer, is_all: bool, start: int, stop: int, reserve: int
    ) -> EncodedRows:
        chosen = memory.borrow(selection)
        row = start if is_all else self._row(chosen, start)
        base_timestamp = self._times.find(row, timestamp_ms)
        max_timestamp = base_timestamp
        room = reserve + _ROOM_MIN
        out = bytearray(room)
        written = reserve
        index = start
        while index < stop:
            row = index if is_all else self._row(chosen, index)
            timestamp = self._times.find(row, timestamp_ms)
            key_at, key_length = self._keys.find(row)
            value_at, value_length = self._values.find(row)
            first_header, header_count = self._lists.find(row)
            header_count = max(header_count, 0)
            body = (
                1
                + _varint_size(timestamp - base_timestamp)
                + _varint_size(index - start)
                + _field_size(key_length)
                + _field_size(value_length)
                + _varint_size(header_count)
            )
            if header_count > 0:
                body += self._headers_size(first_header, header_count)
            needed = written + _varint_size(body) + body
            if needed > bytes_max and index > start:
                break
            if needed > room:
                room = max(needed, 2 * room)
                buffers.resize(out, room)
            written = _write_varint(out, written, body)
            out[written] = 0
            written = _write_varint(out, written + 1, timestamp - base_timestamp)
            written = _write_varint(out, written, index - start)
            written = _write_field(out, written, self._keys.data, key_at, key_length)
            written = _write_field(out, written, self._values.data, value_at, value_length)
            written = _write_varint(out, written, header_count)
            if header_count > 0:
                written = self._write_headers(out, written, first_header, header_count)
            max_timestamp = max(max_timestamp, timestamp)
            index += 1
        buffers.resize(out, written)
        return EncodedRows(out, index - start, base_timestamp, max_timestamp)

    def _row(self, chosen: bytes, position: int) -> int:
        row = buffers.get_int32(chosen, position)
        if row < 0 or row >= self._row_count:
            raise ValueError(f"row {row} is selected, but there are {self._row_count}")
        return row

    def _headers_size(self, first: int, count: int) -> int:
        size = 0
        for index in range(first, first + count):
            _, key_length = self._header_keys.find(index)
            _, value_length = self._header_values.find(index)
            if key_length < 0:
                raise ValueError("a header has no key")
            size += _field_size(key_length) + _field_size(value_length)
        return size

    def _write_headers(self, out: bytearray, written: int, first: int, count: int) -> int:
        for index in range(first, first + count):
            at, length = self._header_keys.find(index)
            written = _write_field(out, written, self._header_keys.data, at, length)
            at, length = self._header_values.find(index)
            written = _write_field(out, written, self._header_values.data, at, length)
        return written


class _Strings:
    """A column of byte strings, or of lists, whose offsets were checked to be in order and inside its data."""

    def __init__(self, column: BytesColumn | None, row_count: int, name: str, is_list: bool = False) -> None:
        self.is_absent = column is None or row_count == 0
        self.has_nulls = column is not None and column.validity is not None
        self.bits_view = b"" if column is None or column.validity is None else column.validity
        self.offsets_view = b"" if column is None else column.offsets
        self.data_view = b"" if column is None else column.data
        self.start = 0 if column is None else column.start
        self.bits = memory.borrow(self.bits_view)
        self.offsets = memory.borrow(self.offsets_view)
        self.data = memory.borrow(self.data_view)
        self.end = 0
        if not self.is_absent:
            self._check(row_count, name, is_list)

    def _check(self, row_count: int, name: str, is_list: bool) -> None:
        stop = self.start + row_count
        if not 0 <= self.start < len(self.offsets_view) or len(self.offsets_view) < _INT32_SIZE * (stop + 1):
            raise ValueError(f"{name} have fewer offsets than rows")
        if self.has_nulls and 8 * len(self.bits_view) < stop:
            raise ValueError(f"{name} have fewer validity bits than rows")
        previous = 0
        is_sound = True
        for index in range(self.start, stop + 1):
            offset = buffers.get_int32(self.offsets, index)
            is_sound &= offset >= previous
            previous = offset
        if not is_sound or (previous > len(self.data_view) and not is_list):
            raise ValueError(f"{name} have offsets that are out of order or outside their data")
        self.end = previous

    def find(self, row: int) -> tuple[int, int]:
        """Position and length; the length is negative for null."""
        if self.is_absent:
            return 0, _NULL
        index = self.start + row
        if self.has_nulls and not self.bits[index >> 3] >> (index & 7) & 1:
            return 0, _NULL
        at = buffers.get_int32(self.offsets, index)
        return at, buffers.get_int32(self.offsets, index + 1) - at


class _Times:
    def __init__(self, column: LongColumn | None, row_count: int) -> None:
        self.is_absent = column is None
        self.has_nulls = column is not None and column.validity is not None
        self.bits_view = b"" if column is None or column.validity is None else column.validity
        self.data_view = b"" if column is None else column.data
        self.start = 0 if column is None else column.start
        self.bits = memory.borrow(self.bits_view)
        self.data = memory.borrow(self.data_view)
        if not self.is_absent:
            self._check(row_count)

    def _check(self, row_count: int) -> None:
        stop = self.start + row_count
        if not 0 <= self.start <= len(self.data_view) or len(self.data_view) < _INT64_SIZE * stop:
            raise ValueError("timestamps are fewer than rows")
        if self.has_nulls and 8 * len(self.bits_view) < stop:
            raise ValueError("timestamps have fewer validity bits than rows")

    def find(self, row: int, default_ms: int) -> int:
        """In milliseconds, rounded down."""
        index = self.start + row
        if self.is_absent or (self.has_nulls and not self.bits[index >> 3] >> (index & 7) & 1):
            return default_ms
        microseconds = buffers.get_int64(self.data, index)
        milliseconds = microseconds // _MICROSECONDS
        # C rounds a quotient towards zero, Python downwards.
        return milliseconds - 1 if milliseconds * _MICROSECONDS > microseconds else milliseconds


def _murmur2(data: bytes, position: int, length: int) -> int:
    """The hash of Kafka's Java client, as an unsigned number."""
    result = _SEED ^ length
    end = position + (length & ~3)
    while position < end:
        word = _little_endian(data, position, 4)
        word = word * _MULTIPLIER & _WORD
        word = (word ^ word >> 24) * _MULTIPLIER & _WORD
        result = (result * _MULTIPLIER & _WORD) ^ word
        position += 4
    if length & 3:
        result = (result ^ _little_endian(data, position, length & 3)) * _MULTIPLIER & _WORD
    result = (result ^ result >> 13) * _MULTIPLIER & _WORD
    return result ^ result >> 15


def _little_endian(data: bytes, position: int, size: int) -> int:
    word = 0
    for index in range(size):
        byte = data[position + index]
        word |= byte << (8 * index)
    return word


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


def _write_varint(out: bytearray, position: int, value: int) -> int:
    zigzag = _zigzag(value)
    while zigzag > 0x7F:
        out[position] = zigzag & 0x7F | 0x80
        zigzag >>= 7
        position += 1
    out[position] = zigzag
    return position + 1


def _field_size(length: int) -> int:
    return 1 if length < 0 else _varint_size(length) + length


def _write_field(out: bytearray, position: int, data: bytes, at: int, length: int) -> int:
    if length < 0:
        return _write_varint(out, position, -1)
    position = _write_varint(out, position, length)
    buffers.copy(out, position, data, at, length)
    return position + length


def _check_partition_count(partition_count: int) -> None:
    if not 0 < partition_count <= PARTITION_COUNT_MAX:
        raise ValueError(f"{partition_count} is no number of partitions")
