"""Dead letters through a real session: as a table, put back, and scheduled records from columns."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from examples.pipelines import repair_dead_letters
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.schedule import Schedule
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.testing import Broker
from tests.spark.recipes.recipes import Topics, run
from tests.support.client.dead_letters import bury, contents, letter_topic, origin, values
from tests.support.spark.checkpoints import replay_last_batch

HEEDED = {"headwater.delay.enable": "true", "headwater.priority.enable": "true"}


@pytest.fixture
def bootstrap(headwater_broker: Broker) -> str:
    return headwater_broker.bootstrap_servers


@pytest.fixture
def topics(bootstrap: str) -> Generator[Topics]:
    with Cluster(bootstrap) as cluster:
        yield Topics(cluster)


@pytest.mark.usefixtures("spark")
def test_letters_are_put_back_or_reviewed_each_once(
    bootstrap: str, cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    topic, dlq = letter_topic(cluster, 2)
    reviews = f"{topic}.reviews"
    Admin(cluster).create_topic(reviews, partition_count=1, settings=HEEDED)
    bury(cluster, dlq, [origin(topic, each) for each in range(10)])
    marks = tuple(("headwater-redriven", b"x") for _ in range(3))
    bury(cluster, dlq, [origin(topic, 10)], headers=marks, partition=1)
    now_ms = cluster.clock.now_ms()
    bury(cluster, dlq, [origin(topic, 11, reason=Reason.REJECTED, time_ms=now_ms)], partition=1)
    arguments = ("--source", dlq, "--reviews", reviews, "--checkpoint", tmp_path / "checkpoint")

    run(repair_dead_letters.main, bootstrap, *arguments)
    replay_last_batch(tmp_path / "checkpoint")
    bury(cluster, dlq, [origin(topic, 12)])
    run(repair_dead_letters.main, bootstrap, *arguments)

    assert sorted(int(each.value or b"") for each in topics.received(topic)) == [*range(10), 12]
    (failed,) = topics.received(reviews)
    assert json.loads(failed.value or b"") == {
        "topic": dlq,
        "partition": 1,
        "offset": 0,
        "originTopic": topic,
        "groupId": "billing",
        "reason": "exhausted",
        "message": "Offset delivery count exceeded the threshold.",
        "redrives": 3,
    }, "its hour is over long since"
    assert ("headwater-priority", b"3") in failed.headers
    (scheduled,) = Schedule(cluster, reviews).records(with_contents=True)
    assert (scheduled.due_ms, ("headwater-priority", b"0") in scheduled.headers) == (now_ms + 3_600_000, True)


def test_a_table_of_dead_letters_is_queried_and_put_back(
    spark: SparkSession, bootstrap: str, cluster: Cluster, topics: Topics
) -> None:
    topic, dlq = letter_topic(cluster, 2)
    bury(cluster, dlq, [origin(topic, each, reason=Reason(each % 2)) for each in range(20)])
    letters = repair_dead_letters.read_letters(spark, bootstrap, source=dlq)
    counted = {
        (row["groupId"], row["reason"]): row["count"] for row in letters.groupBy("groupId", "reason").count().collect()
    }
    assert counted == {("billing", "rejected"): 10, ("billing", "exhausted"): 10}

    for _ in range(2):
        chosen = letters.where("reason = 'rejected' and not redriven").repartition(3)
        (
            chosen.write.format("headwater")
            .mode("append")
            .option("bootstrap.servers", bootstrap)
            .option("redrive", "true")
            .save()
        )
    topics.received(topic)
    assert values(cluster, topic) == list(range(0, 20, 2))
    assert letters.where("redriven").count() == 10


def test_intervals_and_priorities_of_a_data_frame(
    spark: SparkSession, bootstrap: str, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).create_topic(topic, partition_count=1, settings=HEEDED)
    frame = spark.range(3).selectExpr(
        "cast(id as string) value",
        "case when id = 0 then INTERVAL 10 MINUTES when id = 1 then INTERVAL '2' DAY end delay",
        "cast(id as int) priority",
    )
    writer = frame.write.format("headwater").mode("append").option("bootstrap.servers", bootstrap)
    writer.option("topic", topic).option("includeDirectives", "true").save()
    due = {each.value: each.due_ms for each in Schedule(cluster, topic).records(with_contents=True)}
    assert due.keys() == {b"0", b"1"}
    assert round((due[b"1"] - due[b"0"]) / 60_000) == 2 * 24 * 60 - 10
    assert [each.value for each in contents(cluster, topic)] == [b"2"]
    with pytest.raises(PySparkException, match="column 'priority' is string; a write takes it as int"):
        (
            frame.selectExpr("value", "'high' priority")
            .write.format("headwater")
            .mode("append")
            .option("bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("includeDirectives", "true")
            .save()
        )
