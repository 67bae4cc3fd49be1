"""`avro`: each value is one datum in Avro's binary encoding, without a header before it or data after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, cast

import orjson
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.arrow import Array
from headwater.spark.formats.decoding import Decoded, DecodeFailure, build_values, reason_of
from headwater.spark.formats.types import array, arrow_type, check_readable, check_same

_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "int date": DateType(),
    "long timestamp-millis": TimestampType(),
    "long timestamp-micros": TimestampType(),
}
_DECIMAL_PRECISION_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class AvroFormat:
    option: str
    schema: str

    def column_type(self) -> DataType:
        return _AvroTypes(self.option).of(self.parsed())

    def check(self, column: str, datatype: DataType) -> None:
        check_readable(column, datatype)
        check_same(column, datatype, self.column_type())

    def decoder(self, datatype: DataType) -> "AvroDecoder":
        schema = self.parsed()
        # Called for its errors only: it refuses a schema that has no type in Spark.
        _AvroTypes(self.option).of(schema)
        return AvroDecoder(schema, datatype)

    def resolving_decoder(self, datatype: DataType, writer: str) -> "AvroDecoder":
        """Of data that another schema wrote."""
        return AvroDecoder(self.parsed(), datatype, AvroFormat(self.option, writer).parsed())

    def parsed(self) -> Any:
        import fastavro

        text = self.schema.strip()
        try:
            # A primitive type may be given by its bare name.
            schema: Any = orjson.loads(text) if text.startswith(("{", "[", '"')) else text
            return fastavro.parse_schema(_plain(schema))
        except Exception as error:
            # fastavro's errors have no common base class.
            raise ConfigError(f"option {self.option!r} is no Avro schema: {reason_of(error)}") from None


def _plain(schema: Any) -> Any:
    """The schema without logical types that Spark lacks. By Avro's specification, unknown ones are read as their base
    type."""
    match schema:
        case dict():
            known = cast("dict[str, Any]", schema)
            logical = known.get("logicalType")
            is_kept = logical == "decimal" or f"{known.get('type')} {logical}" in _LOGICAL
            return {
                name: _plain(value) if name in ("type", "items", "values", "fields") else value
                for name, value in known.items()
                if name != "logicalType" or is_kept
            }
        case list():
            return [_plain(each) for each in cast("list[Any]", schema)]
        case _:
            return schema


class _AvroTypes:
    """From a parsed Avro schema to Spark's type."""

    def __init__(self, option: str) -> None:
        self._option = option
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def of(self, schema: Any) -> DataType:
        match schema:
            case list():
                return self._union(cast("list[Any]", schema))
            case str() if schema in self._named:
                return self.of(self._named[schema])
            case dict():
                return self._described(cast("dict[str, Any]", schema))
            case _:
                return self._simple(schema, {})

    def _described(self, schema: dict[str, Any]) -> DataType:
        kind = schema["type"]
        if "name" in schema:
            self._named[schema["name"]] = schema
        match kind:
            case "record":
                return self._record(schema)
            case "array":
                return ArrayType(self.of(schema["items"]))
            case "map":
                return MapType(StringType(), self.of(schema["values"]))
            case _:
                return self._simple(kind, schema)

    def _record(self, schema: dict[str, Any]) -> DataType:
        name: str = schema["name"]
        if name in self._open:
            raise self._refusal(f"record {name!r} holds itself, which no column can")
        if not schema["fields"]:
            raise self._refusal(f"record {name!r} has no fields")
        self._open.append(name)
        fields = [StructField(field["name"], self.of(field["type"])) for field in schema["fields"]]
        self._open.pop()
        return StructType(fields)

    def _union(self, branches: list[Any]) -> DataType:
        others = [self.of(branch) for branch in branches if branch != "null"]
        if len(others) == 1:
            return others[0]
        # Like Spark's `from_avro`: the wider of two numeric types.
        if len(others) == 2:
            for wider, narrower in ((LongType(), IntegerType()), (DoubleType(), FloatType())):
                if wider in others and narrower in others:
                    return wider
        raise self._refusal("a union of several types is no column; null and one type is")

    def _simple(self, kind: str, schema: dict[str, Any]) -> DataType:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = schema["precision"], schema.get("scale", 0)
            if precision > _DECIMAL_PRECISION_MAX:
                raise self._refusal(f"a decimal of {precision} digits: Spark's have {_DECIMAL_PRECISION_MAX} at most")
            return DecimalType(precision, scale)
        found = _LOGICAL.get(f"{kind} {logical}") or _SIMPLE.get(kind)
        # A type of zero bytes is refused: a tiny record could claim an array of billions of such elements.
        if found is None or (kind == "fixed" and schema["size"] == 0):
            raise self._refusal(f"the type {kind!r} is not supported")
        return found

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"option {self._option!r}: {reason}")


class AvroDecoder:
    def __init__(self, schema: Any, datatype: DataType, writer: Any = None) -> None:
        """`writer` is the schema of the data, if it is another one."""
        self.arrow_type = arrow_type(datatype)
        self._writer = schema if writer is None else writer
        self._reader = None if writer is None else schema
        self._convert = _converter(datatype)

    def decode(self, column: Array) -> Decoded:
        import fastavro

        read = cast("Callable[..., Any]", fastavro.schemaless_reader)
        values: list[Any] = []
        failures: list[DecodeFailure] = []
        for row, data in enumerate(cast("list[bytes]", column.to_pylist())):
            stream = BytesIO(data)
            try:
                value = read(stream, self._writer, self._reader)
                if stream.tell() != len(data):
                    raise ValueError(f"{len(data) - stream.tell()} bytes are left over behind the datum")
            except Exception as error:
                # fastavro's errors for malformed data have no common base class: EOFError, IndexError, OverflowError.
                failures.append(DecodeFailure(row, f"no Avro datum of the schema: {_reason(error)}"))
                value = None
            values.append(value)
        if self._convert is not None:
            convert = self._convert
            values = [None if value is None else convert(value) for value in values]
        found = build_values(values, self._build)
        return Decoded(found.values, sorted([*failures, *found.failures]))

    def _build(self, values: Sequence[Any]) -> Array:
        return array(values, self.arrow_type)


def _reason(error: Exception) -> str:
    match error:
        case EOFError():
            return "it ends too early"
        case IndexError():
            return "a union branch or enum symbol that does not exist, or a number without end"
        case _:
            return reason_of(error)


def _converter(datatype: DataType) -> Callable[[Any], Any] | None:
    """Converts maps to lists of pairs, as Arrow requires. It accepts all other values as fastavro returns them.

    None if the type contains no map.
    """
    match datatype:
        case StructType():
            fields = {field.name: convert for field in datatype.fields if (convert := _converter(field.dataType))}
            return (lambda value: value | _each(fields, value)) if fields else None
        case ArrayType():
            element = _converter(datatype.elementType)
            return (lambda value: [None if item is None else element(item) for item in value]) if element else None
        case MapType():
            element = _converter(datatype.valueType)
            if element is None:
                return lambda value: list(value.items())
            return lambda value: [(key, None if item is None else element(item)) for key, item in value.items()]
        case _:
            return None


def _each(fields: dict[str, Callable[[Any], Any]], value: dict[str, Any]) -> dict[str, Any]:
    return {name: convert(value[name]) for name, convert in fields.items() if value[name] is not None}
