"""The columns of a read: names, types and order of Spark's Kafka source, and those of them that a user wants."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.options import Options
from headwater.spark.read_options import INCLUDE_HEADERS, NAMES

HEADERS: Final = "headers"
_HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: _HEADERS_TYPE,
}


def columns_of(given: Mapping[str, str]) -> StructType:
    """What a read with these options gives."""
    return source_schema(includes_headers=Options(given, NAMES).boolean(INCLUDE_HEADERS, default=False))


def source_schema(*, includes_headers: bool) -> StructType:
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if includes_headers or name != HEADERS])


def check_schema(schema: StructType, known: StructType) -> None:
    """A schema of the user's picks columns; it does not convert them."""
    types = {column.name: column.dataType for column in known.fields}
    for column in schema.fields:
        kind = types.get(column.name)
        if kind is None:
            hint = "; set the option 'includeHeaders'" if column.name == HEADERS else ""
            raise ConfigError(f"there is no column {column.name!r} to read{hint}. There are: {', '.join(types)}")
        if kind != column.dataType:
            raise ConfigError(
                f"column {column.name!r} is {kind.simpleString()}, not {column.dataType.simpleString()}: "
                "read it as it is and cast it, or set 'key.format' or 'value.format'"
            )
