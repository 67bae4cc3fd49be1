"""The columns that a write accepts, under the names of Spark's Kafka sink. It ignores all other columns."""

from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from headwater.errors import ConfigError
from headwater.spark.options.write_options import WriteOptions
from headwater.spark.writes.directive_columns import check_directives
from headwater.spark.writes.redrive_rows import check_letters

_BYTES: Final = (StringType, BinaryType)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    types = {column.name: column.dataType for column in schema.fields}
    if "value" not in types:
        raise ConfigError(f"a write needs a column 'value', there are: {', '.join(types)}")
    for name in ("key", "value"):
        if name in types and name not in options.schemas and not isinstance(types[name], _BYTES):
            raise _refusal(name, types[name], "string or binary: cast it, or make it one with to_json(struct(...))")
    if options.topic is None:
        if "topic" not in types:
            raise ConfigError("where to write? Set the option 'topic', or give each row a column 'topic'")
        if not isinstance(types["topic"], StringType):
            raise _refusal("topic", types["topic"], "string")
    if "partition" in types and not isinstance(types["partition"], IntegerType):
        raise _refusal("partition", types["partition"], "int")
    if options.includes_headers and "headers" in types and not _is_headers(types["headers"]):
        raise _refusal("headers", types["headers"], "array<struct<key:string,value:binary>>")
    if options.includes_timestamp and not isinstance(types.get("timestamp"), TimestampType):
        raise ConfigError("option 'includeTimestamp' needs a column 'timestamp' of type timestamp")
    if options.includes_directives:
        check_directives(types)
    if options.redrives:
        check_letters(types)


def written_columns(options: WriteOptions) -> frozenset[str]:
    """The columns that become part of the record. `topic` and `partition` only decide where it goes."""
    columns = {"key", "value"}
    if options.includes_headers or options.includes_directives or options.redrives:
        columns.add("headers")
    if options.includes_timestamp:
        columns.add("timestamp")
    return frozenset(columns)


def _is_headers(given: DataType) -> bool:
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    kinds = [(field.name, type(field.dataType)) for field in given.elementType.fields]
    return kinds == [("key", StringType), ("value", BinaryType)]


def _refusal(name: str, given: DataType, wanted: str) -> ConfigError:
    return ConfigError(f"column {name!r} is {given.simpleString()}; a write takes it as {wanted}")
