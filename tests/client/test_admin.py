from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, Refused, UnknownTopic
from headwater.client.offsets import EARLIEST, list_offsets
from headwater.client.producer import Producer
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.wire.codec import Request
from headwater.testing import Broker
from tests.support.client.scripted import ScriptedBroker, leading, patient


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    return Admin(cluster)


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex}"


def test_the_cluster_is_described(admin: Admin, broker: Broker) -> None:
    described = admin.describe_cluster()
    assert described.id
    assert described.brokers == {described.controller: Endpoint.parse(broker.bootstrap_servers)}


def test_a_topic_is_created_listed_described_and_deleted(admin: Admin, name: str) -> None:
    created = admin.create_topic(name, partition_count=4, replication_factor=1)
    described = admin.describe_topic(name)
    assert (created.name, created.partition_count, created.replication_factor) == (name, 4, 1)
    assert described.id == created.id
    assert [partition.index for partition in described.partitions] == [0, 1, 2, 3]
    assert described.partitions[0].replicas == described.partitions[0].in_sync_replicas
    assert described in admin.list_topics()

    admin.delete_topic(name)

    assert name not in [topic.name for topic in admin.list_topics()]
    with pytest.raises(UnknownTopic):
        admin.describe_topic(name)


def test_validating_a_topic_does_not_create_it(admin: Admin, name: str) -> None:
    assert admin.create_topic(name, partition_count=4, validate_only=True).partition_count == 4
    with pytest.raises(UnknownTopic):
        admin.describe_topic(name)


def test_a_refusal_carries_the_message_of_the_broker(admin: Admin, name: str) -> None:
    admin.create_topic(name)
    with pytest.raises(Refused, match=rf"^topic '{name}' already exists \(TOPIC_ALREADY_EXISTS\)$"):
        admin.create_topic(name)
    with pytest.raises(Refused, match=r"retention\.ms.*INVALID_CONFIG"):
        admin.create_topic("other", settings={"retention.m": "1"})


def test_a_topic_grows_but_does_not_shrink(admin: Admin, cluster: Cluster, name: str) -> None:
    admin.create_topic(name, partition_count=1)
    admin.add_partitions(name, 3, validate_only=True)
    assert len(cluster.topic(name).partitions) == 1
    admin.add_partitions(name, 3)
    assert len(cluster.topic(name).partitions) == 3
    with pytest.raises(Refused, match="INVALID_PARTITIONS"):
        admin.add_partitions(name, 2)


def test_settings_are_described_changed_and_returned_to_their_defaults(admin: Admin, name: str) -> None:
    admin.create_topic(name, settings={"retention.ms": "1000"})

    def settings() -> dict[str, tuple[str | None, str, bool]]:
        return {one.name: (one.value, one.source, one.is_default) for one in admin.describe_settings(name)}

    assert settings()["retention.ms"] == ("1000", "topic", False)
    assert settings()["cleanup.policy"] == ("delete", "default", True)
    assert all(one.documentation for one in admin.describe_settings(name))

    admin.alter_settings(name, {"cleanup.policy": "compact"}, ["retention.ms"], validate_only=True)
    assert settings()["cleanup.policy"] == ("delete", "default", True)
    admin.alter_settings(name, {"cleanup.policy": "compact"}, ["retention.ms"])
    assert settings()["cleanup.policy"] == ("compact", "topic", False)
    assert settings()["retention.ms"] == ("604800000", "default", True)

    with pytest.raises(Refused, match="INVALID_CONFIG"):
        admin.alter_settings(name, {"retention.ms": "soon"})


def test_records_before_an_offset_are_deleted_and_sizes_described(admin: Admin, cluster: Cluster, name: str) -> None:
    admin.create_topic(name, partition_count=2)
    first, second = (TopicPartition(TopicName(name), index) for index in range(2))
    with Producer(cluster) as producer:
        for _ in range(10):
            producer.send(name, b"v" * 100, partition=0)

    assert admin.delete_records({first: 4, second: -1}) == {first: 4, second: 0}

    assert list_offsets(cluster, [first, second], EARLIEST) == {first: 4, second: 0}
    sizes = admin.partition_sizes([first, second])
    assert sizes[first] > 1000
    assert sizes[second] == 0
    with pytest.raises(Refused, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({first: 99})


def test_a_missing_topic_is_an_error_at_once(admin: Admin) -> None:
    for attempt in (
        lambda: admin.delete_topic("nosuch"),
        lambda: admin.add_partitions("nosuch", 3),
        lambda: admin.alter_settings("nosuch", {"retention.ms": "1"}),
        lambda: admin.describe_settings("nosuch"),
        lambda: admin.partition_sizes([TopicPartition(TopicName("nosuch"), 0)]),
    ):
        with pytest.raises(UnknownTopic, match="topic 'nosuch' does not exist"):
            attempt()


def test_a_controller_that_moved_is_looked_up_again() -> None:
    results = [
        [CreatableTopicResult(name="orders", error_message=None)],
        [CreatableTopicResult(name="orders", error_code=ErrorCode.NOT_CONTROLLER, error_message="not any more")],
    ]

    def script(_: Request) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=results.pop())

    with ScriptedBroker({CreateTopicsRequest: script}) as broker:
        broker.scripts[MetadataRequest] = leading({"orders": 1}, {1: broker.endpoint})
        with patient(broker.bootstrap) as cluster:
            assert Admin(cluster).create_topic("orders").name == "orders"


def test_an_answer_with_too_few_results_is_an_error() -> None:
    with ScriptedBroker({CreateTopicsRequest: lambda _: CreateTopicsResponse(topics=[])}) as broker:
        # The controller is not among the brokers, as with dedicated KRaft controllers: any broker forwards the request.
        broker.scripts[MetadataRequest] = leading({}, {-1: broker.endpoint})
        with patient(broker.bootstrap) as cluster, pytest.raises(ClientError, match="holds 0 results"):
            Admin(cluster).create_topic("orders")
