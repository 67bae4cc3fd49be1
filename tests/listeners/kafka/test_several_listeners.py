"""A broker with several Kafka listeners tells each client the addresses of the listener that it is connected to."""

import socket
from collections.abc import Iterator

import pytest

from headwater.endpoint import Endpoint
from headwater.protocol.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient

ADVERTISED = Endpoint("broker.example.org", 9093)
SETTINGS = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "advertised.listeners": f"EXTERNAL://{ADVERTISED}",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


def told(client: RawClient) -> set[Endpoint]:
    (node,) = client.ask(MetadataRequest(topics=[]), MetadataResponse, 9).brokers
    (described,) = client.ask(DescribeClusterRequest(), DescribeClusterResponse, 0).brokers
    coordinator = client.ask(FindCoordinatorRequest(key="group", key_type=0), FindCoordinatorResponse, 3)
    return {Endpoint(each.host, each.port) for each in (node, described, coordinator)}


def test_a_client_is_told_the_address_of_its_own_listener(broker: Broker) -> None:
    addresses = broker.node.addresses
    assert list(addresses) == ["kafka", "kafka.EXTERNAL"]
    assert addresses["kafka"] != addresses["kafka.EXTERNAL"]
    with RawClient(broker) as internal:
        assert told(internal) == {addresses["kafka"]}
    with RawClient(broker) as external:
        external.socket.close()
        external.socket = socket.create_connection(addresses["kafka.EXTERNAL"], timeout=30)
        assert told(external) == {ADVERTISED}


def test_listeners_share_the_limits_on_connections() -> None:
    with Broker({**SETTINGS, "max.connections": "1"}) as broker, RawClient(broker) as client:
        told(client)
        with socket.create_connection(broker.node.addresses["kafka.EXTERNAL"], timeout=30) as refused:
            assert refused.recv(1) == b""


def test_a_listener_that_cannot_bind_leaves_nothing_behind(broker: Broker) -> None:
    taken = broker.node.addresses["kafka.EXTERNAL"]
    settings = {**SETTINGS, "listeners": f"INTERNAL://127.0.0.1:0,EXTERNAL://{taken}"}
    second = Broker(settings)
    with pytest.raises(OSError, match="ddress already in use"):
        second.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(second.node.addresses["kafka"], timeout=30)
