"""Streaming reads in a real Spark session: triggers, restarts, growth, and the group that shows their progress."""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin
from headwater.testing import Broker
from tests.support.cli.commands import Commands
from tests.support.spark.reads import numbered, one, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WAIT_S = 120


class Streams:
    """Queries that keep the values of each batch in `batches`, and their offsets under `directory`."""

    def __init__(self, spark: "SparkSession", servers: str, directory: Path) -> None:
        self.batches: list[list[str]] = []
        self.fails = False
        self._spark = spark
        self._servers = servers
        self._directory = directory
        self._started: list[StreamingQuery] = []

    @property
    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]

    def writer(self, **given: str) -> "DataStreamWriter":
        read = self._spark.readStream.format("headwater").option("kafka.bootstrap.servers", self._servers)
        rows = read.options(**given).load()
        return rows.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self._directory))

    def start(self, writer: "DataStreamWriter") -> "StreamingQuery":
        query = writer.start()
        self._started.append(query)
        return query

    def run(self, writer: "DataStreamWriter") -> "StreamingQuery":
        """Run the query with the availableNow trigger until it ends."""
        query = self.start(writer.trigger(availableNow=True))
        assert query.awaitTermination(WAIT_S)
        return query

    def stop(self) -> None:
        for query in self._started:
            query.stop()

    def _keep(self, rows: "DataFrame", _: int) -> None:
        if self.fails:
            raise RuntimeError("on purpose")
        found = rows.selectExpr("topic", "partition", "offset", "cast(value as string) as value").collect()
        self.batches.append([row.value for row in sorted(found)])


@pytest.fixture
def streams(spark: "SparkSession", headwater_broker: Broker, tmp_path: Path) -> Generator[Streams]:
    started = Streams(spark, headwater_broker.bootstrap_servers, tmp_path / "checkpoint")
    yield started
    started.stop()


def texts(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def test_available_now_reads_in_limited_batches_and_a_restart_reads_exactly_the_rest(
    streams: Streams, headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    produce(cluster, topic, numbered(10))
    given = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "minPartitions": "2",
        "groupIdPrefix": topic,
    }

    streams.run(streams.writer(**given).queryName(f"named {topic}"))

    assert streams.batches == [texts(4), texts(4, 4), texts(2, 8)]

    produce(cluster, topic, numbered(3, 10))
    group = f"{topic}-named {topic}"
    commands = Commands(headwater_broker.bootstrap_servers)
    shown = commands.succeed("group", "describe", group, "--format", "json").output.decode()
    assert '"lag": 3' in shown
    streams.run(streams.writer(**given).queryName(f"named {topic}"))

    assert streams.batches[3:] == [texts(3, 10)]
    assert GroupAdmin(cluster).committed(group)[one(topic)].offset == 13
    groups = [each.group_id for each in GroupAdmin(cluster).list_groups() if each.group_id.startswith(topic)]
    assert groups == [group], "no group that only introduced a query is left"


def test_a_running_query_picks_up_partitions_and_topics(streams: Streams, cluster: Cluster, topic: str) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    given = {
        "subscribePattern": f"{topic}.*",
        "startingOffsets": "earliest",
        # The minimum is never reached: each batch begins after the maximum delay.
        "minOffsetsPerTrigger": "1000",
        "maxTriggerDelay": "100ms",
    }
    produce(cluster, topic, [b"first"])
    query = streams.start(streams.writer(**given).trigger(processingTime="50 milliseconds"))
    await_values(streams, query, ["first"])

    Admin(cluster).add_partitions(topic, 2)
    cluster.forget([topic])
    produce(cluster, topic, [b"of a new partition"], partition=1)
    await_values(streams, query, ["first", "of a new partition"])
    produce(cluster, f"{topic}.new", [b"of a new topic"])
    await_values(streams, query, ["first", "of a new partition", "of a new topic"])

    group = f"headwater-spark-{query.id}"
    while GroupAdmin(cluster).committed(group).get(one(f"{topic}.new"), (0,))[0] < 1:
        assert query.exception() is None
    progress = query.lastProgress
    assert progress is not None
    assert progress["sources"][0]["endOffset"] is not None


def test_a_query_from_the_end_loses_nothing_if_it_fails_in_its_first_batch(
    streams: Streams, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    produce(cluster, topic, [b"before"])
    writer = streams.writer(subscribe=topic, startingOffsets="latest", **{"group.id": f"group of {topic}"})
    streams.fails = True
    with pytest.raises(StreamingQueryException, match="on purpose"):
        streams.run(writer)
    produce(cluster, topic, [b"after"])
    streams.fails = False

    streams.run(writer)

    assert streams.values == ["after"]
    assert GroupAdmin(cluster).committed(f"group of {topic}")[one(topic)].offset == 2


def test_a_query_overtaken_by_retention_reports_it_and_goes_on_if_allowed(
    streams: Streams, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    produce(cluster, topic, numbered(4))
    given = {"assign": f'{{"{topic}": [0]}}', "startingTimestamp": "0"}
    streams.run(streams.writer(**given))
    produce(cluster, topic, numbered(4, 4))
    Admin(cluster).delete_records({one(topic): 6})

    with pytest.raises(StreamingQueryException, match=f"data loss in {topic}-0: expected offset 4, the earliest is 6"):
        streams.run(streams.writer(**given))
    streams.run(streams.writer(**given, failOnDataLoss="false"))

    assert streams.values == [*texts(4), *texts(2, 6)]


def await_values(streams: Streams, query: "StreamingQuery", expected: list[str]) -> None:
    while streams.values != expected:
        query.processAllAvailable()
        assert len(streams.values) <= len(expected)
