"""Rows of a task: decoded values have their types, and bad records follow the user's policy."""

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.ids import TopicName, TopicPartition
from headwater.spark.options.read_options import read_options
from headwater.spark.reads.bad_records import COLUMN_TYPE, BadRecord
from headwater.spark.reads.typed_rows import TypedRows

if TYPE_CHECKING:
    from headwater.testing import Broker

PARTITION = TopicPartition(TopicName("orders"), 3)
ID = StructType([StructField("id", LongType())])
KEY, VALUE = StructField("key", StringType()), StructField("value", ID)
OFFSET, BAD = StructField("offset", LongType()), StructField("badRecord", COLUMN_TYPE)
FORMATS = {"key.format": "string", "value.format": "json"}


def rows_of(schema: StructType, given: Mapping[str, str] = FORMATS, servers: str = "localhost:1") -> TypedRows:
    options = read_options({"bootstrap.servers": servers, "subscribe": "orders", **given}, is_streaming=False)
    options = pickle.loads(pickle.dumps(options))
    return TypedRows(options.formats, schema, PARTITION, options.broker_address)


def raw(rows: TypedRows, *records: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "key": [key for key, _ in records],
        "value": [value for _, value in records],
        "offset": list(range(100, 100 + len(records))),
        "headers": [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}]] * len(records),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in rows.raw_schema.names}, schema=rows.raw_schema)


def typed(rows: TypedRows, schema: StructType, *records: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    batch = rows.typed(raw(rows, *records))
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    batch.validate(full=True)
    return batch.to_pylist()


def test_rows_have_the_columns_and_types_of_the_schema_only() -> None:
    schema = StructType([VALUE, KEY])
    rows = rows_of(schema)
    assert rows.raw_schema.names == ["value", "key", "offset"]
    assert typed(rows, schema, (b"a", b'{"id": 1}'), (None, None)) == [
        {"value": {"id": 1}, "key": "a"},
        {"value": None, "key": None},
    ]


def test_without_formats_rows_stay_as_they_are() -> None:
    rows = rows_of(StructType([OFFSET]), {})
    batch = raw(rows, (b"", b""))
    assert rows.raw_schema.names == ["offset"]
    assert rows.typed(batch) is batch


def test_columns_that_are_not_read_are_not_decoded() -> None:
    schema = StructType([OFFSET])
    assert typed(rows_of(schema), schema, (b"\xff", b"{")) == [{"offset": 100}]


def test_a_bad_record_fails_the_read_and_is_named() -> None:
    schema = StructType([KEY, VALUE])
    rows = rows_of(schema)
    with pytest.raises(BadRecord) as caught:
        rows.typed(raw(rows, (b"a", b"{}"), (b"b", b'{"id": "x"}'), (b"\xff", b"{")))
    assert str(caught.value) == (
        'the value at offset 101 of orders-3 does not decode: id: expected bigint, found "x". '
        "Set the option 'badRecords' to read past it"
    )


def test_bad_records_are_shown_in_a_column() -> None:
    schema = StructType([KEY, VALUE, BAD])
    rows = rows_of(schema, FORMATS | {"badRecords": "column"})
    good = (b"a", b'{"id": 1}')
    found = typed(rows, schema, good, (b"b", b"{"), (b"\xff", b"["), (None, None))
    assert [(row["key"], row["value"]) for row in found] == [("a", {"id": 1}), ("b", None), (None, None), (None, None)]
    bad = [row["badRecord"] for row in found]
    assert [bad[0], bad[3]] == [None, None]
    assert (bad[1]["field"], bad[1]["bytes"]) == ("value", b"{")
    assert (bad[2]["field"], bad[2]["bytes"]) == ("key", b"\xff")
    assert typed(rows, schema, good)[0]["badRecord"] is None


def test_the_bad_record_column_need_not_be_read() -> None:
    schema = StructType([VALUE])
    rows = rows_of(schema, FORMATS | {"badRecords": "column"})
    assert typed(rows, schema, (None, b"{"), (None, b"{}")) == [{"value": None}, {"value": {"id": None}}]


def test_bad_records_are_written_to_their_topic_before_good_rows_are_returned(
    headwater_broker: "Broker", topic: str
) -> None:
    schema = StructType([VALUE])
    rows = rows_of(schema, FORMATS | {"badRecords": f"topic:{topic}"}, headwater_broker.bootstrap_servers)
    assert rows.raw_schema.names == ["value", "offset", "key", "headers"]

    found = typed(rows, schema, (b"a", b'{"id": 1}'), (b"k", b"{"), (None, None), (None, b"\xff"))
    assert found == [{"value": {"id": 1}}, {"value": None}]
    assert typed(rows, schema, (b"k", b"}")) == []
    assert typed(rows, schema, (b"k", b"{}")) == [{"value": {"id": None}}]

    letters = sorted(read_all(headwater_broker, topic), key=lambda each: dict(each.headers)["headwater.offset"])
    assert [(each.key, each.value) for each in letters] == [(b"k", b"}"), (b"k", b"{"), (None, b"\xff")]
    assert letters[2].headers[:2] == (("h", b"1"), ("n", None))
    about = dict(letters[2].headers)
    assert about["headwater.reason"] == b"not UTF-8: invalid start byte at byte 0"
    assert about["headwater.field"] == b"value"
    assert about["headwater.topic"] == b"orders"
    assert about["headwater.partition"] == b"3"
    assert about["headwater.offset"] == b"103"


def read_all(broker: "Broker", topic: str) -> list[Any]:
    with Cluster(broker.bootstrap_servers) as cluster:
        partitions = [TopicPartition(TopicName(topic), each.index) for each in cluster.topic(topic).partitions]
        consumer = Consumer(cluster, dict.fromkeys(partitions, 0))
        found: list[Any] = []
        while len(found) < 3:
            found += consumer.poll()
        return found
