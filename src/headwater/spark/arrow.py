"""Converts between the record codec's columns and Arrow's arrays without copying: both share the buffers."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from headwater.protocol.batches.columns import Buffer, BytesColumn, Columns, HeadersColumn, LongColumn

Array: TypeAlias = Any  # one of pyarrow's many array types; which one is known only at run time

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SMALL_TYPES: Final = (pa.binary(), pa.string())


def arrays(columns: Columns) -> dict[str, Array]:
    """An array for each present column, named as in Spark's Kafka source."""
    row_count = columns.row_count
    built: dict[str, Array] = {}
    if columns.key is not None:
        built["key"] = _strings(pa.binary(), columns.key, row_count)
    if columns.value is not None:
        built["value"] = _strings(pa.binary(), columns.value, row_count)
    if columns.offset is not None:
        built["offset"] = _numbers(pa.int64(), columns.offset, row_count)
    if columns.timestamp is not None:
        built["timestamp"] = _numbers(TIMESTAMP, columns.timestamp, row_count)
    if columns.headers is not None:
        built["headers"] = _headers(columns.headers, row_count)
    return built


def record_batch(columns: Columns, schema: pa.Schema, constants: Mapping[str, int | str]) -> pa.RecordBatch:
    """The columns in the schema's order. `constants` has the columns with one value for all rows: topic, partition."""
    built = arrays(columns)
    for name, arrow_type in zip(schema.names, schema.types, strict=True):
        if name not in built:
            constant: Any = pa.scalar(constants[name], arrow_type)
            built[name] = pa.repeat(constant, columns.row_count)
    return pa.RecordBatch.from_arrays([built[name] for name in schema.names], schema=schema)


def columns_of(rows: pa.RecordBatch) -> Columns:
    """Columns for the record codec, from the Arrow columns `key`, `value`, `timestamp` and `headers` (all optional)."""
    given: dict[str, Array] = {name: rows.column(index) for index, name in enumerate(rows.schema.names)}
    return Columns(
        row_count=rows.num_rows,
        key=_bytes_column(given.get("key")),
        value=_bytes_column(given.get("value")),
        timestamp=_long_column(given.get("timestamp")),
        headers=_headers_column(given.get("headers")),
    )


def int32_array(numbers: Buffer) -> Array:
    """Partitions or row numbers from `protocol.batches.rows`, as input for Arrow's compute functions."""
    return pa.Array.from_buffers(pa.int32(), len(numbers) // 4, [None, pa.py_buffer(numbers)])


def int32_buffer(numbers: Array) -> Buffer:
    if numbers.null_count > 0 or numbers.type != pa.int32():
        raise ValueError(f"expected 32-bit numbers without null, got {numbers.type}, {numbers.null_count} of them null")
    return _view(numbers.buffers()[1])[4 * numbers.offset : 4 * (numbers.offset + len(numbers))]


def _strings(arrow_type: pa.DataType, column: BytesColumn, row_count: int) -> Array:
    given = [_shared(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(arrow_type, row_count, given, offset=column.start)


def _numbers(arrow_type: pa.DataType, column: LongColumn, row_count: int) -> Array:
    given = [_shared(column.validity), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(arrow_type, row_count, given, offset=column.start)


def _headers(column: HeadersColumn, row_count: int) -> Array:
    count = len(column.keys.offsets) // 4 - 1
    pairs: Array = pa.StructArray.from_arrays(
        [_strings(pa.string(), column.keys, count), _strings(pa.binary(), column.values, count)],
        fields=list(HEADERS.value_type),
    )
    given = [_shared(column.validity), pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS, row_count, given, offset=column.start, children=[pairs])


def _shared(buffer: Buffer | None) -> pa.Buffer | None:
    return None if buffer is None else pa.py_buffer(buffer)


def _bytes_column(array: Array) -> BytesColumn | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if array.type not in _SMALL_TYPES:
        array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    return BytesColumn(_validity(array), _view(offsets), _view(data), array.offset)


def _long_column(array: Array) -> LongColumn | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if array.type != TIMESTAMP:
        array = array.cast(TIMESTAMP)
    return LongColumn(_validity(array), _view(array.buffers()[1]), array.offset)


def _headers_column(array: Array) -> HeadersColumn | None:
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_list(array.type):
        array = array.cast(HEADERS)
    pairs = array.values
    if pairs.null_count > 0:
        raise ValueError("a header is null")
    keys, values = _bytes_column(pairs.field("key")), _bytes_column(pairs.field("value"))
    if keys is None or values is None:
        # Keys or values have the null type, which is possible only if the list is empty in every row.
        return None
    return HeadersColumn(_validity(array), _view(array.buffers()[1]), keys, values, array.offset)


def _validity(array: Array) -> Buffer | None:
    return _view(array.buffers()[0]) if array.null_count > 0 else None


def _view(buffer: pa.Buffer | None) -> memoryview:
    # Arrow omits empty buffers, and its buffers claim to contain signed bytes.
    return memoryview(b"" if buffer is None else buffer).cast("B")
