"""`format("headwater")` against Apache Kafka's own server: reads, and writes that are at least once."""

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from headwater.spark.options.write_options import write_options
from headwater.spark.writes.task_writer import DeliveryUnsupported, write_task
from tests.interop.kafka_server import PASSWORD, KafkaServer
from tests.interop.spark_connectors import Connectors, finish

pytestmark = pytest.mark.interop

ROWS = [(f"key-{number}", f"value {number}") for number in range(1000)]
each_listener = pytest.mark.parametrize("options", ["PLAINTEXT", "SASL_SSL"], indirect=True)

Options = dict[str, str]


@pytest.fixture
def options(request: pytest.FixtureRequest, apache_kafka: KafkaServer) -> Options:
    """With which the connector gets in at the listener that the test's parameter names, and some that it ignores."""
    settings = {
        "bootstrap.servers": apache_kafka.bootstrap_servers(request.param),
        **apache_kafka.settings(request.param),
    }
    ignored = {"fetch.max.bytes": "1000", "max.poll.records": "5"}
    return {f"kafka.{name}": value for name, value in (settings | ignored).items()}


@pytest.fixture
def spark(connectors: Connectors) -> SparkSession:
    """The one session that this process has."""
    return connectors.spark


def write(spark: SparkSession, topic: str, options: Options) -> None:
    rows = spark.createDataFrame(ROWS, "key string, value string")
    rows.write.format("headwater").options(**options, topic=topic).mode("append").save()


def cells(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((bytes(row.key).decode(), bytes(row.value).decode()) for row in frame.collect())


@each_listener
def test_a_batch_is_written_and_read_as_the_connector_of_spark_reads_it(
    spark: SparkSession, options: Options, topic: str, apache_kafka: KafkaServer
) -> None:
    write(spark, topic, options)
    ours = spark.read.format("headwater").options(**options, subscribe=topic).load()

    assert cells(ours) == sorted(ROWS)
    plain = {"kafka.bootstrap.servers": apache_kafka.bootstrap_servers()}
    theirs = spark.read.format("kafka").options(**plain, subscribe=topic).load()
    assert _sorted(ours) == _sorted(theirs)


def _sorted(frame: DataFrame) -> list[Row]:
    return frame.orderBy("partition", "offset").collect()


@each_listener
def test_a_stream_is_read_and_written(spark: SparkSession, options: Options, topic: str, tmp_path: Path) -> None:
    write(spark, topic, options)
    copy = f"{topic}-copy"
    source = spark.readStream.format("headwater").options(**options, subscribe=topic, startingOffsets="earliest")
    sink = source.load().select("key", "value").writeStream.format("headwater").options(**options, topic=copy)

    for _ in range(2):
        finish(sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())

    assert cells(spark.read.format("headwater").options(**options, subscribe=copy).load()) == sorted(ROWS)


@each_listener
def test_exactly_once_is_refused_if_it_is_asked_for(spark: SparkSession, options: Options, topic: str) -> None:
    write(spark, topic, {**options, "delivery": "at-least-once"})
    with pytest.raises(Exception, match=r"cannot publish a batch exactly once.*at-least-once"):
        write(spark, topic, {**options, "delivery": "exactly-once"})

    assert cells(spark.read.format("headwater").options(**options, subscribe=topic).load()) == sorted(ROWS)


@pytest.mark.parametrize("options", ["SASL_SSL"], indirect=True)
def test_a_refused_client_gets_one_clear_error(spark: SparkSession, options: Options, topic: str) -> None:
    wrong = {**options, "kafka.sasl.password": "wrong word"}
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as raised:
        spark.read.format("headwater").options(**wrong, subscribe=topic).load().collect()
    assert "wrong word" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


@each_listener
def test_a_write_that_falls_back_to_at_least_once_logs_a_warning(
    options: Options, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    given = {**options, "topic": topic}
    with caplog.at_level(logging.WARNING, "headwater"):
        written = write_task([rows], write_options(given, is_streaming=False), "some-application")

    assert written.staged is None
    assert [record.getMessage() for record in caplog.records] == [
        "the brokers cannot publish a batch exactly once, as Headwater's can: delivery is at-least-once"
    ]
    with pytest.raises(DeliveryUnsupported, match="set the option 'delivery' to 'at-least-once'"):
        write_task([rows], write_options({**given, "delivery": "exactly-once"}, is_streaming=False), "some-application")
