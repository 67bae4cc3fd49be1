import socket
from collections.abc import Iterator

import pytest

from headwater.client.cluster import METADATA_AGE_MS_MAX, Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError, ConnectionLost, Refused, UnknownTopic
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.clock import ManualClock
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError, ErrorCode
from headwater.ids import NodeId, TopicName, TopicPartition
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.wire.codec import Request, Response
from headwater.testing import Broker
from tests.support.client.scripted import ScriptedBroker, leading, patient

ORDERS = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    """A broker that leads every partition of `orders`."""
    with ScriptedBroker() as broker:
        broker.scripts[MetadataRequest] = leading({"orders": 2}, {1: broker.endpoint})
        yield broker


def answer_offsets(*codes: ErrorCode) -> list[ListOffsetsResponse]:
    """A ListOffsets response about partition 0 for each error code."""
    return [
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="orders",
                    partitions=[ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7)],
                )
            ]
        )
        for code in codes
    ]


def unreachable() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(Endpoint(*free.getsockname()))


# -- bootstrap


def test_one_reachable_broker_of_the_bootstrap_list_is_enough(broker: Broker) -> None:
    with Cluster(f"{unreachable()}, {broker.bootstrap_servers}") as cluster:
        assert cluster.metadata().cluster_id


def test_an_unreachable_cluster_is_an_error_at_once() -> None:
    pauses: list[float] = []
    address = unreachable()
    with (
        Cluster(address, sleep=pauses.append) as cluster,
        pytest.raises(ConnectionLost, match=f"cannot reach {address}"),
    ):
        cluster.topic("orders")
    assert not pauses


@pytest.mark.parametrize("bootstrap", ["", "host", "host:x", ":9092", "host:0", "host:9092,", "SSL://host:9092"])
def test_an_invalid_bootstrap_list_is_refused(bootstrap: str) -> None:
    with pytest.raises(ConfigError):
        Cluster(bootstrap)


# -- metadata


def test_metadata_of_a_topic_is_fetched_once_and_cached(scripted: ScriptedBroker) -> None:
    with patient(scripted.bootstrap) as cluster:
        described = cluster.topic("orders")
        again = cluster.topic("orders")
        assert cluster.leader(ORDERS) == 1

    assert [partition.index for partition in described.partitions] == [0, 1]
    assert again is described
    assert len(scripted.sent(MetadataRequest)) == 1


def test_metadata_is_fetched_again_when_it_is_old_or_was_forgotten(scripted: ScriptedBroker) -> None:
    clock = ManualClock()
    with Cluster(scripted.bootstrap, clock=clock) as cluster:
        cluster.topic("orders")
        clock.advance(METADATA_AGE_MS_MAX)
        cluster.topic("orders")
        cluster.forget(["orders", "never known"])
        cluster.topic("orders")
    assert len(scripted.sent(MetadataRequest)) == 3


def test_a_topic_that_is_being_created_is_waited_for(scripted: ScriptedBroker) -> None:
    complete = leading({"orders": 1}, {1: scripted.endpoint})
    incomplete = [
        MetadataResponse(brokers=[], topics=[]),
        MetadataResponse(
            brokers=[],
            topics=[MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="orders", partitions=[])],
        ),
        MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="orders", partitions=[])]),
        MetadataResponse(
            brokers=[],
            topics=[
                MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="orders", partitions=[])
            ],
        ),
    ]
    scripted.scripts[MetadataRequest] = lambda request: incomplete.pop() if incomplete else complete(request)
    with patient(scripted.bootstrap) as cluster:
        assert len(cluster.topic("orders").partitions) == 1


def test_a_missing_topic_is_not_a_retriable_error(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="topic 'nosuch' does not exist") as raised:
        cluster.topic("nosuch")
    assert not raised.value.is_retriable


def test_an_invalid_topic_name_is_not_retried(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="INVALID_TOPIC_EXCEPTION"):
        cluster.topic("no spaces")


def test_a_missing_partition_is_an_error_that_names_the_existing_ones(scripted: ScriptedBroker) -> None:
    with patient(scripted.bootstrap) as cluster:
        with pytest.raises(UnknownTopic, match="topic 'orders' has partitions 0 to 1, not 2"):
            cluster.leader(TopicPartition(TopicName("orders"), 2))
        with pytest.raises(UnknownTopic, match="not -1"):
            cluster.leader(TopicPartition(TopicName("orders"), -1))


def test_a_partition_added_after_the_metadata_was_cached_is_found(scripted: ScriptedBroker) -> None:
    with patient(scripted.bootstrap) as cluster:
        cluster.topic("orders")
        scripted.scripts[MetadataRequest] = leading({"orders": 3}, {1: scripted.endpoint})
        assert cluster.leader(TopicPartition(TopicName("orders"), 2)) == 1


def test_a_partition_without_leader_is_a_retriable_error(scripted: ScriptedBroker) -> None:
    topic = MetadataResponseTopic(
        name="orders",
        partitions=[MetadataResponsePartition(partition_index=0, leader_id=-1, replica_nodes=[], isr_nodes=[])],
    )
    scripted.scripts[MetadataRequest] = lambda _: MetadataResponse(brokers=[], topics=[topic])
    with patient(scripted.bootstrap) as cluster, pytest.raises(Refused, match="has no leader") as raised:
        cluster.leader(ORDERS)
    assert raised.value.is_retriable


def test_a_topic_that_is_being_created_does_not_hide_the_others(scripted: ScriptedBroker) -> None:
    healthy = leading({"orders": 1}, {1: scripted.endpoint})

    def script(request: Request) -> Response:
        response = healthy(request)
        assert isinstance(response, MetadataResponse)
        response.topics.append(
            MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="new", partitions=[])
        )
        return response

    scripted.scripts[MetadataRequest] = script
    with patient(scripted.bootstrap) as cluster:
        assert [topic.name for topic in cluster.topics()] == ["orders"]


def test_a_broker_that_left_the_cluster_cannot_be_asked(cluster: Cluster) -> None:
    with pytest.raises(ConnectionLost, match="broker 99 is not there"):
        cluster.node(NodeId(99))


# -- leaders


def test_a_leader_that_moved_is_looked_up_again(scripted: ScriptedBroker) -> None:
    answers = answer_offsets(ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scripted.scripts[ListOffsetsRequest] = lambda _: answers.pop()
    with patient(scripted.bootstrap) as cluster:
        assert list_offsets(cluster, [ORDERS], EARLIEST) == {ORDERS: 7}
    assert len(scripted.sent(MetadataRequest)) == 3


def test_a_lost_connection_is_made_again(scripted: ScriptedBroker) -> None:
    answers: list[Response | None] = [*answer_offsets(ErrorCode.NONE), None, None]
    scripted.scripts[ListOffsetsRequest] = lambda _: answers.pop()
    with patient(scripted.bootstrap) as cluster:
        assert list_offsets(cluster, [ORDERS], LATEST) == {ORDERS: 7}


def test_a_retriable_error_is_raised_at_the_time_out(scripted: ScriptedBroker) -> None:
    clock = ManualClock()
    (refusal,) = answer_offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scripted.scripts[ListOffsetsRequest] = lambda _: refusal
    with Cluster(
        scripted.bootstrap, timeout_ms=5_000, clock=clock, sleep=lambda seconds: clock.advance(round(seconds * 1000))
    ) as cluster:
        with pytest.raises(Refused, match="partition orders-0: NOT_LEADER_OR_FOLLOWER"):
            list_offsets(cluster, [ORDERS], LATEST)
        assert clock.monotonic_ms() == 5_000


def test_a_fatal_error_is_raised_at_once(scripted: ScriptedBroker) -> None:
    (refusal,) = answer_offsets(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    scripted.scripts[ListOffsetsRequest] = lambda _: refusal
    with patient(scripted.bootstrap) as cluster, pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        list_offsets(cluster, [ORDERS], LATEST)
    assert len(scripted.sent(ListOffsetsRequest)) == 1


def test_a_response_that_leaves_out_a_partition_is_an_error(scripted: ScriptedBroker) -> None:
    scripted.scripts[ListOffsetsRequest] = lambda _: ListOffsetsResponse(topics=[])
    with patient(scripted.bootstrap) as cluster, pytest.raises(ClientError, match="leaves out orders-0"):
        list_offsets(cluster, [ORDERS], LATEST)


def test_an_unknown_error_code_is_reported_by_its_number(scripted: ScriptedBroker) -> None:
    scripted.scripts[MetadataRequest] = lambda _: MetadataResponse(brokers=[], topics=[], error_code=9999)
    with patient(scripted.bootstrap) as cluster, pytest.raises(Refused, match="error 9999"):
        cluster.metadata()


def test_connections_are_kept_and_closed_with_the_cluster(scripted: ScriptedBroker) -> None:
    with patient(scripted.bootstrap) as cluster:
        cluster.metadata()
        connection = cluster.node(NodeId(1))
        assert isinstance(connection, BrokerConnection)
        assert cluster.node(NodeId(1)) is connection
    assert connection.is_closed
