"""Formats in a real session: schemas and rows as Spark sees them."""

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROTO = 'syntax = "proto3"; message Order { int64 id = 1; map<string, int32> counts = 2; }'
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def load(spark: "SparkSession", broker: Broker, topic: str, **options: str) -> "DataFrame":
    return reader(spark, broker, topic, options).load()


def reader(spark: "SparkSession", broker: Broker, topic: str, options: dict[str, str]) -> Any:
    chosen = {"bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    named = {name.replace("_", "."): value for name, value in options.items()}
    return spark.read.format("headwater").options(**chosen, **named)


def produce(cluster: Cluster, topic: str, *values: bytes | None) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    with Producer(cluster) as producer:
        for value in values:
            producer.send(topic, value, key=b"k")


def test_json_with_a_ddl_schema_gives_columns(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, b'{"id": 1, "price": 2.5, "tags": ["a"], "counts": {"x": 1}}', None, b"{}")
    schema = "id BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>, counts MAP<STRING, INT>"
    orders = load(spark, headwater_broker, topic, key_format="string", value_format="json", value_schema=schema)

    assert orders.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    found = orders.orderBy("offset").select("key", "value.*").collect()
    assert [tuple(row) for row in found] == [
        ("k", 1, Decimal("2.50"), ["a"], {"x": 1}),
        ("k", None, None, None, None),
        ("k", None, None, None, None),
    ]
    assert orders.where("value.id = 1").count() == 1
    assert orders.where("value IS NULL").count() == 1


def test_the_schema_of_the_read_types_json_values(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, b'{"id": 1, "at": "2026-01-31T12:00:00Z"}')
    chosen = reader(spark, headwater_broker, topic, {"value_format": "json"})
    orders = chosen.schema("value STRUCT<id: BIGINT, at: TIMESTAMP>, offset BIGINT").load()
    found = orders.selectExpr("value.id", "unix_seconds(value.at) AS at", "offset").collect()
    assert [tuple(row) for row in found] == [(1, 1_769_860_800, 0)]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"value_format": "avro", "value_schema": AVRO}, b"\x0a"),
        ({"value_format": "protobuf", "value_schema": PROTO}, b"\x08\x05"),
    ],
)
def test_avro_and_protobuf_schemas_give_the_column_types(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, options: dict[str, str], value: bytes
) -> None:
    produce(cluster, topic, value)
    assert [row["id"] for row in load(spark, headwater_broker, topic, **options).select("value.id").collect()] == [5]


def test_a_bad_record_fails_the_query_and_is_named(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, b"{}", b"{")
    orders = load(spark, headwater_broker, topic, value_format="json", value_schema="id INT")
    with pytest.raises(Exception, match=f"the value at offset 1 of {topic}-0 does not decode"):
        orders.collect()


def test_bad_records_are_shown_in_a_column(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, b'{"id": 1}', b"{")
    orders = load(
        spark, headwater_broker, topic, value_format="json", value_schema="id INT", badRecords="column"
    ).orderBy("offset")
    found = orders.selectExpr("value.id", "badRecord.field", "badRecord.bytes").collect()
    assert [tuple(row) for row in found] == [(1, None, None), (None, "value", bytearray(b"{"))]


def test_a_stream_sends_bad_records_to_their_topic(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    produce(cluster, topic, b'{"id": 1}', b"{", b'{"id": 2}')
    query = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", headwater_broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .option("value.schema", "id INT")
        .option("badRecords", f"topic:{topic}-dead")
        .load()
        .select("value.id")
        .writeStream.format("memory")
        .queryName(topic.replace("-", "_"))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)

    assert sorted(row["id"] for row in spark.table(topic.replace("-", "_")).collect()) == [1, 2]
    dead = load(spark, headwater_broker, f"{topic}-dead", includeHeaders="true").collect()
    assert [bytes(row["value"]) for row in dead] == [b"{"]
    assert {header["key"]: bytes(header["value"]) for header in dead[0]["headers"]}["headwater.offset"] == b"1"


def test_an_error_in_a_schema_is_reported_when_the_query_is_planned(
    spark: "SparkSession", headwater_broker: Broker, topic: str
) -> None:
    with pytest.raises(Exception, match=r"'value\.schema' is missing"):
        load(spark, headwater_broker, topic, value_format="avro").collect()
    orders = {"value_format": "json", "value_schema": "id BIGINT NOT NULL"}
    with pytest.raises(Exception, match=r"value\.id is NOT NULL"):
        load(spark, headwater_broker, topic, **orders).collect()
