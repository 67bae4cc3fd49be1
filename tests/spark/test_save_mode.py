"""`df.write.format("headwater").save()` appends, as with Spark's Kafka sink."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from pyspark.errors import AnalysisException

from headwater.client.cluster import Cluster
from headwater.pipelines import sessions
from headwater.testing import Broker
from tests.spark.recipes.recipes import Topics
from tests.support.spark import sessions as shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVES: dict[str, Callable[[Any], None]] = {
    "default": lambda writer: writer.format("headwater").save(),
    "mode first": lambda writer: writer.mode("error").format("headwater").save(),
    "as arguments": lambda writer: writer.save(format="HeadWater", mode="errorifexists"),
    "append": lambda writer: writer.format("headwater").mode("append").save(),
}


def written(spark: "SparkSession", headwater_broker: Broker, topic: str, value: str) -> Any:
    rows = spark.createDataFrame([(value,)], "value string")
    return rows.write.option("bootstrap.servers", headwater_broker.bootstrap_servers).option("topic", topic)


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in Topics(cluster).received(topic)]


def test_a_write_without_a_mode_appends(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    for name, save in SAVES.items():
        save(written(spark, headwater_broker, topic, name))

    assert sorted(values(cluster, topic), key=str) == sorted((name.encode() for name in SAVES), key=str)


def test_other_modes_and_other_formats_are_as_ever(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(AnalysisException, match="cannot be overwritten: write with mode"):
        written(spark, headwater_broker, topic, "x").format("headwater").mode("overwrite").save()
    written(spark, headwater_broker, topic, "x").format("headwater").format("json").save(str(tmp_path / "rows"))
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        written(spark, headwater_broker, topic, "y").format("json").save(str(tmp_path / "rows"))

    assert values(cluster, topic) == []


def test_a_write_through_connect_appends(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    from pyspark.sql.connect.readwriter import DataFrameWriter

    from headwater.spark.save_mode import append_by_default

    append_by_default(DataFrameWriter)
    with patch.dict(os.environ, {sessions._TOKEN: shared._TOKEN}):
        remote = sessions._connect(f"sc://localhost:{sessions._port(spark)}")
        try:
            written(remote, headwater_broker, topic, "x").format("headwater").save()
        finally:
            remote.stop()

    assert values(cluster, topic) == [b"x"]
