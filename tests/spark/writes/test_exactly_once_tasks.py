"""Tasks stage and their driver publishes, without Spark: attempts that race, fail, come late or are forgotten."""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from headwater.client.errors import ClientError
from headwater.client.transactions.staging import OutdatedBatch, StagedWriter, WriterFenced
from headwater.clock import ManualClock
from headwater.errors import ConfigError
from headwater.ids import staging_id
from headwater.protocol.messages.records.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.spark.options.write_options import WriteOptions, write_options
from headwater.spark.writes import row_encoder
from headwater.spark.writes.batch_writer import batch_writer
from headwater.spark.writes.row_refused import RowRefused
from headwater.spark.writes.stream_writer import stream_writer
from headwater.spark.writes.task_writer import (
    ApplicationTaken,
    DeliveryUnsupported,
    TaskWritten,
    abort_left_behind,
    abort_tasks,
    publish_query,
    publish_tasks,
    query_application_id,
    write_task,
)
from headwater.testing import Broker
from tests.support.broker.processes import BrokerProcess
from tests.support.client.scripted import ScriptedBroker, leading
from tests.support.kafka.raw_client import Reachable
from tests.support.kafka.topic_contents import wait_until_stable
from tests.support.spark.written import create, open_transactions, values

PARTITIONS = 1
SCHEMA = StructType([StructField("value", StringType())])


@pytest.fixture
def application() -> str:
    return f"app-{uuid4().hex[:12]}"


@pytest.fixture
def options(headwater_broker: Broker, topic: str) -> WriteOptions:
    create(headwater_broker, topic, PARTITIONS)
    return options_of(headwater_broker, topic=topic)


def options_of(broker: Reachable, **given: str) -> WriteOptions:
    given = {name.replace("_", "."): value for name, value in given.items()}
    return write_options({"bootstrap.servers": broker.bootstrap_servers, **given}, is_streaming=True)


@contextmanager
def task(partition: int, attempt: int, query_id: str = "") -> Generator[None]:
    """Set the TaskContext by which Spark tells a Python worker which task it runs."""
    properties = {"sql.streaming.queryId": query_id}
    TaskContext._setTaskContext(TaskContext(partitionId=partition, attemptNumber=attempt, localProperties=properties))
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def rows(*given: str) -> Iterator[pa.RecordBatch]:
    for value in given:
        yield pa.RecordBatch.from_pydict({"value": [value]})


def write(options: WriteOptions, application: str, *given: str, partition: int = 0, attempt: int = 0) -> TaskWritten:
    with task(partition, attempt):
        return write_task(rows(*given), options, application)


def make_waits_instant(options: WriteOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waits for late tasks take no real time."""
    clock = ManualClock()
    monkeypatch.setattr(options.broker_address.cluster(), "clock", clock)
    monkeypatch.setattr(options.broker_address.cluster(), "sleep", lambda seconds: clock.advance(int(seconds * 1000)))


def test_only_one_of_two_finished_attempts_is_published(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    first = write(options, application, "row", attempt=0)
    speculated = write(options, application, "row", attempt=1)
    assert first.staged is not None
    assert speculated.staged is not None

    publish_tasks([speculated], options, 0)

    assert values(headwater_broker, topic) == ["row"]
    assert open_transactions(headwater_broker, application) == []


def test_a_later_attempt_under_the_same_number_replaces_the_earlier_one(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    """This happens when a whole stage is run again, or another driver has taken over."""
    zombie = write(options, application, "row")
    later = write(options, application, "row")

    with pytest.raises(ClientError, match=r"higher epoch|is aborted"):
        publish_tasks([zombie], options, 0)
    publish_tasks([later], options, 0)

    assert values(headwater_broker, topic) == ["row"]


def test_a_task_that_is_replaced_while_it_writes_fails(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each row is sent as soon as it arrives.
    monkeypatch.setattr(row_encoder, "_GATHERED_BYTES_MAX", 1)
    later: list[TaskWritten] = []

    def replaced() -> Iterator[pa.RecordBatch]:
        yield from rows("zombie")
        yield from rows("zombie")
        later.append(write(options, application, "row"))
        yield from rows(*["zombie"] * 10)

    with task(0, 0), pytest.raises(WriterFenced, match="a later attempt of its task took it"):
        write_task(replaced(), options, application)
    publish_tasks(later, options, 0)

    assert values(headwater_broker, topic) == ["row"]
    assert open_transactions(headwater_broker, application) == []


def test_a_replayed_batch_is_not_published_again_and_an_older_one_is_refused(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    for batch_id in (4, 5):
        publish_tasks([write(options, application, f"batch {batch_id}")], options, batch_id)

    publish_tasks([write(options, application, "again")], options, 5)
    with pytest.raises(OutdatedBatch, match=r"published batch 5 already, 4 is older.*Choose another application id"):
        publish_tasks([write(options, application, "older")], options, 4)
    abort_tasks([write(options, application, "older")], options, 4)

    assert values(headwater_broker, topic) == ["batch 4", "batch 5"]
    assert open_transactions(headwater_broker, application) == []


def test_an_abort_after_a_successful_publish_changes_nothing(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    written = [write(options, application, f"row {number}", partition=number) for number in range(3)]
    publish_tasks(written, options, 0)

    abort_tasks(written, options, 0)
    publish_tasks([write(options, application, "next")], options, 1)

    assert values(headwater_broker, topic) == ["next", "row 0", "row 1", "row 2"]


def test_an_abort_hides_rows_staged_by_finished_tasks(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    """Spark has no commit message for a task that failed."""
    messages: list[WriterCommitMessage | None] = [write(options, application, "row"), None, TaskWritten()]

    abort_tasks(messages, options, 0)

    assert values(headwater_broker, topic) == []
    assert open_transactions(headwater_broker, application) == []


def test_staged_rows_unknown_to_the_driver_are_aborted_with_its_application(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_waits_instant(options, monkeypatch)
    write(options, application, "forgotten", partition=0)
    write(options, application, "forgotten", partition=1, attempt=2)
    write(options, f"{application}-other", "kept")

    abort_left_behind([None], application, options)
    abort_left_behind([None], application, options)

    assert open_transactions(headwater_broker, application) == []
    assert open_transactions(headwater_broker, f"{application}-other") == [f"{application}-other::staging::0-0"]
    abort_left_behind([None], f"{application}-other", options)
    assert values(headwater_broker, topic) == []


def test_a_failed_task_aborts_its_staged_rows(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoder, "_GATHERED_BYTES_MAX", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows("row", "row")
        assert open_transactions(headwater_broker, application), "it is staged already"
        yield pa.RecordBatch.from_pydict({"value": ["row"], "partition": pa.array([PARTITIONS], pa.int32())})

    with task(0, 0), pytest.raises(RowRefused, match="a row is for partition 1"):
        write_task(failing(), options, application)

    assert open_transactions(headwater_broker, application) == []
    assert values(headwater_broker, topic) == []


def test_orphaned_rows_are_aborted_at_their_time_out_and_cannot_be_published_later(
    headwater_broker: Broker, topic: str, application: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)
    options = options_of(headwater_broker, topic=topic, stagingTimeoutMs="100")
    orphan = write(options, application, "row")

    wait_until_stable(headwater_broker, topic)

    with pytest.raises(ClientError, match=r"is aborted: it was open for longer than its time-out of 100 ms"):
        publish_tasks([orphan], options, 0)
    assert values(headwater_broker, topic) == []


def test_a_task_without_rows_has_nothing_to_publish(
    headwater_broker: Broker, options: WriteOptions, application: str
) -> None:
    written = write(options, application)

    publish_tasks([written, None], options, 0)

    assert written.staged is None
    assert open_transactions(headwater_broker, application) == []


# -- queries


def test_an_application_belongs_to_the_query_that_published_first(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    """Both begin with batch 0: if the second were taken for a replay, its rows would be lost silently."""
    options = replace(options, application_id=application)
    one, other = query_application_id(application, "one"), query_application_id(application, "other")

    publish_query([write(options, one, "row of one")], options, 0)
    second = write(options, other, "row of other")
    with pytest.raises(ApplicationTaken, match=rf"as application '{application}'.*\(query one\).*'applicationId'"):
        publish_query([second], options, 0)
    abort_tasks([second], options, 0)
    publish_query([write(options, one, "next")], options, 1)

    assert values(headwater_broker, topic) == ["next", "row of one"]


def test_a_query_is_its_own_application_if_the_user_names_none(
    headwater_broker: Broker, options: WriteOptions, topic: str, application: str
) -> None:
    assert query_application_id(None, application) == application

    publish_query([write(options, application, "row")], options, 0)

    assert values(headwater_broker, topic) == ["row"]


def test_the_writer_of_a_stream_publishes_as_its_query_and_the_users_application(
    headwater_broker: Broker, topic: str, application: str
) -> None:
    create(headwater_broker, topic, PARTITIONS)
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, "topic": topic, "applicationId": application}

    def writer() -> Any:
        """Spark creates a new writer for each step."""
        return stream_writer(given, SCHEMA)

    for batch_id in range(2):
        with task(0, 0, "query"):
            written = writer().write(rows(f"batch {batch_id}"))
        assert written.application_id == f"{application}::query"
        writer().commit([written], batch_id)
    with task(0, 0, "query"):
        written = writer().write(rows("aborted"))
    writer().abort([written], 2)

    assert values(headwater_broker, topic) == ["batch 0", "batch 1"]
    assert open_transactions(headwater_broker, application) == []


def test_the_writer_of_a_batch_is_an_application_of_its_own(
    headwater_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(headwater_broker, topic, PARTITIONS)
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, "topic": topic}

    for value in ("first", "second"):
        writer: Any = batch_writer(given, SCHEMA, overwrite=False)
        with task(0, 0):
            written = writer.write(rows(value))
        writer.commit([written])
    forgetful: Any = batch_writer(given, SCHEMA, overwrite=False)
    with task(0, 0):
        application_id = forgetful.write(rows("aborted")).application_id
    assert open_transactions(headwater_broker, application_id)
    make_waits_instant(forgetful._options, monkeypatch)
    forgetful.abort([None])

    assert values(headwater_broker, topic) == ["first", "second"]
    assert open_transactions(headwater_broker, application_id) == []


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(ConfigError, match="a topic is a log, it cannot be overwritten"):
        batch_writer({"bootstrap.servers": "localhost:9092", "topic": "t"}, SCHEMA, overwrite=True)


# -- brokers


def test_a_commit_waits_for_a_broker_that_is_restarting(tmp_path: Path, topic: str, application: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create(broker, topic, PARTITIONS)
        written = write(options_of(broker, topic=topic), application, "row")
        broker.kill()
        # A client that has never reached a broker, like that of the process that commits.
        options = options_of(broker, topic=topic, kafka_client_id="commit")
        tries = threading.Semaphore(0)

        def sleep(seconds: float) -> None:
            tries.release()
            time.sleep(seconds)

        options.broker_address.cluster().sleep = sleep
        committing = threading.Thread(target=publish_tasks, args=([written], options, 0))
        committing.start()
        assert tries.acquire(timeout=60)
        broker.start()
        committing.join()

        assert values(broker, topic) == ["row"]


def test_a_failed_abort_is_logged_and_raises_no_error(application: str, caplog: pytest.LogCaptureFixture) -> None:
    options = write_options({"bootstrap.servers": "127.0.0.1:1", "topic": "t"}, is_streaming=False)
    staged = TaskWritten(application, StagedWriter(staging_id(application, "0-0"), 1, 0))

    abort_tasks([staged], options, 0)
    abort_left_behind([None], application, options)

    assert f"what was staged for batch 0 of '{application}' could not be aborted" in caplog.text
    assert f"what tasks of '{application}' have left behind could not be aborted" in caplog.text


def test_a_failed_task_without_a_broker_raises_its_original_error(
    topic: str, application: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoder, "_GATHERED_BYTES_MAX", 1)
    with Broker() as broker:
        create(broker, topic, PARTITIONS)
        options = options_of(broker, topic=topic)

        def failing() -> Iterator[pa.RecordBatch]:
            yield from rows("row", "row")
            broker.stop()
            options.broker_address.cluster().timeout_ms = 0
            raise ZeroDivisionError

        with task(0, 0), pytest.raises(ZeroDivisionError):
            write_task(failing(), options, application)

    assert "what this task staged could not be aborted, and will be in time" in caplog.text


@contextmanager
def kafka() -> Generator[ScriptedBroker]:
    """A broker that takes records but does not support PublishBatch."""
    with ScriptedBroker() as scripted:
        scripted.scripts[MetadataRequest] = leading({"t": 1}, {1: scripted.endpoint})
        identity = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        scripted.scripts[InitProducerIdRequest] = lambda _: identity
        stored = TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(index=0, base_offset=0)])
        scripted.scripts[ProduceRequest] = lambda _: ProduceResponse(responses=[stored])
        yield scripted


def test_rows_are_written_at_least_once_with_a_warning_if_the_broker_cannot_publish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with kafka() as scripted:
        options = write_options({"bootstrap.servers": scripted.bootstrap, "topic": "t"}, is_streaming=True)

        assert write(options, "app", "row") == TaskWritten()
        abort_left_behind([None], "app", options)

        (sent,) = scripted.sent(ProduceRequest)
        assert isinstance(sent, ProduceRequest)
        assert sent.transactional_id is None
    assert "delivery is at-least-once" in caplog.text


def test_exactly_once_is_refused_if_the_broker_cannot_publish() -> None:
    with kafka() as scripted:
        given = {"bootstrap.servers": scripted.bootstrap, "topic": "t", "delivery": "exactly-once"}

        with pytest.raises(DeliveryUnsupported, match="set the option 'delivery' to 'at-least-once'"):
            write(write_options(given, is_streaming=True), "app", "row")

        assert scripted.sent(ProduceRequest) == []
