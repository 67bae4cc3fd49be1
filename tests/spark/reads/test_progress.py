"""A query's progress is visible as a consumer group, and failures of that group do not affect the query."""

import logging

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.ids import GroupId
from headwater.spark.reads import progress
from headwater.spark.reads.range_reader import RangePartition
from headwater.testing import Broker
from tests.support.cli.commands import Commands
from tests.support.spark.reads import Query, numbered, one, produce, stream


class Task:
    """Stands for Spark's TaskContext, by which a task learns about its query."""

    def __init__(self, **properties: str) -> None:
        self._properties = {name.replace("_", "."): text for name, text in properties.items()}

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)


@pytest.fixture
def single(cluster: Cluster, topic: str) -> str:
    Admin(cluster).create_topic(topic, partition_count=1)
    produce(cluster, topic, numbered(5))
    return topic


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process look like one that runs the tasks of a query."""
    task = Task(sql_streaming_queryId="0815", spark_job_description="orders by day\nid = 0815\nbatch = 0")
    monkeypatch.setattr(progress.TaskContext, "get", classmethod(lambda cls: task))


def committed(cluster: Cluster, group_id: str, topic: str) -> int | None:
    found = GroupAdmin(cluster).committed(group_id).get(one(topic))
    return None if found is None else found.offset


def given(topic: str, **more: str) -> dict[str, str]:
    return {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2", **more}


@pytest.mark.usefixtures("in_task")
def test_the_group_has_the_name_of_the_query(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    query = Query(stream(headwater_broker, given(single, groupIdPrefix=single)))
    query.next()
    assert committed(cluster, f"{single}-orders by day", single) is None, "nobody knows yet that the batch is done"
    query.next()
    assert committed(cluster, f"{single}-orders by day", single) == 2
    query.next()
    query.next()
    assert committed(cluster, f"{single}-orders by day", single) == 5
    left = [group.group_id for group in GroupAdmin(cluster).list_groups() if group.group_id.startswith(single)]
    assert left == [f"{single}-orders by day"], "the group that only introduced the two is gone"


@pytest.mark.usefixtures("in_task")
def test_a_commit_call_of_spark_also_commits_the_offsets(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    query = Query(stream(headwater_broker, given(single, groupIdPrefix=single)))
    query.next()
    assert query.reached is not None
    query.reader.commit(query.reached)
    assert committed(cluster, f"{single}-orders by day", single) == 2


def test_the_lag_of_a_query_is_shown(headwater_broker: Broker, single: str) -> None:
    query = Query(stream(headwater_broker, given(single, **{"group.id": f"group of {single}"})))
    for _ in range(2):
        query.next()

    shown = Commands(headwater_broker.bootstrap_servers).succeed(
        "group", "describe", f"group of {single}", "--format", "json"
    )

    assert '"lag": 3' in shown.output.decode()


@pytest.mark.parametrize("name", ["group.id", "kafka.group.id"])
def test_a_query_with_a_given_group_id_is_not_introduced_by_a_task(
    headwater_broker: Broker, cluster: Cluster, single: str, name: str
) -> None:
    query = Query(stream(headwater_broker, given(single, **{name: f"group of {single}"})))
    end, [planned] = query.plan()
    assert isinstance(planned, RangePartition)
    assert planned.introduction is None
    query.reached = end
    query.plan()
    assert committed(cluster, f"group of {single}", single) == 2


@pytest.mark.usefixtures("in_task")
def test_only_the_first_task_of_the_first_batch_introduces_the_query(headwater_broker: Broker, single: str) -> None:
    query = Query(stream(headwater_broker, given(single, minPartitions="2")))
    _, planned = query.plan()
    introductions = [each.introduction for each in planned if isinstance(each, RangePartition)]
    assert len(introductions) == 2
    assert introductions[0] is not None, "the first task tells"
    assert introductions[1] is None
    assert query.next() == numbered(2)
    _, planned = query.plan()
    assert [each.introduction for each in planned if isinstance(each, RangePartition)] == [None, None]


def test_the_query_name_is_the_users_or_the_query_id() -> None:
    assert progress._query_name(Task(sql_streaming_queryId="0815")) == "0815"  # type: ignore[arg-type]
    described = Task(sql_streaming_queryId="0815", spark_job_description="\nid = 0815\nbatch = 3")
    assert progress._query_name(described) == "0815"  # type: ignore[arg-type]
    renamed = Task(sql_streaming_queryId="0815", spark_job_description="my own words")
    assert progress._query_name(renamed) == "0815"  # type: ignore[arg-type]


def test_no_group_is_introduced_outside_of_a_query(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    progress.introduce(cluster, GroupId(single), one(single), "prefix")
    assert GroupAdmin(cluster).committed(single) == {}


@pytest.mark.usefixtures("in_task")
def test_a_task_reads_on_if_it_cannot_introduce_its_query(
    cluster: Cluster, single: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        progress.introduce(cluster, GroupId(single), one("no-such-topic"), "prefix")
    assert "could not be introduced" in caplog.text


def test_a_group_that_refuses_a_commit_does_not_stop_the_query(
    headwater_broker: Broker, cluster: Cluster, single: str, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import Consumer

    # The group has a member of its own, so no one else may commit offsets for it.
    member = Consumer({"bootstrap.servers": headwater_broker.bootstrap_servers, "group.id": single})
    member.subscribe([single])
    while not member.assignment():
        member.poll(0.05)
    query = Query(stream(headwater_broker, given(single, **{"group.id": single})))
    with caplog.at_level(logging.WARNING):
        assert [query.next() for _ in range(4)] == [numbered(2), numbered(2, 2), numbered(1, 4), []]
    assert "could not be committed" in caplog.text
    assert committed(cluster, single, single) is None
    member.close()


def test_a_deleted_topic_does_not_stop_the_query(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    other = f"{single}-other"
    produce(cluster, other, [b"x"])
    options = given(f"{single},{other}", **{"group.id": single, "failOnDataLoss": "false"})
    query = Query(stream(headwater_broker, options))
    query.next()
    Admin(cluster).delete_topic(other)
    assert [query.next() for _ in range(3)][-1] == []
    assert committed(cluster, single, single) == 5


def test_a_query_does_not_start_from_the_offsets_of_its_group(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    GroupAdmin(cluster).commit(single, {one(single): CommittedOffset(1)})
    query = Query(stream(headwater_broker, given(single, **{"group.id": single})))
    assert query.next() == numbered(2), "its checkpoint or its options say so"
