"""Batch writes through a real session: every column, every option, and the errors that a user sees."""

import os
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.transactions.admin import TransactionAdmin
from headwater.client.transactions.staging import StagingWriter
from headwater.clock import ManualClock
from headwater.ids import TopicName, TopicPartition, staging_id
from headwater.protocol.batches.records import Record
from headwater.protocol.partitioner import partition_for_key
from headwater.spark.options.write_options import write_options
from headwater.spark.writes.batch_writer import HeadwaterWriter
from headwater.spark.writes.task_writer import TaskWritten
from headwater.testing import Broker
from tests.support.spark.written import create, messages, open_transactions, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 3
HEADERS = "array<struct<key:string,value:binary>>"


def write(rows: "DataFrame", broker: Broker, **given: str) -> None:
    options = {name.replace("_", "."): value for name, value in given.items()}
    rows.write.format("headwater").options(**{"bootstrap.servers": broker.bootstrap_servers}, **options).mode(
        "append"
    ).save()


@pytest.fixture
def application() -> str:
    return f"app-{uuid4().hex[:12]}"


def test_every_column_of_kafkas_sink_becomes_part_of_its_record(
    spark: "SparkSession", headwater_broker: Broker, topic: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)
    noon = datetime(2024, 5, 6, 12, tzinfo=UTC)
    rows = [
        ("k", b"\x00\xff", topic, None, [("a", b"1"), ("a", None)], noon, "left alone"),
        (None, None, topic, 2, [], noon, "left alone"),
        ("named", b"", topic, 1, None, noon, "left alone"),
    ]
    schema = (
        f"key string, value binary, topic string, partition int, headers {HEADERS}, timestamp timestamp, more string"
    )

    write(spark.createDataFrame(rows, schema).coalesce(1), headwater_broker, includeTimestamp="true")

    found = {each.value: each for each in messages(headwater_broker, topic)}
    assert {value: each.key for value, each in found.items()} == {b"\x00\xff": b"k", None: None, b"": b"named"}
    assert {value: each.partition for value, each in found.items()} == {
        b"\x00\xff": partition_for_key(b"k", PARTITIONS),
        None: 2,
        b"": 1,
    }
    assert found[b"\x00\xff"].headers == (("a", b"1"), ("a", None))
    assert found[None].headers == found[b""].headers == ()
    assert {each.timestamp_ms for each in found.values()} == {int(noon.timestamp() * 1000)}


def test_rows_of_many_tasks_are_published_together_and_leave_nothing_open(
    spark: "SparkSession", headwater_broker: Broker, topic: str, application: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)
    rows = spark.range(0, 10_000, 1, 4).selectExpr("cast(id as string) key", "cast(id as string) value")

    write(
        rows,
        headwater_broker,
        topic=topic,
        compression_type="zstd",
        applicationId=application,
        applicationVersion="3",
    )

    assert values(headwater_broker, topic) == sorted(map(str, range(10_000)))
    assert open_transactions(headwater_broker, application) == []
    with Cluster(headwater_broker.bootstrap_servers) as cluster:
        transactions = TransactionAdmin(cluster)
        writers = transactions.list_transactions(pattern=f"{application}::staging::.*")
        assert transactions.describe_transaction(application).published_batch_id == 3
    assert [each.transactional_id for each in writers] == [f"{application}::staging::{n}-0" for n in range(4)]


def test_a_repeated_version_is_not_written_again_and_an_older_one_is_refused(
    spark: "SparkSession", headwater_broker: Broker, topic: str, application: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)

    def write_version(version: int, value: str) -> None:
        rows = spark.createDataFrame([(value,)], "value string")
        write(rows, headwater_broker, topic=topic, applicationId=application, applicationVersion=str(version))

    write_version(7, "first")
    write_version(7, "again")
    with pytest.raises(PySparkException, match=rf"'{application}' published batch 7 already, 6 is older"):
        write_version(6, "older")
    write_version(8, "next")

    assert values(headwater_broker, topic) == ["first", "next"]
    assert open_transactions(headwater_broker, application) == []


def test_a_failed_write_leaves_no_row_and_no_open_transaction(
    spark: "SparkSession", headwater_broker: Broker, topic: str, application: str
) -> None:
    """One of its tasks had finished before the other failed."""
    create(headwater_broker, topic, PARTITIONS)
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "cast(id as string) value", "cast(if(id = 999, 17, 0) as int) partition"
    )

    with pytest.raises(PySparkException, match=f"partition 17 of '{topic}', which has partitions 0 to 2"):
        write(rows, headwater_broker, topic=topic, applicationId=application, applicationVersion="0")

    assert messages(headwater_broker, topic) == []
    assert open_transactions(headwater_broker, application) == []


def test_a_killed_worker_leaves_no_open_transaction(
    spark: "SparkSession", headwater_broker: Broker, topic: str, application: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)

    def deadly(number):  # type: ignore[no-untyped-def]
        if number == 99_999:
            os.kill(os.getpid(), signal.SIGKILL)
        return str(number) * 100

    rows = spark.range(0, 100_000, 1, 2).select(udf(deadly, "string")("id").alias("value"))
    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
        write(rows, headwater_broker, topic=topic, applicationId=application, applicationVersion="0")

    assert messages(headwater_broker, topic) == []
    assert open_transactions(headwater_broker, application) == []


def test_rows_staged_by_a_task_while_its_job_is_given_up_are_aborted(
    headwater_broker: Broker, cluster: Cluster, topic: str, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not wait for the other tasks of a job that failed."""
    create(headwater_broker, topic)
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, "topic": topic, "applicationId": application}
    options = write_options({**given, "applicationVersion": "0"}, is_streaming=False)
    late_task = StagingWriter(cluster, staging_id(application, "1-0"))
    clock = ManualClock()

    def while_it_waits(seconds: float) -> None:
        if clock.monotonic_ms() == 0:
            late_task.write_records(TopicPartition(TopicName(topic), 0), [Record(0, 0, None, b"late", ())])
            late_task.flush()
        clock.advance(int(seconds * 1000))

    monkeypatch.setattr(options.broker_address.cluster(), "clock", clock)
    monkeypatch.setattr(options.broker_address.cluster(), "sleep", while_it_waits)
    HeadwaterWriter(options).abort([TaskWritten(), None])

    assert late_task.identity is not None
    assert open_transactions(headwater_broker, application) == []


def test_at_least_once_writes_without_transactions(
    spark: "SparkSession", headwater_broker: Broker, topic: str, application: str
) -> None:
    rows = spark.createDataFrame([("a",), ("b",)], "value string")

    write(
        rows,
        headwater_broker,
        topic=topic,
        delivery="at-least-once",
        applicationId=application,
        applicationVersion="1",
    )

    assert values(headwater_broker, topic) == ["a", "b"]
    with Cluster(headwater_broker.bootstrap_servers) as cluster:
        assert TransactionAdmin(cluster).list_transactions(pattern=f"{application}.*") == []


def test_an_empty_write_succeeds(spark: "SparkSession", headwater_broker: Broker, topic: str) -> None:
    create(headwater_broker, topic)

    write(spark.createDataFrame([], "value string"), headwater_broker, topic=topic)

    assert messages(headwater_broker, topic) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "where to write"),
        ({"topic": "t", "acknowledge": "all"}, "no option 'acknowledge' here"),
        ({"topic": "t", "applicationId": "a"}, "'applicationId' and 'applicationVersion' go together"),
    ],
)
def test_options_are_refused_before_anything_runs(
    spark: "SparkSession", headwater_broker: Broker, given: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(spark.createDataFrame([("a",)], "value string"), headwater_broker, **given)


def test_a_topic_cannot_be_overwritten(spark: "SparkSession", headwater_broker: Broker, topic: str) -> None:
    rows = spark.createDataFrame([("a",)], "value string").write.format("headwater").mode("overwrite")

    with pytest.raises(PySparkException, match="a topic is a log, it cannot be overwritten"):
        rows.options(**{"bootstrap.servers": headwater_broker.bootstrap_servers}, topic=topic).save()


def test_a_row_that_is_too_large_is_an_error_that_names_topic_and_setting(
    spark: "SparkSession", headwater_broker: Broker, topic: str
) -> None:
    create(headwater_broker, topic, PARTITIONS, max_message_bytes="5000")

    with pytest.raises(PySparkException, match=rf"{topic}-\d.*max\.message\.bytes"):
        write(spark.range(1).selectExpr("repeat('x', 6000) value"), headwater_broker, topic=topic)

    assert messages(headwater_broker, topic) == []


def test_a_time_out_above_the_limit_of_the_broker_is_an_error(
    spark: "SparkSession", headwater_broker: Broker, topic: str
) -> None:
    with pytest.raises(PySparkException, match=r"transaction\.max\.timeout\.ms"):
        write(
            spark.createDataFrame([("a",)], "value string"),
            headwater_broker,
            topic=topic,
            stagingTimeoutMs=str(24 * 3_600_000),
        )


def test_added_partitions_are_written_to_by_workers_that_knew_fewer(
    spark: "SparkSession", headwater_broker: Broker, topic: str
) -> None:
    create(headwater_broker, topic, 1)
    rows: Any = spark.range(0, 4, 1, 2)
    write(rows.selectExpr("cast(id as string) value"), headwater_broker, topic=topic)
    with Cluster(headwater_broker.bootstrap_servers) as cluster:
        Admin(cluster).add_partitions(topic, 4)

    write(rows.selectExpr("cast(id as string) value", "cast(id as int) partition"), headwater_broker, topic=topic)

    found = messages(headwater_broker, topic)
    assert sorted(each.partition for each in found) == [0, 0, 0, 0, 0, 1, 2, 3]
