"""How far queries are behind, from Spark's progress of them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.spark import SourceLag, source_lags
from headwater.testing import Broker
from tests.support.spark.reads import numbered, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_with_limited_batches_tells_what_is_left(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    Admin(cluster).create_topic(topic, partition_count=3)
    produce(cluster, topic, numbered(60), partition=0)
    produce(cluster, topic, numbered(30), partition=1)
    options = {"bootstrap.servers": headwater_broker.bootstrap_servers, "subscribe": topic}
    reader = spark.readStream.format("headwater").options(**options, startingOffsets="earliest")
    rows = reader.option("maxOffsetsPerTrigger", "45").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))

    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    assert [source_lags(progress) for progress in query.recentProgress if progress.numInputRows] == [
        [SourceLag((topic,), 3, total=45, minimum=0, maximum=30, average=15.0)],
        [SourceLag((topic,), 3, total=0, minimum=0, maximum=0, average=0.0)],
    ]
    (lag,) = source_lags(query.recentProgress[0])
    assert str(lag) == f"{topic} (3 partitions): 45 offsets behind, 0 to 30 a partition, 15.0 on average"


def test_progress_is_taken_in_every_form_and_other_sources_are_left_out() -> None:
    sources: list[dict[str, Any]] = [
        {"description": "rate", "endOffset": 5, "latestOffset": 6},
        {"description": "x", "endOffset": None, "latestOffset": None},
        {"endOffset": {"a": {"0": 4}}, "latestOffset": {"a": {"0": 10}, "b": {"1": 2}}},
    ]
    progress = {"sources": sources}

    found = source_lags(progress)

    assert found == [SourceLag(("a", "b"), 2, total=8, minimum=2, maximum=6, average=4.0)]
    assert source_lags(json.dumps(progress)) == found
    assert source_lags({"sources": [{**sources[2], "latestOffset": json.dumps(sources[2]["latestOffset"])}]}) == found
    assert source_lags(None) == []
