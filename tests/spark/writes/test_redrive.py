"""Dead letters are put back by the option `redrive`: from the rows of a read, without Java."""

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord
from headwater.client.dead_letters.dead_letters import DeadLetters
from headwater.client.producer import Producer
from headwater.client.schedule import Place
from headwater.errors import ConfigError
from headwater.protocol.partitioner import partition_for_key
from headwater.spark.options.write_options import write_options
from headwater.spark.source import HeadwaterDataSource
from headwater.spark.writes.contract import check_columns
from headwater.spark.writes.row_refused import RowRefused
from headwater.spark.writes.task_writer import publish_tasks, write_task
from headwater.testing import Broker
from tests.support.client.dead_letters import bury, contents, letter_topic, origin, totals, values
from tests.support.spark.reads import batch
from tests.support.spark.written import messages


def letters(broker: Broker, dlq: str) -> list[pa.RecordBatch]:
    reader: Any = batch(broker, {"subscribe": dlq, "deadLetters": "true"})
    return [each for partition in reader.partitions() for each in reader.read(partition)]


def redrive(broker: Broker, rows: list[pa.RecordBatch], *, tasks: int = 1, **given: str) -> None:
    """As a job of so many tasks does it, whose rows are dealt out."""
    options = write_options(
        {"bootstrap.servers": broker.bootstrap_servers, "redrive": "true", **given}, is_streaming=False
    )
    application = f"app-{uuid4().hex}"
    table: Any = pa.Table.from_batches(rows)
    written = [
        # Each task has a slot of its own in a job.
        write_task(table.take(list(range(task, len(table), tasks))).to_batches(), options, f"{application}-{task}")
        for task in range(tasks)
    ]
    publish_tasks(written, options, 0)


def settled(broker: Broker, topic: str) -> list[ConsumedRecord]:
    """What is there once no transaction is open any more."""
    messages(broker, topic)
    with Cluster(broker.bootstrap_servers) as cluster:
        return contents(cluster, topic)


def test_letters_become_the_records_that_they_were(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, 2)
    bury(cluster, dlq, [origin(topic, 4), origin(topic, 5)], key=b"\xff")
    bury(cluster, dlq, [origin(topic, 6)], partition=1, key=None, headers=())

    redrive(headwater_broker, letters(headwater_broker, dlq), tasks=2)

    found = {each.value: each for each in settled(headwater_broker, topic)}
    assert {value: each.partition for value, each in found.items()} == {b"4": 0, b"5": 1, b"6": 0}
    assert found[b"4"].key == b"\xff"
    assert found[b"5"].headers == (("trace", b"1"), ("headwater-redriven", f"{dlq}/0@1".encode()))
    assert (found[b"6"].key, found[b"6"].headers) == (None, (("headwater-redriven", f"{dlq}/1@0".encode()),))


def test_each_is_put_back_once_whoever_does_it(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(6)])
    assert totals(list(DeadLetters(cluster, dlq).redrive([Place(0, 1)]))) == (1, 0, 0)
    rows = letters(headwater_broker, dlq)
    redrive(headwater_broker, [each.slice(0, 3) for each in rows])
    settled(headwater_broker, topic)
    redrive(headwater_broker, [*rows, *rows])
    settled(headwater_broker, topic)
    assert values(cluster, topic) == list(range(6))
    assert totals(list(DeadLetters(cluster, dlq).redrive())) == (0, 6, 0)
    assert [row["redriven"] for each in letters(headwater_broker, dlq) for row in each.to_pylist()] == [True] * 6


def test_what_was_staged_and_not_published_is_put_back_later(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(3)])
    rows = letters(headwater_broker, dlq)
    options = write_options(
        {"bootstrap.servers": headwater_broker.bootstrap_servers, "redrive": "true"}, is_streaming=False
    )
    application = f"app-{uuid4().hex}"
    write_task(iter(rows), options, application)
    # The job's driver is killed; the job runs again.
    publish_tasks([write_task(iter(rows), options, application)], options, 0)
    settled(headwater_broker, topic)
    assert values(cluster, topic) == [0, 1, 2]


def test_letters_go_into_another_topic_by_their_keys(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    Admin(cluster).create_topic(f"{topic}.repair", partition_count=5)
    for each in range(5):
        bury(cluster, dlq, [origin("deleted", each)], key=b"key-%d" % each)
    redrive(headwater_broker, letters(headwater_broker, dlq), topic=f"{topic}.repair")
    found = {each.value: each.partition for each in settled(headwater_broker, f"{topic}.repair")}
    assert found == {b"%d" % each: partition_for_key(b"key-%d" % each, 5) for each in range(5)}


def test_rows_that_cannot_be_put_back_are_refused(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0, is_copied=False)])
    bury(cluster, dlq, [origin(dlq, 1)])
    bury(cluster, dlq, [origin(f"{topic}.gone", 2)])
    with Producer(cluster) as producer:
        producer.send(dlq, b"no letter", partition=0)
    rows = pa.Table.from_batches(letters(headwater_broker, dlq))
    for index, message in enumerate(
        [
            r"leave it out with where\('contentCopied'\)",
            "into the dead-letter topic that it comes from",
            "gone', which a dead letter comes from, does not exist: set the option 'topic'",
            r"a row is no dead letter: leave it out with where\('originTopic is not null'\)",
        ]
    ):
        with pytest.raises(RowRefused, match=message):
            redrive(headwater_broker, rows.slice(index, 1).to_batches())
    assert contents(cluster, topic) == []
    assert f"{topic}.gone" not in {each.name for each in cluster.topics()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delivery": "at-least-once"}, "excludes at-least-once"),
        ({"acks": "1"}, "excludes at-least-once"),
        ({"includeDirectives": "true"}, "exclude each other"),
    ],
)
def test_options_that_contradict_it_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_options({"bootstrap.servers": "localhost:9092", "redrive": "true", **given}, is_streaming=False)


def test_other_rows_are_refused_when_the_query_is_defined() -> None:
    options = write_options({"bootstrap.servers": "localhost:9092", "redrive": "true"}, is_streaming=False)
    source = HeadwaterDataSource({"bootstrap.servers": "localhost:9092", "subscribe": "o", "deadLetters": "true"})
    read: Any = source.schema()
    check_columns(read, options)
    with pytest.raises(ConfigError, match="they lack offset, originTopic"):
        check_columns(StructType([each for each in read.fields if each.name not in ("offset", "originTopic")]), options)
    changed = StructType(
        [
            StructField("originPartition", StringType()) if each.name == "originPartition" else each
            for each in read.fields
        ]
    )
    with pytest.raises(ConfigError, match="'originPartition' is string; a redrive takes it as it was read"):
        check_columns(changed, options)
    with pytest.raises(ConfigError, match="they lack"):
        check_columns(
            StructType(
                [
                    StructField("value", StringType()),
                    StructField("topic", StringType()),
                    StructField("offset", LongType()),
                ]
            ),
            options,
        )
