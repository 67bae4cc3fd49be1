"""The columns of a read: names, types and order as in Spark's Kafka source, and the user's selection of them.

With a format, `key` and `value` keep their names and positions but have the type of their schema.
"""

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
from headwater.spark.formats.types import check_readable, check_same, ddl
from headwater.spark.options.format_options import FormatOptions, format_options
from headwater.spark.options.options import Options
from headwater.spark.options.read_options import DEAD_LETTERS, INCLUDE_HEADERS, NAMES, includes_headers
from headwater.spark.reads import bad_records, dead_letter_columns

HEADERS: Final = "headers"
HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: HEADERS_TYPE,
}


def read_schema(given: Mapping[str, str]) -> StructType | str:
    """The schema of a read, unless the user gives one with `.schema()`. It is DDL if a format's schema is DDL, which
    only Spark can parse."""
    types: dict[str, DataType | str] = {}
    for name, kind in _known(given).items():
        if kind is None:
            raise ConfigError(f"option '{name}.schema' is missing: give it, or give the reader a `.schema(...)`")
        if not isinstance(kind, str):
            check_readable(name, kind)
        types[name] = kind
    if not any(isinstance(kind, str) for kind in types.values()):
        return StructType([StructField(name, kind) for name, kind in types.items() if not isinstance(kind, str)])
    return ", ".join(f"{name} {kind if isinstance(kind, str) else ddl(kind)}" for name, kind in types.items())


def check_columns(schema: StructType, given: Mapping[str, str]) -> None:
    """Check the schema that a user gives with `.schema()`. It selects columns and does not convert them, except that it
    may give the type of JSON documents."""
    known = _known(given)
    formats = _formats(given)
    for column in schema.fields:
        if column.name not in known:
            raise _unknown(column.name, list(known))
        chosen = formats.formats.get(column.name)
        kind = known[column.name]
        if chosen is not None:
            chosen.check(column.name, column.dataType)
        elif kind is not None and not isinstance(kind, str):
            check_same(column.name, column.dataType, kind)
    names = set(schema.names)
    if bad_records.COLUMN in names and not names & formats.formats.keys():
        raise ConfigError(f"column {bad_records.COLUMN!r} tells nothing without one that has a format: read that, too")


def _known(given: Mapping[str, str]) -> dict[str, DataType | str | None]:
    chosen_options = Options(given, NAMES)
    with_headers = includes_headers(chosen_options)
    types: dict[str, DataType | str | None] = {
        name: kind for name, kind in _TYPES.items() if with_headers or name != HEADERS
    }
    if chosen_options.boolean(DEAD_LETTERS, default=False):
        types |= dead_letter_columns.TYPES
    options = _formats(given)
    for name, chosen in options.formats.items():
        types[name] = chosen.column_type()
    if options.bad_records.has_column:
        types[bad_records.COLUMN] = bad_records.COLUMN_TYPE
    return types


def _formats(given: Mapping[str, str]) -> FormatOptions:
    return format_options(Options(given, NAMES))


def _unknown(name: str, known: list[str]) -> ConfigError:
    hints = {
        HEADERS: f"; set the option {INCLUDE_HEADERS!r}",
        bad_records.COLUMN: f"; set the option {bad_records.OPTION!r} to 'column'",
    }
    hints |= dict.fromkeys(dead_letter_columns.TYPES, f"; set the option {DEAD_LETTERS!r}")
    return ConfigError(f"there is no column {name!r} to read{hints.get(name, '')}. There are: {', '.join(known)}")
