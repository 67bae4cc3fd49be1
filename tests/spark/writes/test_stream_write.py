"""Streaming writes through a real session: output modes, delivery modes, and replays of published batches."""

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from headwater.client.cluster import Cluster
from headwater.client.transactions.admin import TransactionAdmin
from headwater.spark.options.write_options import write_options
from headwater.spark.writes.task_writer import publish_tasks, write_task
from headwater.testing import Broker
from tests.support.spark.written import create, messages, open_transactions, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 2
TIMEOUT_S = 120


@pytest.fixture
def application() -> str:
    return f"app-{uuid4().hex[:12]}"


@pytest.fixture
def source(headwater_broker: Broker, topic: str) -> str:
    name = f"{topic}-source"
    create(headwater_broker, name, PARTITIONS)
    create(headwater_broker, topic, PARTITIONS)
    return name


def feed(broker: Broker, source: str, *given: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in given:
        producer.produce(source, value.encode(), key=value.encode())
    producer.flush()


def stream(spark: "SparkSession", broker: Broker, source: str, **given: str) -> "DataFrame":
    reader = spark.readStream.format("headwater").options(**{"bootstrap.servers": broker.bootstrap_servers})
    return reader.options(subscribe=source, startingOffsets="earliest", **given).load()


def run(
    rows: "DataFrame", broker: Broker, checkpoint: Path, *, output_mode: str = "append", **given: str
) -> "StreamingQuery":
    """Run the query until all available rows are written."""
    writer = rows.writeStream.format("headwater").options(**{"bootstrap.servers": broker.bootstrap_servers}, **given)
    query = (
        writer.option("checkpointLocation", str(checkpoint)).outputMode(output_mode).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    return query


def applications(broker: Broker, prefix: str) -> dict[str, int | None]:
    """The last batch that each application has published."""
    with Cluster(broker.bootstrap_servers) as cluster:
        transactions = TransactionAdmin(cluster)
        found = [each.transactional_id for each in transactions.list_transactions(pattern=f"{prefix}.*")]
        return {
            each: transactions.describe_transaction(each).published_batch_id for each in found if "staging" not in each
        }


def test_rows_are_appended_exactly_once_across_restarts(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, tmp_path: Path
) -> None:
    rows = stream(spark, headwater_broker, source, maxOffsetsPerTrigger="4").selectExpr("key", "value")

    feed(headwater_broker, source, *map(str, range(10)))
    first = run(rows, headwater_broker, tmp_path, topic=topic)
    feed(headwater_broker, source, *map(str, range(10, 15)))
    second = run(rows, headwater_broker, tmp_path, topic=topic)

    assert first.id == second.id
    assert values(headwater_broker, topic) == sorted(map(str, range(15)))
    ((application, last_id),) = applications(headwater_broker, str(first.id)).items()
    assert application == str(first.id), "a query is an application"
    assert last_id is not None
    assert last_id >= 3
    assert open_transactions(headwater_broker, str(first.id)) == []


def test_a_complete_result_is_written_as_a_whole_each_time(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, tmp_path: Path
) -> None:
    """As with Spark's Kafka sink: a topic is a log."""
    rows = counted(stream(spark, headwater_broker, source))

    feed(headwater_broker, source, "a", "b", "b")
    run(rows, headwater_broker, tmp_path, output_mode="complete", topic=topic)
    feed(headwater_broker, source, "a", "a", "c")
    run(rows, headwater_broker, tmp_path, output_mode="complete", topic=topic)

    assert values(headwater_broker, topic) == sorted(["a=1", "b=2", "a=3", "b=2", "c=1"])


def counted(rows: "DataFrame") -> "DataFrame":
    return rows.groupBy("value").count().selectExpr("value key", "concat(cast(value as string), '=', count) value")


def test_null_values_and_several_topics_are_written(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, tmp_path: Path
) -> None:
    create(headwater_broker, f"{topic}-odd", 1)
    rows = stream(spark, headwater_broker, source).selectExpr(
        "key",
        "nullif(cast(value as string), '2') value",
        f"if(cast(value as string) in ('1', '3'), '{topic}-odd', '{topic}') topic",
    )

    feed(headwater_broker, source, "1", "2", "3", "4")
    run(rows, headwater_broker, tmp_path)

    assert sorted((each.key, each.value) for each in messages(headwater_broker, f"{topic}-odd")) == [
        (b"1", b"1"),
        (b"3", b"3"),
    ]
    assert {each.key: each.value for each in messages(headwater_broker, topic)} == {b"2": None, b"4": b"4"}


def test_at_least_once_writes_without_transactions(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, tmp_path: Path
) -> None:
    rows = stream(spark, headwater_broker, source).selectExpr("key", "value")

    feed(headwater_broker, source, "a", "b")
    query = run(rows, headwater_broker, tmp_path, topic=topic, delivery="at-least-once")

    assert values(headwater_broker, topic) == ["a", "b"]
    assert applications(headwater_broker, str(query.id)) == {}


def test_staged_rows_are_seen_only_with_read_uncommitted(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, application: str, tmp_path: Path
) -> None:
    feed(headwater_broker, source, "a")
    run(stream(spark, headwater_broker, source).selectExpr("value"), headwater_broker, tmp_path, topic=topic)
    servers = {"bootstrap.servers": headwater_broker.bootstrap_servers}
    options = write_options({**servers, "topic": topic}, is_streaming=True)
    staged = write_task(iter([pa.RecordBatch.from_pydict({"value": ["staged"]})]), options, application)

    def read(isolation: str) -> list[str]:
        reader = spark.read.format("headwater").options(**servers, subscribe=topic, **{"isolation.level": isolation})
        return sorted(row.value.decode() for row in reader.load().select("value").collect())

    assert read("read_committed") == ["a"]
    assert read("read_uncommitted") == ["a", "staged"]
    publish_tasks([staged], options, 0)
    assert values(headwater_broker, topic) == ["a", "staged"]


def test_an_application_id_belongs_to_one_checkpoint_and_another_is_refused(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, application: str, tmp_path: Path
) -> None:
    """A batch with the same number must not be taken for a replay and lost."""
    rows = stream(spark, headwater_broker, source).selectExpr("value")
    feed(headwater_broker, source, "a")
    first = run(rows, headwater_broker, tmp_path / "first", topic=topic, applicationId=application)
    assert applications(headwater_broker, application) == {f"{application}::{first.id}": 0}

    with pytest.raises(StreamingQueryException, match=f"another query has written as application '{application}'"):
        run(rows, headwater_broker, tmp_path / "second", topic=topic, applicationId=application)
    assert values(headwater_broker, topic) == ["a"]

    feed(headwater_broker, source, "b")
    run(rows, headwater_broker, tmp_path / "first", topic=topic, applicationId=application)
    assert values(headwater_broker, topic) == ["a", "b"]
    assert open_transactions(headwater_broker, application) == []


def test_for_each_batch_writes_updates_once_to_each_of_two_topics_although_it_fails_in_between(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, application: str, tmp_path: Path
) -> None:
    """Each of the writes is an application of its own; a failed batch is run again as a whole."""
    create(headwater_broker, f"{topic}-copy", 1)
    failures = [RuntimeError("between the writes")]

    def write(batch: "DataFrame", batch_id: int) -> None:
        for name in (topic, f"{topic}-copy"):
            options = {"topic": name, "applicationId": f"{application}-{name}", "applicationVersion": str(batch_id)}
            options["bootstrap.servers"] = headwater_broker.bootstrap_servers
            batch.write.format("headwater").options(**options).mode("append").save()
            if failures:
                raise failures.pop()

    def run_once() -> None:
        rows = counted(stream(spark, headwater_broker, source)).writeStream.outputMode("update")
        query = rows.foreachBatch(write).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S)

    feed(headwater_broker, source, "a", "b", "b")
    with pytest.raises(StreamingQueryException, match="between the writes"):
        run_once()
    run_once()
    feed(headwater_broker, source, "a", "a", "c")
    run_once()

    for name in (topic, f"{topic}-copy"):
        assert values(headwater_broker, name) == ["a=1", "a=3", "b=2", "c=1"]


def test_a_query_that_cannot_write_fails_with_the_reason_and_leaves_no_open_transaction(
    spark: "SparkSession", headwater_broker: Broker, source: str, topic: str, application: str, tmp_path: Path
) -> None:
    rows = stream(spark, headwater_broker, source).selectExpr("value", "if(partition = 0, 0, 9) partition")
    feed(headwater_broker, source, *map(str, range(20)))

    # A task that Spark cannot stop may stage rows after the driver has given up; they are never published.
    with pytest.raises(StreamingQueryException, match=f"a row is for partition 9 of '{topic}'"):
        run(rows, headwater_broker, tmp_path, topic=topic, applicationId=application, stagingTimeoutMs="5000")

    assert messages(headwater_broker, topic) == []
    assert open_transactions(headwater_broker, application) == []
