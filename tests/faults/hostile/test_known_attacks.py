"""Attacks that have worked on other systems, as far as there is something here that they could work on.

On the client's side SCRAM has its own (`tests/client/security/test_scram.py`): nonces, iterations, servers without the
password.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import ErrorCode
from headwater.listeners.kafka.api_table import advertised_apis
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.records.fetch import FetchRequest, FetchResponse, ReplicaState
from headwater.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.testing import Broker
from tests.faults.hostile.crowding import patiently
from tests.support.broker.on_loop import connection_of, eventually, on_loop
from tests.support.kafka.raw_client import MIB, RawClient, batch_of, fetch_request
from tests.support.kafka.raw_groups import find

BROKER = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attacked")


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[Broker]:
    with Broker(data_directory=directory / "data") as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


# -- CVE-2018-1288: a client that fetches as if it were a replica


@pytest.mark.parametrize("version", FetchRequest.versions)
def test_a_consumer_does_not_become_a_replica_inside_its_session(client: RawClient, version: int) -> None:
    name = f"session-{version}"
    topic_id = client.create(name)
    client.produce(name, batch_of(b"v"))
    offsets = {topic_id: {0: 0}} if version >= 13 else {name: {0: 0}}
    honest = client.ask(fetch_request(offsets), FetchResponse, version)
    as_replica: dict[str, Any] = {"replica_state": ReplicaState(replica_id=1)} if version >= 15 else {"replica_id": 1}

    request = fetch_request(offsets, session_id=honest.session_id, session_epoch=1, **as_replica)
    answer = client.ask(request, FetchResponse, version)

    told = [partition for topic in answer.responses for partition in topic.partitions]
    assert answer.error_code or all(each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in told)
    assert not any(each.records for each in told)


# -- CVE-2022-34917: memory allocated for announced sizes before the client has authenticated


def test_a_connection_takes_memory_for_received_bytes_and_not_for_announced_ones(broker: Broker) -> None:
    before = on_loop(broker, lambda: broker.node.connections.memory.used)
    clients = [RawClient(broker) for _ in range(20)]
    try:
        for client in clients:
            client.send_bytes((100 * MIB).to_bytes(4, "big") + bytes(10_000))
            connection = connection_of(broker, client)
            eventually(broker, lambda found=connection: found._frames.partial_bytes == 10_004)
        used = on_loop(broker, lambda: broker.node.connections.memory.used)
        assert used - before <= len(clients) * 2 * 10_004
    finally:
        for client in clients:
            client.socket.close()


# -- APIs that are not served: inter-broker APIs, incomplete authentication


ADVERTISED = {key for key, _, _ in advertised_apis()}


@pytest.mark.parametrize("key", sorted({*range(-2, 100), 9999, 10_001, 32767, -32768} - ADVERTISED))
def test_an_api_that_is_not_advertised_ends_the_connection(broker: Broker, client: RawClient, key: int) -> None:
    with RawClient(broker) as attacker:
        content = struct.pack(">hhih", key, 0, 1, -1) + bytes(20)
        attacker.send_bytes(len(content).to_bytes(4, "big") + content)
        assert attacker.is_closed()
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == ErrorCode.NONE


# -- CVE-2023-25194 and similar: settings over the wire that name files, addresses or classes


@pytest.mark.parametrize(
    "setting",
    [
        "log.dir",
        "listeners",
        "advertised.listeners",
        "sasl.jaas.config",
        "ssl.keystore.location",
        "metric.reporters",
        "principal.builder.class",
        "remote.log.storage.manager.class.name",
    ],
)
def test_no_client_may_name_a_file_an_address_or_a_class(client: RawClient, setting: str) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[AlterableConfig(name=setting, config_operation=0, value="/tmp/evil")],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert answer.error_code == ErrorCode.INVALID_CONFIG

    asked = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=[setting])
    (described,) = client.ask(DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse, 4).results
    assert all(config.value != "/tmp/evil" for config in described.configs)


# -- CVE-2020-17519 and similar: path traversal by names


@pytest.mark.parametrize(
    "name", ["..", ".", "../up", "a/b", "/tmp/x", "a\x00b", "a\\..\\b", "", "x" * 250, "ä", "%2e%2e"]
)
def test_no_name_leads_out_of_the_data_directory(client: RawClient, directory: Path, name: str) -> None:
    before = sorted(path for path in directory.rglob("*") if path.is_dir())
    asked = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (created,) = client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7).topics
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (known,) = client.ask(request, MetadataResponse, 9).topics
    assert known.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert sorted(path for path in directory.rglob("*") if path.is_dir()) == before


# -- patterns with exponential run time


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*a){25}", "a{1000}{1000}", "(" * 1000, "[" * 10_000])
def test_no_pattern_keeps_the_broker_busy(client: RawClient, pattern: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a" * 200)], allow_auto_topic_creation=True)
    client.ask(request, MetadataResponse, 9)
    find(client, "patterns")

    def subscribe(client: RawClient, number: int) -> int:
        asked = ConsumerGroupHeartbeatRequest(
            group_id="patterns",
            member_id=f"{number:0>22}",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        return client.ask(asked, ConsumerGroupHeartbeatResponse, 1).error_code

    assert patiently(subscribe, client, 1) in (ErrorCode.NONE, ErrorCode.INVALID_REGULAR_EXPRESSION)
