"""Columns with the types of a registry in a real session, written and read, also by a stream."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.client.registry.schema_registry import Schema, SchemaRegistry
from headwater.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
WITH_NOTE = ORDER.replace("]}", ',{"name":"note","type":"string","default":"-"}]}')


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true", "num.partitions": "1"}, http=True) as running:
        yield running


def test_rows_are_written_with_one_version_and_read_as_another(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    common = {
        "bootstrap.servers": broker.bootstrap_servers,
        "schema.registry.url": broker.http_url,
        "value.format": "registry",
    }
    with SchemaRegistry(broker.http_url) as registry:
        registry.register("orders-value", Schema(ORDER))
        first = spark.sql("SELECT struct(id) AS value FROM range(3)")
        first.write.format("headwater").options(**common, topic="orders").mode("append").save()
        registry.register("orders-value", Schema(WITH_NOTE))
    second = spark.sql("SELECT struct(7L AS id, 'x' AS note) AS value")
    second.write.format("headwater").options(**common, topic="orders").mode("append").save()

    rows = spark.read.format("headwater").options(**common, subscribe="orders").load().select("value.*").collect()
    assert sorted(tuple(row) for row in rows) == [(0, "-"), (1, "-"), (2, "-"), (7, "x")]

    reader = spark.readStream.format("headwater").options(**common, subscribe="orders", startingOffsets="earliest")
    query = (
        reader.load()
        .select("value")
        .writeStream.format("headwater")
        .options(**common, topic="copies", **{"value.subject": "orders-value"})
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = spark.read.format("headwater").options(**common, subscribe="copies")
    copies = copied.option("value.subject", "orders-value").load().select("value.*").collect()
    assert sorted(tuple(row) for row in copies) == [(0, "-"), (1, "-"), (2, "-"), (7, "x")]
