"""Which columns a write accepts, and how it refuses others."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.options.write_options import WriteOptions, write_options
from headwater.spark.writes.contract import check_columns, written_columns

BINARY, DOUBLE, INT, LONG = BinaryType(), DoubleType(), IntegerType(), LongType()
STRING, TIMESTAMP = StringType(), TimestampType()


def headers(key: DataType, value: DataType) -> DataType:
    return ArrayType(StructType([StructField("key", key), StructField("value", value)]))


def schema(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def options(**given: str) -> WriteOptions:
    return write_options({"bootstrap.servers": "localhost:9092", **given}, is_streaming=True)


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        ({"value": STRING}, {"topic": "t"}),
        ({"value": BINARY}, {"topic": "t"}),
        ({"key": STRING, "value": BINARY}, {"topic": "t"}),
        ({"key": BINARY, "value": STRING, "topic": STRING}, {}),
        ({"value": STRING, "partition": INT, "headers": headers(STRING, BINARY)}, {"topic": "t"}),
        ({"value": STRING, "timestamp": TIMESTAMP}, {"topic": "t", "includeTimestamp": "true"}),
        ({"value": STRING, "amount": DOUBLE, "tags": MapType(STRING, STRING)}, {"topic": "t"}),
        # Columns that are not written may have any type.
        ({"value": STRING, "topic": INT}, {"topic": "t"}),
        ({"value": STRING, "headers": STRING}, {"topic": "t", "includeHeaders": "false"}),
        ({"value": STRING, "timestamp": STRING}, {"topic": "t"}),
    ],
)
def test_the_columns_of_kafkas_sink_are_accepted_and_others_ignored(
    columns: dict[str, DataType], given: dict[str, str]
) -> None:
    check_columns(schema(columns), options(**given))


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"key": STRING, "amount": INT}, {"topic": "t"}, "needs a column 'value', there are: key, amount"),
        ({"value": STRING}, {}, "where to write.*option 'topic'.*column 'topic'"),
        ({"value": INT}, {"topic": "t"}, "column 'value' is int; a write takes it as string or binary"),
        ({"value": schema({"a": INT})}, {"topic": "t"}, r"column 'value' is struct<a:int>;.*to_json"),
        ({"key": LONG, "value": STRING}, {"topic": "t"}, "column 'key' is bigint"),
        ({"value": STRING, "topic": INT}, {}, "column 'topic' is int; a write takes it as string"),
        ({"value": STRING, "partition": LONG}, {"topic": "t"}, "'partition' is bigint; a write takes it as int"),
        ({"value": STRING, "headers": MapType(STRING, BINARY)}, {"topic": "t"}, "'headers' is map<string,binary>"),
        ({"value": STRING, "headers": ArrayType(STRING)}, {"topic": "t"}, "column 'headers' is array<string>"),
        (
            {"value": STRING, "headers": headers(STRING, STRING)},
            {"topic": "t"},
            r"column 'headers' is .*; a write takes it as array<struct<key:string,value:binary>>",
        ),
        ({"value": STRING}, {"topic": "t", "includeTimestamp": "true"}, "needs a column 'timestamp' of type timestamp"),
        (
            {"value": STRING, "timestamp": LONG},
            {"topic": "t", "includeTimestamp": "true"},
            "'includeTimestamp' needs a column 'timestamp'",
        ),
    ],
)
def test_columns_of_the_wrong_type_are_refused_by_name_and_type(
    columns: dict[str, DataType], given: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_columns(schema(columns), options(**given))


def test_records_are_made_of_the_requested_columns() -> None:
    assert written_columns(options()) == {"key", "value", "headers"}
    assert written_columns(options(includeHeaders="false")) == {"key", "value"}
    assert written_columns(options(includeTimestamp="true")) == {"key", "value", "headers", "timestamp"}
