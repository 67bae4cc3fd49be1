"""The short pass over Spark in `make test`: batches, exactly-once streams and a pipeline, in one shared session."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipelines import template
from headwater.testing import Broker
from tests.support.spark.checkpoints import batches_done, replay_last_batch
from tests.support.spark.sessions import SharedSparkCommands
from tests.support.spark.written import create, messages, open_transactions, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of this module's own, not the shared one: new projects use fixed topic names."""
    with Broker() as running:
        yield running


@pytest.fixture
def commands(spark: "SparkSession", broker: Broker) -> SharedSparkCommands:
    return SharedSparkCommands(broker.bootstrap_servers, spark)


def test_a_batch_is_written_and_read_again(spark: "SparkSession", broker: Broker) -> None:
    create(broker, "batch")
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id * 2 as string) value")

    rows.write.format("headwater").options(**servers, topic="batch").mode("append").save()
    found = spark.read.format("headwater").options(**servers, subscribe="batch").load()

    doubled = found.selectExpr("cast(cast(key as string) as int) id", "cast(cast(value as string) as int) twice")
    assert sorted(map(tuple, doubled.collect())) == [(number, 2 * number) for number in range(100)]
    assert sorted((each.key, each.value) for each in messages(broker, "batch")) == sorted(
        (b"%d" % number, b"%d" % (2 * number)) for number in range(100)
    )


def test_a_stream_is_copied_exactly_once_although_its_last_batch_is_replayed(
    spark: "SparkSession", broker: Broker, commands: SharedSparkCommands, tmp_path: Path
) -> None:
    for name in ("source", "copy"):
        create(broker, name, 2)
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    read = spark.readStream.format("headwater").options(**servers, subscribe="source", maxOffsetsPerTrigger="6")
    rows = read.option("startingOffsets", "earliest").load().selectExpr("key", "value")

    def copy(*given: int) -> str:
        """Write these values to the source, and run the query until it has copied all available records."""
        commands.succeed("produce", "source", "--quiet", typed="\n".join(map(str, given)).encode())
        writer = rows.writeStream.format("headwater").options(**servers, topic="copy").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        assert query.awaitTermination(TIMEOUT_S)
        return str(query.id)

    query_id = copy(*range(10))
    batches = batches_done(tmp_path)
    replay_last_batch(tmp_path)
    assert copy(*range(10, 15)) == query_id

    assert batches > 1
    assert values(broker, "copy") == sorted(map(str, range(15)))
    assert open_transactions(broker, query_id) == []


def test_a_new_project_runs_as_it_is(commands: SharedSparkCommands, tmp_path: Path) -> None:
    template.write(tmp_path, "sales")
    for topic in ("orders", "revenue"):
        commands.succeed("topic", "create", topic, "--partitions", "1")
    orders = [
        {"order_id": number, "product": "tea", "quantity": quantity, "price": 2.5, "ordered_at": ordered_at}
        for number, (quantity, ordered_at) in enumerate(
            [(2, "2025-06-01T12:00:10Z"), (-1, "2025-06-01T12:00:20Z"), (4, "2025-06-01T12:00:30Z")]
        )
    ]
    # Its timestamp closes the minute of the others.
    orders.append({**orders[0], "order_id": 9, "ordered_at": "2025-06-01T12:05:00Z"})
    commands.succeed("produce", "orders", "--quiet", typed="\n".join(map(json.dumps, orders)).encode())

    commands.succeed("pipeline", "run", str(tmp_path / "sales"), "--once", "--interval", "100ms")

    (row,) = map(json.loads, commands.succeed("consume", "revenue", "--from", "beginning").lines)
    assert (row["product"], row["minute"], row["orders"], row["revenue"]) == ("tea", "2025-06-01T12:00:00.000Z", 2, 15)
    (status,) = commands.succeed("pipeline", "status", str(tmp_path / "sales"), "--format", "json").rows
    assert (status["status"], status["error"], status["runs"]) == ("stopped", None, 1)
