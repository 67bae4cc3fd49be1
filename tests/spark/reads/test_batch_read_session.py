"""Batch reads in a real Spark session."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer as ConfluentProducer
from pyspark.errors import AnalysisException, PySparkException

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.protocol.batches.batch import Codec
from headwater.testing import Broker
from tests.support.spark.reads import numbered, one, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def reader(spark: "SparkSession", headwater_broker: Broker) -> "DataFrameReader":
    return spark.read.format("headwater").option("bootstrap.servers", headwater_broker.bootstrap_servers)


def test_rows_have_the_columns_types_and_values_of_sparks_kafka_source(
    reader: "DataFrameReader", cluster: Cluster, topic: str
) -> None:
    with Producer(cluster) as producer:
        producer.send(topic, b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_123, headers=(("h", b"x"),))
        producer.send(topic, None, partition=2, timestamp_ms=0)

    found = reader.option("subscribe", topic).option("includeHeaders", "true").load()

    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    shown = found.selectExpr("*", "cast(timestamp as string) as text", "unix_millis(timestamp) as ms").orderBy("topic")
    first, second = sorted(shown.collect(), key=lambda row: row.partition)
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset) == (topic, 1, 0)
    assert (first.text, first.ms, first.timestampType) == ("2023-11-14 22:13:20.123", 1_700_000_000_123, 0)
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"x")]
    assert (second.key, second.value, second.headers, second.text) == (None, None, None, "1970-01-01 00:00:00")


def test_a_schema_prunes_columns_and_all_tasks_together_read_each_record_once(
    reader: "DataFrameReader", cluster: Cluster, topic: str
) -> None:
    for index, codec in enumerate(Codec):
        produce(cluster, topic, numbered(4_000, 4_000 * index), partition=index % 3, codec=codec)

    read = reader.option("subscribe", topic).option("minPartitions", "5").schema("value binary, offset long")
    found = read.load().selectExpr("count(*)", "count(distinct value)", "sum(cast(cast(value as string) as long))")

    assert tuple(found.collect()[0]) == (20_000, 20_000, sum(range(20_000)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "TOPIC"}, 60),
        ({"subscribePattern": "TOPI."}, 0),
        ({"subscribePattern": "TOPIC.*"}, 60),
        ({"assign": '{"TOPIC": [0, 2]}', "startingOffsets": '{"TOPIC": {"0": 15, "2": -2}}'}, 25),
        ({"subscribe": "TOPIC", "endingOffsets": '{"TOPIC": {"0": 1, "1": 2, "2": 3}}'}, 6),
        ({"subscribe": "TOPIC", "startingTimestamp": str(int(START.timestamp() + 17 * 60) * 1000)}, 9),
        ({"subscribe": "TOPIC", "endingTimestamp": str(int(START.timestamp() + 2 * 60) * 1000)}, 6),
        (
            {
                "assign": '{"TOPIC": [1]}',
                "startingOffsetsByTimestamp": f'{{"TOPIC": {{"1": {int(START.timestamp() + 5 * 60) * 1000}}}}}',
                "endingOffsetsByTimestamp": f'{{"TOPIC": {{"1": {int(START.timestamp() + 9 * 60) * 1000}}}}}',
            },
            4,
        ),
        ({"subscribe": "TOPIC", "startingTimestamp": str(2**45), "startingOffsetsByTimestampStrategy": "latest"}, 0),
    ],
)
def test_topics_and_bounds_choose_the_rows(
    reader: "DataFrameReader", cluster: Cluster, topic: str, options: dict[str, str], expected: int
) -> None:
    times_ms = [int((START + timedelta(minutes=number)).timestamp() * 1000) for number in range(20)]
    Admin(cluster).create_topic(topic, partition_count=3, settings={"retention.ms": "-1"})
    for partition in range(3):
        produce(cluster, topic, numbered(20), partition=partition, times_ms=times_ms)

    given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    assert reader.options(**given).load().count() == expected


def test_open_transactions_are_read_only_with_read_uncommitted(
    reader: "DataFrameReader", headwater_broker: Broker, topic: str
) -> None:
    settings = {"bootstrap.servers": headwater_broker.bootstrap_servers, "transactional.id": topic}
    producer = ConfluentProducer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    reader.option("subscribe", topic)

    assert reader.load().count() == 0
    assert reader.option("isolation.level", "read_uncommitted").load().count() == 1
    producer.abort_transaction()


def test_an_empty_topic_is_an_empty_table(reader: "DataFrameReader", cluster: Cluster, topic: str) -> None:
    Admin(cluster).create_topic(topic)
    assert reader.option("subscribe", topic).load().collect() == []


def test_a_limit_abandons_tasks_early_and_the_next_query_reads_all(
    reader: "DataFrameReader", cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, [bytes(1000)] * 20_000)
    found = reader.option("subscribe", topic).load()

    for _ in range(2):
        assert len(found.limit(3).collect()) == 3
        assert found.count() == 20_000


def test_filters_are_pushed_down_and_a_time_range_reads_only_its_part(
    reader: "DataFrameReader", cluster: Cluster, topic: str
) -> None:
    times_ms = [int((START + timedelta(hours=number)).timestamp() * 1000) for number in range(100)]
    Admin(cluster).create_topic(topic, partition_count=2, settings={"retention.ms": "-1"})
    for partition in range(2):
        produce(cluster, topic, numbered(100), partition=partition, times_ms=times_ms)
    read = reader.option("subscribe", topic).option("timestampOrder", "rising")
    condition = "timestamp >= '2026-01-03 00:00:00' and timestamp < '2026-01-03 02:00:00' and partition = 1"

    # One task per offset, so that the number of tasks shows how many offsets are read.
    found = read.option("maxRecordsPerPartition", "1").load().where(condition)

    assert found.rdd.getNumPartitions() == 3, "48 and 49, and 50, which has the time where the range ends"
    assert sorted(row.offset for row in found.collect()) == [48, 49]
    assert reader.option("pushFilters", "false").load().where(condition).rdd.getNumPartitions() == 200


def test_filter_pushdown_is_refused_by_spark_unless_the_session_allows_it(
    reader: "DataFrameReader", cluster: Cluster, topic: str, spark: "SparkSession"
) -> None:
    produce(cluster, topic, numbered(3))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert reader.option("subscribe", topic).load().where("offset = 1").count() == 1, "but only if it is asked for"
        with pytest.raises(AnalysisException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
            reader.option("subscribe", topic).option("pushFilters", "true").load().where("offset = 1").count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_errors_reach_the_user(reader: "DataFrameReader", cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, numbered(10))
    with pytest.raises(PySparkException, match="did you mean 'startingOffsets'"):
        reader.option("subscribe", topic).option("startingOffset", "earliest").load()


def test_a_data_loss_is_reported_with_partition_and_offsets(
    reader: "DataFrameReader", cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, numbered(10))
    Admin(cluster).delete_records({one(topic): 4})
    offsets = json.dumps({topic: {"0": 1, "1": 0, "2": 0}})
    read = reader.option("subscribe", topic).option("startingOffsets", offsets)

    with pytest.raises(PySparkException, match=f"data loss in {topic}-0: expected offset 1, the earliest is 4"):
        read.load().collect()
    assert read.option("failOnDataLoss", "false").load().count() == 6
