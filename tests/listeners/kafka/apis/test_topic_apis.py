"""APIs that create and delete: topics, partitions, and records."""

from uuid import UUID, uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headwater.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from headwater.testing import Broker
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import EARLIEST, RawClient, batch_of

NO_ID = UUID(int=0)


def topic_of(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assignments: dict[int, list[int]] | None = None,
    config: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
    )


def create(
    client: RawClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return client.ask(request, CreateTopicsResponse, version).topics


def exists(broker: Broker, name: str) -> bool:
    return on_loop(broker, lambda: broker.node.broker.topics.find(name) is not None)


# -- CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(broker: Broker, client: RawClient, name: str, version: int) -> None:
    (created,) = create(client, topic_of(name, 3, config={"retention.ms": "77"}), version=version)

    assert (created.error_code, created.error_message) == (0, None)
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        assert {one.name: one.value for one in created.configs or ()}["retention.ms"] == "77"
    if version >= 7:
        assert created.topic_id == broker.node.broker.metadata.state.existing(name).id
    assert sorted(path.name for path in broker.data_directory.glob(f"{name}-*")) == [f"{name}-{n}" for n in range(3)]


def test_a_topic_without_counts_gets_the_brokers_defaults(client: RawClient, name: str) -> None:
    (created,) = create(client, topic_of(name, -1, -1))
    assert (created.num_partitions, created.replication_factor) == (2, 1)


def test_partitions_may_be_assigned_to_the_only_broker(client: RawClient, name: str) -> None:
    (created,) = create(client, topic_of(name, -1, -1, assignments={1: [1], 0: [1]}))
    assert (created.error_code, created.num_partitions) == (0, 2)


REFUSED = {
    "no partitions": (topic_of("t", 0), ErrorCode.INVALID_PARTITIONS),
    "fewer than no partitions": (topic_of("t", -5), ErrorCode.INVALID_PARTITIONS),
    "too many partitions": (topic_of("t", 10_001), ErrorCode.POLICY_VIOLATION),
    "two replicas": (topic_of("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "no replicas": (topic_of("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "assigned and counted": (topic_of("t", 1, -1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
    "assigned to nobody": (topic_of("t", -1, -1, assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "assigned to two": (topic_of("t", -1, -1, assignments={0: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "assigned with a gap": (topic_of("t", -1, -1, assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "an unknown setting": (topic_of("t", config={"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
    "a bad value": (topic_of("t", config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
    "a null value": (topic_of("t", config={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
    "settings that contradict": (
        topic_of("t", config={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
        ErrorCode.INVALID_CONFIG,
    ),
    "a bad name": (topic_of("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a reserved name": (topic_of("__headwater_x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
}


@pytest.mark.parametrize(("topic", "code"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_invalid_creations_are_refused_with_kafkas_codes(
    broker: Broker, client: RawClient, topic: CreatableTopic, code: ErrorCode, validate_only: bool
) -> None:
    (refused,) = create(client, topic, validate_only=validate_only)

    assert ErrorCode(refused.error_code) is code
    assert refused.error_message
    assert not exists(broker, topic.name)
    assert not list(broker.data_directory.glob("t-*"))


def test_an_unknown_setting_is_refused_with_the_nearest_known_one(client: RawClient, name: str) -> None:
    (refused,) = create(client, topic_of(name, config={"retention.mss": "1"}))
    assert "retention.ms" in (refused.error_message or "").replace("retention.mss", "")


def test_validate_only_creates_no_topic(broker: Broker, client: RawClient, name: str) -> None:
    (tried,) = create(client, topic_of(name, 3), validate_only=True)

    assert (tried.error_code, tried.num_partitions) == (0, 3)
    assert not exists(broker, name)
    assert not list(broker.data_directory.glob(f"{name}-*"))


def test_each_topic_of_a_request_succeeds_or_fails_separately(broker: Broker, client: RawClient, name: str) -> None:
    client.create(f"{name}-old")
    results = create(
        client, topic_of(f"{name}-new"), topic_of(f"{name}-old"), topic_of(f"{name}-twice"), topic_of(f"{name}-twice")
    )

    codes = {one.name.removeprefix(f"{name}-"): ErrorCode(one.error_code) for one in results}
    assert len(results) == len(codes), "one answer for each name"
    assert codes == {
        "new": ErrorCode.NONE,
        "old": ErrorCode.TOPIC_ALREADY_EXISTS,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert exists(broker, f"{name}-new")
    assert not exists(broker, f"{name}-twice")


def test_names_that_differ_in_dot_and_underscore_collide(client: RawClient, name: str) -> None:
    client.create(f"{name}.a_b")
    (refused,) = create(client, topic_of(f"{name}_a.b"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_broker_holds_no_more_topics_and_partitions_than_allowed() -> None:
    with Broker({"headwater.topics.max": "2", "headwater.partitions.max": "5"}) as broker, RawClient(broker) as client:
        client.create("first", partitions=3)
        assert create(client, topic_of("wide", 3))[0].error_code == ErrorCode.POLICY_VIOLATION
        client.create("second")
        assert create(client, topic_of("third", 1))[0].error_code == ErrorCode.POLICY_VIOLATION


# -- DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_in_every_version(
    broker: Broker, client: RawClient, name: str, version: int
) -> None:
    client.create(name)
    names = [name, "nobody"]
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=one) for one in names], topic_names=names, timeout_ms=1000
    )
    results = {one.name: one.error_code for one in client.ask(request, DeleteTopicsResponse, version).responses}

    assert results == {name: 0, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not exists(broker, name)
    assert not list(broker.data_directory.glob(f"{name}-*"))


def test_topics_are_deleted_by_id(broker: Broker, client: RawClient, name: str) -> None:
    topic_id, unknown = client.create(name), uuid4()
    states = [
        DeleteTopicState(name=None, topic_id=topic_id),
        DeleteTopicState(name=None, topic_id=unknown),
        DeleteTopicState(name="both", topic_id=unknown),
    ]
    done, missing, both = client.ask(
        DeleteTopicsRequest(topics=states, timeout_ms=1000), DeleteTopicsResponse, 6
    ).responses

    assert (done.name, done.topic_id, done.error_code) == (name, topic_id, 0)
    assert (missing.name, missing.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert both.error_code == ErrorCode.INVALID_REQUEST
    assert not exists(broker, name)


def test_a_topic_that_is_named_twice_or_not_at_all_is_not_deleted(broker: Broker, client: RawClient, name: str) -> None:
    topic_id = client.create(name)
    by_name, by_id = DeleteTopicState(name=name), DeleteTopicState(name=None, topic_id=topic_id)
    states = [by_name, by_name, by_id, by_id, DeleteTopicState(name=None)]
    request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
    told = client.ask(request, DeleteTopicsResponse, 6).responses
    old = client.ask(DeleteTopicsRequest(topic_names=[name, name], timeout_ms=1000), DeleteTopicsResponse, 5).responses

    assert [topic.error_code for topic in told] == [ErrorCode.INVALID_REQUEST] * 3
    assert [(topic.name, topic.error_code) for topic in old] == [(name, ErrorCode.INVALID_REQUEST)]
    assert exists(broker, name)


def test_deletion_can_be_switched_off(name: str) -> None:
    with Broker({"delete.topic.enable": "false"}) as broker, RawClient(broker) as client:
        client.create(name)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
        (refused,) = client.ask(request, DeleteTopicsResponse, 6).responses
        assert refused.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert exists(broker, name)


# -- CreatePartitions


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (4, None, ErrorCode.NONE),
        (4, [[1], [1]], ErrorCode.NONE),
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (1, [[1]], ErrorCode.INVALID_PARTITIONS),
        (20_000, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (20_000, None, ErrorCode.POLICY_VIOLATION),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1], [2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_grows_and_never_shrinks(
    broker: Broker,
    client: RawClient,
    name: str,
    count: int,
    assignments: list[list[int]] | None,
    code: ErrorCode,
    validate_only: bool,
) -> None:
    client.create(name, partitions=2)
    assigned = None if assignments is None else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=assigned)],
        timeout_ms=1000,
        validate_only=validate_only,
    )
    (result,) = client.ask(request, CreatePartitionsResponse, 3).results

    assert ErrorCode(result.error_code) is code
    grown = count if code is ErrorCode.NONE and not validate_only else 2
    assert on_loop(broker, lambda: broker.node.broker.metadata.state.existing(name).partition_count) == grown


def test_partitions_of_unknown_or_repeated_topics_are_not_added(client: RawClient, topic: str) -> None:
    topics = [CreatePartitionsTopic(name=one, count=5, assignments=None) for one in ("nobody", topic, topic)]
    results = client.ask(CreatePartitionsRequest(topics=topics, timeout_ms=0), CreatePartitionsResponse, 0).results
    assert [(one.name, one.error_code) for one in results] == [
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic, ErrorCode.INVALID_REQUEST),
    ]


# -- DeleteRecords


def delete_records(client: RawClient, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000)
    (result,) = client.ask(request, DeleteRecordsResponse, 2).topics[0].partitions
    return result.low_watermark, result.error_code


def test_the_log_start_offset_only_moves_up(client: RawClient, topic: str) -> None:
    client.produce(topic, batch_of(*[b"v"] * 10))

    assert delete_records(client, topic, 4) == (4, 0)
    assert delete_records(client, topic, 2) == (4, 0), "what is gone stays gone, and that is no error"
    assert delete_records(client, topic, 11) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert delete_records(client, topic, -2) == (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert client.offset(topic, EARLIEST) == 4
    assert client.fetch(topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(client, topic, -1) == (10, 0)
    assert client.records(topic, 10) == []


def test_records_are_deleted_only_where_retention_may_delete_them(client: RawClient, name: str) -> None:
    client.create(name, cleanup_policy="compact")
    assert delete_records(client, name, 0) == (-1, ErrorCode.POLICY_VIOLATION)
    assert delete_records(client, "nobody", 0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_concurrent_record_deletions_are_all_stored(broker: Broker, client: RawClient, name: str) -> None:
    """One checkpoint file has the start offsets of all partitions."""
    client.create(name, partitions=8)
    for partition in range(8):
        client.produce(name, batch_of(*[b"v"] * 3), partition=partition)
    others = [RawClient(broker) for _ in range(8)]
    for partition, other in enumerate(others):
        asked = DeleteRecordsPartition(partition_index=partition, offset=2)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[asked])], timeout_ms=1000)
        other.send(request, 2)
    for other in others:
        (result,) = other.receive(DeleteRecordsResponse, 2)[1].topics[0].partitions
        assert (result.low_watermark, result.error_code) == (2, 0)
        other.socket.close()
    kept = (broker.data_directory / "log-start-offset-checkpoint").read_text().splitlines()
    assert [line for line in kept if line.startswith(name)] == [f"{name} {partition} 2" for partition in range(8)]


# -- DescribeTopicPartitions


def test_topics_are_described_in_pages() -> None:
    with Broker() as broker, RawClient(broker) as client:
        for topic, partitions in {"b": 3, "a": 2, "c": 1}.items():
            client.create(topic, partitions=partitions)

        def page(limit: int, cursor: Cursor | None = None, *names: str) -> DescribeTopicPartitionsResponse:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=one) for one in names], response_partition_limit=limit, cursor=cursor
            )
            return client.ask(request, DescribeTopicPartitionsResponse, 0)

        def told(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
            return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics]

        whole = page(100)
        assert told(whole) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]
        assert whole.next_cursor is None

        for limit in (1, 2, 3, 4, 5, 0, -1):
            found: list[tuple[str | None, int]] = []
            response = page(limit)
            while True:
                assert sum(len(topic.partitions) for topic in response.topics) <= max(1, limit)
                found += [(topic, index) for topic, indexes in told(response) for index in indexes]
                if response.next_cursor is None:
                    break
                response = page(limit, response.next_cursor)
            assert found == [(topic, index) for topic, indexes in told(whole) for index in indexes]

        for cursor in (Cursor(topic_name="c", partition_index=0), Cursor(topic_name="b", partition_index=-1)):
            (refused,) = page(100, cursor, "b").topics
            assert refused.error_code == ErrorCode.INVALID_REQUEST

        chosen = page(100, Cursor(topic_name="b", partition_index=1), "b", "a", "nobody", "b/d")
        assert told(chosen) == [("b", [1, 2]), ("b/d", []), ("nobody", [])]
        assert [topic.error_code for topic in chosen.topics] == [
            0,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
