"""Formats change the types of `key` and `value`, and errors in their options are reported before anything is read."""

import json
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from headwater.errors import ConfigError
from headwater.spark.options.read_options import read_options
from headwater.spark.reads.bad_records import BadRecordPolicy
from headwater.spark.reads.columns import check_columns, read_schema

MINIMAL = {"bootstrap.servers": "localhost:9092", "subscribe": "orders"}
POINT = {"type": "record", "name": "p", "fields": [{"name": "x", "type": {"type": "map", "values": "long"}}]}
PLAIN = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
ID = StructType([StructField("id", LongType())])


def columns(given: dict[str, str]) -> StructType:
    found = read_schema(MINIMAL | given)
    assert isinstance(found, StructType)
    return found


def check(schema: StructType, given: dict[str, str]) -> None:
    check_columns(schema, MINIMAL | given)


def test_columns_without_formats_are_those_of_sparks_kafka_source() -> None:
    assert columns({}).names == PLAIN
    assert columns({"includeHeaders": "true"}).names == [*PLAIN, "headers"]
    assert columns({})["value"].dataType == BinaryType()


def test_formats_keep_names_and_order_of_columns() -> None:
    found = columns({"key.format": "string", "value.format": "avro", "value.schema": json.dumps(POINT)})
    assert found.names == PLAIN
    assert found["key"].dataType == StringType()
    assert found["value"].dataType == StructType([StructField("x", MapType(StringType(), LongType()))])


def test_bad_records_may_have_a_column() -> None:
    found = columns({"value.format": "string", "badRecords": "column", "includeHeaders": "true"})
    assert found.names == [*PLAIN, "headers", "badRecord"]
    assert found["badRecord"].dataType.simpleString() == "struct<field:string,reason:string,bytes:binary>"


def test_with_a_ddl_schema_all_other_columns_are_rendered_as_ddl_too() -> None:
    key = StructType([StructField("a`b", ArrayType(LongType())), StructField("m", MapType(StringType(), LongType()))])
    found = read_schema(
        MINIMAL
        | {
            "key.format": "json",
            "key.schema": key.json(),
            "value.format": "json",
            "value.schema": "id BIGINT, tags ARRAY<STRING>",
            "includeHeaders": "true",
        }
    )
    assert found == (
        "key STRUCT<`a``b`: ARRAY<BIGINT>, `m`: MAP<STRING, BIGINT>>, value STRUCT<id BIGINT, tags ARRAY<STRING>>, "
        "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
        "headers ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>"
    )


def test_json_needs_a_schema_from_the_option_or_the_read() -> None:
    with pytest.raises(ConfigError, match=r"option 'value.schema' is missing: .*`.schema"):
        read_schema(MINIMAL | {"value.format": "json"})
    check(StructType([StructField("value", ID)]), {"value.format": "json"})
    check(StructType([StructField("value", ID)]), {"value.format": "json", "value.schema": "other STRING"})


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        (StructType([StructField("valeu", BinaryType())]), {}, "there is no column 'valeu'"),
        (StructType([StructField("headers", BinaryType())]), {}, "set the option 'includeHeaders'"),
        (StructType([StructField("badRecord", BinaryType())]), {}, "set the option 'badRecords' to 'column'"),
        (StructType([StructField("value", StringType())]), {}, "column 'value' is binary, not string"),
        (StructType([StructField("value", TimestampNTZType())]), {"value.format": "json"}, "timestamp_ntz"),
        (StructType([StructField("value", BinaryType())]), {"value.format": "string"}, "is string, not binary"),
    ],
)
def test_missing_and_mistyped_columns_are_refused(schema: StructType, given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(schema, given)


def test_the_bad_record_column_needs_a_decoded_column_beside_it() -> None:
    given = {"value.format": "string", "badRecords": "column"}
    bad = columns(given)["badRecord"]
    check(StructType([StructField("value", StringType()), bad]), given)
    with pytest.raises(ConfigError, match="read that, too"):
        check(StructType([bad]), given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fail", BadRecordPolicy()),
        ("Column", BadRecordPolicy(has_column=True)),
        ("topic:Dead.letters-1", BadRecordPolicy(topic="Dead.letters-1")),  # type: ignore[arg-type]
    ],
)
def test_the_policy_for_bad_records_is_parsed(text: str, expected: BadRecordPolicy) -> None:
    options = read_options(MINIMAL | {"value.format": "string", "badRecords": text}, is_streaming=False)
    assert options.formats.bad_records == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value.format": "xml"}, "'value.format' is one of json, string, avro, protobuf, registry, binary"),
        ({"value.schema": "id INT"}, "'value.schema' has no meaning where 'value.format' is 'binary'"),
        ({"key.format": "string", "key.schema": "id INT"}, "'key.schema' has no meaning"),
        ({"value.format": "json", "value.message": "Order"}, "'value.message' has no meaning"),
        ({"value.format": "avro"}, "'value.schema' is missing"),
        ({"value.format": "protobuf", "value.schema": " "}, "'value.schema' is missing"),
        ({"value.format": "protobuf", "value.schema": "AAA"}, "neither a .proto file nor base64"),
        ({"badRecords": "column"}, "'badRecords' has no meaning without"),
        ({"value.format": "json", "badRecords": "drop"}, "'badRecords' is 'fail', 'column' or 'topic:'"),
        ({"value.format": "json", "badRecords": "topic:"}, "'badRecords' is 'fail', 'column' or 'topic:'"),
        ({"value.format": "json", "badRecords": "topic:orders"}, "names a topic that is read here"),
    ],
)
def test_invalid_options_are_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(MINIMAL | given, is_streaming=False)


@pytest.mark.parametrize("choice", [{"subscribePattern": "dead.*"}, {"assign": '{"dead-letters": [0]}'}])
def test_a_read_that_includes_its_own_dead_letter_topic_is_refused(choice: dict[str, Any]) -> None:
    given = {"bootstrap.servers": "a:1", "value.format": "json", "badRecords": "topic:dead-letters"}
    with pytest.raises(ConfigError, match="bad records would come back"):
        read_options(given | choice, is_streaming=False)
