"""`json`: each value is one document, read as Spark's `from_json` reads it, except that a wrong type is a bad record.

Arrow parses all rows at once. Law: the bulk path may succeed only if `json_rows` would succeed with the same result. It
leaves every doubtful case to `json_rows`.
"""

import re
from binascii import a2b_base64
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, cast

import orjson
import pyarrow as pa
from pyarrow.json import ParseOptions, ReadOptions, read_json
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from headwater.errors import ConfigError
from headwater.spark.arrow import Array
from headwater.spark.formats.decoding import Decoded, DecodeFailure, bisect, reason_of
from headwater.spark.formats.json_rows import RowReader
from headwater.spark.formats.string import as_text
from headwater.spark.formats.types import ArrowType, array, arrow_type, check_readable, compute, nullable

# A single type such as `ARRAY<INT>`, `STRING` or `DECIMAL(10, 2)`, as opposed to a list of columns.
_TYPE_ALONE: Final = re.compile(r"(array|map|struct)\s*<.*>|\w+\s*(\([\d\s,]*\))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """`schema` is DDL or the JSON of a Spark type. Without one, the user must give the type with `.schema()`."""

    option: str
    schema: str | None

    def column_type(self) -> DataType | str | None:
        if self.schema is None:
            return None
        text = self.schema.strip()
        if text.startswith(("{", '"')):
            return self._from_json(text)
        if not text:
            raise ConfigError(f"option {self.option!r} is empty")
        return text if _TYPE_ALONE.fullmatch(text) else f"STRUCT<{text}>"

    def check(self, column: str, datatype: DataType) -> None:
        check_readable(column, datatype)
        _check_keys(column, datatype)

    def decoder(self, datatype: DataType) -> "JsonDecoder":
        return JsonDecoder(datatype)

    def _from_json(self, text: str) -> DataType:
        try:
            parsed: Any = orjson.loads(text)
            datatype = StructType.fromJson(parsed) if text.startswith("{") else None
        except Exception as error:
            # pyspark raises errors of many classes here: KeyError, TypeError, and its own.
            raise ConfigError(f"option {self.option!r} is not the JSON of a Spark schema: {reason_of(error)}") from None
        if datatype is None or not datatype.fields:
            raise ConfigError(f"option {self.option!r} is not the JSON of a Spark schema: a struct with fields")
        return nullable(datatype)


def _check_keys(path: str, datatype: DataType) -> None:
    match datatype:
        case StructType():
            for field in datatype.fields:
                _check_keys(f"{path}.{field.name}", field.dataType)
        case ArrayType():
            _check_keys(f"{path}[]", datatype.elementType)
        case MapType():
            if not isinstance(datatype.keyType, StringType):
                raise ConfigError(
                    f"{path}: the keys of a map are strings in JSON, not {datatype.keyType.simpleString()}"
                )
            _check_keys(f"{path}{{}}", datatype.valueType)
        case _:
            pass


class JsonDecoder:
    def __init__(self, datatype: DataType) -> None:
        self.arrow_type = arrow_type(datatype)
        self._rows = RowReader(datatype)
        # In a text of many documents only objects can be told apart: see `_is_separable`.
        self._takes_bulk = pa.types.is_struct(self.arrow_type) and not _has_map(self.arrow_type)
        self._wire_type = _wire_type(self.arrow_type) if self._takes_bulk else self.arrow_type

    def decode(self, column: Array) -> Decoded:
        return bisect(column, self._in_bulk, self._singly) if self._takes_bulk else self._singly(column)

    def _in_bulk(self, column: Array) -> Array:
        as_text(column)
        if not _is_separable(column):
            raise ValueError("not objects only")
        # A single block that ends with a newline: the reader cuts blocks at newlines, but documents may contain them.
        text = _joined(column) + b"\n"
        table = read_json(
            BytesIO(text),
            read_options=ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=ParseOptions(
                explicit_schema=pa.schema(list(self._wire_type)),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(column):
            raise ValueError(f"{table.num_rows} documents in {len(column)} values")
        columns = [_one_chunk(each) for each in table.columns]
        fields = list(self.arrow_type)
        values = [_from_wire(each, field.type) for each, field in zip(columns, fields, strict=True)]
        return pa.StructArray.from_arrays(values, fields=fields)

    def _singly(self, column: Array) -> Decoded:
        values: list[Any] = []
        failures: list[DecodeFailure] = []
        for row, data in enumerate(cast("list[bytes]", column.to_pylist())):
            try:
                values.append(self._rows.read(data))
            except ValueError as error:
                values.append(None)
                failures.append(DecodeFailure(row, reason_of(error)))
        return Decoded(array(values, self.arrow_type), failures)


def _is_separable(column: Array) -> bool:
    """Whether every value begins with { and ends with }.

    Then `}`, newline, `{` separates any two values in the joined text. No JSON document contains that sequence: inside
    a string the newline is an error, and elsewhere a comma would be missing. So each value contains one or more whole
    documents, and if there are as many documents as values, each value contains exactly one.
    """
    return compute.all(compute.and_(compute.starts_with(column, b"{"), compute.ends_with(column, b"}"))).as_py()


def _joined(column: Array) -> bytes:
    one_list: Array = pa.ListArray.from_arrays(array([0, len(column)], pa.int32()), column)
    return compute.binary_join(one_list, b"\n")[0].as_py()


def _one_chunk(column: Array) -> Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _has_map(kind: ArrowType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(index).type) for index in range(kind.num_fields))


def _wire_type(kind: ArrowType) -> ArrowType:
    """The type as it appears in documents, where dates, timestamps and binary values are strings."""
    match kind:
        case _ if pa.types.is_struct(kind):
            return pa.struct(list(map(_wire_field, kind)))
        case _ if pa.types.is_list(kind):
            return pa.list_(_wire_field(kind.value_field))
        case _ if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind):
            return pa.string()
        case _:
            return kind


def _wire_field(field: Any) -> Any:
    return field.with_type(_wire_type(field.type))


def _from_wire(values: Any, kind: ArrowType) -> Array:
    """Convert from the type in the document to the requested one. Raises if any row must be decoded on its own."""
    match kind:
        case _ if pa.types.is_struct(kind):
            fields: list[Any] = list(kind)
            children = [_from_wire(values.field(index), field.type) for index, field in enumerate(fields)]
            return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(values))
        case _ if pa.types.is_list(kind):
            elements = _from_wire(values.values, kind.value_type)
            return pa.ListArray.from_arrays(values.offsets, elements, type=kind, mask=_mask(values))
        case _ if pa.types.is_floating(kind):
            # Arrow reads a number that overflows as infinity.
            if compute.all(compute.is_finite(values)).as_py() is False:
                raise ValueError("not finite")
            return values
        case _ if pa.types.is_decimal(kind):
            # Arrow's reader counts only the written digits against the precision, not those that the scale adds.
            values.validate(full=True)
            return values
        case _ if pa.types.is_timestamp(kind):
            return _timestamps(values, kind)
        case _ if pa.types.is_binary(kind):
            texts = cast("list[str | None]", values.to_pylist())
            return array([None if text is None else a2b_base64(text, strict_mode=True) for text in texts], kind)
        case _ if pa.types.is_date(kind):
            return values.cast(kind)
        case _:
            return values


def _timestamps(texts: Array, kind: ArrowType) -> Array:
    """Times with a zone, or without one, which means UTC. Arrow casts a column that has only one of the two kinds."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us")).cast(kind)


def _mask(values: Array) -> Any:
    return values.is_null() if values.null_count else None
