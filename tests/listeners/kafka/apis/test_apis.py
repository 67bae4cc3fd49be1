"""Informative APIs: versions, metadata, offsets, leader epochs, producer ids, the cluster and its directories."""

from uuid import uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.listeners.kafka.api_table import APIS
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.records.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headwater.protocol.messages.topics.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.testing import Broker
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import EARLIEST, LATEST, NOW_MS, RawClient, batch_of, frame

MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -3, -4, -5, -6
UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION


# -- ApiVersions


def served(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_exactly_the_served_apis_and_versions_are_advertised(client: RawClient, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    response = client.ask(request, ApiVersionsResponse, version)

    expected = {api.key: (api.first_version, api.last_version) for api in APIS}
    # Kafka also advertises 0: older librdkafkas compress only for brokers that do.
    expected[0] = (0, 13)
    assert response.error_code == 0
    assert served(response) == expected


def test_an_unknown_api_versions_version_is_answered_in_version_0(client: RawClient) -> None:
    content = frame(ApiVersionsRequest(), 0)[4:]
    content = content[:2] + (99).to_bytes(2, "big") + content[4:] + b"\x00anything"
    client.send_bytes(len(content).to_bytes(4, "big") + content)

    correlation_id, response = client.receive(ApiVersionsResponse, 0)

    assert correlation_id == 1
    assert response.error_code == UNSUPPORTED_VERSION
    assert served(response)[18] == (0, 4)
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0, "and the client may try again"


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("raw", ""), ("-raw", "1"), ("raw client", "1"), ("r\nw", "1")]
)
def test_an_invalid_client_software_name_is_refused(client: RawClient, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = client.ask(request, ApiVersionsResponse, 4)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


# -- Metadata


def asked(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_leader_of_every_partition(
    broker: Broker, client: RawClient, topic: str, version: int
) -> None:
    response = client.ask(MetadataRequest(topics=asked(topic)), MetadataResponse, version)

    (told,) = response.topics
    (partition,) = told.partitions
    (node,) = response.brokers
    assert (told.name, told.error_code, told.is_internal) == (topic, 0, False)
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    if version >= 2:
        assert response.cluster_id == broker.node.broker.cluster_id
    if version >= 10:
        assert told.topic_id == broker.node.broker.metadata.state.existing(topic).id


def test_a_null_topic_list_means_all_and_an_empty_one_none(client: RawClient, topic: str) -> None:
    def names(topics: list[MetadataRequestTopic] | None, version: int) -> set[str | None]:
        return {told.name for told in client.ask(MetadataRequest(topics=topics), MetadataResponse, version).topics}

    assert topic in names(None, 1)
    assert topic in names(None, 12)
    assert topic in names([], 0), "in version 0 an empty list means all"
    assert names([], 1) == set()


def test_a_topic_is_created_on_first_use_unless_client_or_broker_forbids_it(client: RawClient, name: str) -> None:
    against = MetadataRequest(topics=asked(name), allow_auto_topic_creation=False)
    (told,) = client.ask(against, MetadataResponse, 4).topics
    assert (told.error_code, told.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    (told,) = client.ask(MetadataRequest(topics=asked(name)), MetadataResponse, 4).topics
    assert (told.error_code, told.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []), "as in Kafka"
    (told,) = client.ask(against, MetadataResponse, 4).topics
    assert (told.error_code, len(told.partitions)) == (0, 2)
    with Broker({"auto.create.topics.enable": "false"}) as strict, RawClient(strict) as other:
        (told,) = other.ask(MetadataRequest(topics=asked(name)), MetadataResponse, 4).topics
        assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "ümlaut", "__headwater_catalog", "a\x00b"])
def test_an_invalid_topic_name_is_refused_and_not_created(client: RawClient, name: str) -> None:
    (told,) = client.ask(MetadataRequest(topics=asked(name)), MetadataResponse, 9).topics
    assert (told.name, told.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_topic_name_that_collides_with_another_is_refused(client: RawClient, name: str) -> None:
    client.create(f"{name}.x")
    (told,) = client.ask(MetadataRequest(topics=asked(f"{name}_x")), MetadataResponse, 9).topics
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", [10, 12, 13])
def test_topics_are_found_by_id(client: RawClient, name: str, version: int) -> None:
    topic_id, unknown = client.create(name), uuid4()
    topics = [MetadataRequestTopic(topic_id=one, name=None) for one in (topic_id, unknown)]

    found, missing = client.ask(MetadataRequest(topics=topics), MetadataResponse, version).topics

    assert (found.name, found.topic_id, found.error_code) == (name, topic_id, 0)
    assert (missing.topic_id, missing.error_code) == (unknown, ErrorCode.UNKNOWN_TOPIC_ID)
    assert missing.name == (None if version >= 12 else "")


# -- ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_are_looked_up_by_position_and_by_timestamp(client: RawClient, topic: str, version: int) -> None:
    for time in (10, 30, 20):
        client.produce(topic, batch_of(b"v", timestamp=NOW_MS + time))

    def found(timestamp: int) -> tuple[int, int]:
        told = client.look_up(topic, timestamp, version=version)
        assert told.error_code == 0
        assert told.leader_epoch in ((0, -1) if version >= 4 else (-1,))
        return told.offset, told.timestamp

    assert found(EARLIEST) == (0, -1)
    assert found(LATEST) == (3, -1)
    assert found(0) == (0, NOW_MS + 10)
    assert found(NOW_MS + 11) == (1, NOW_MS + 30)
    assert found(NOW_MS + 31) == (-1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(MAX_TIMESTAMP, 7, 1), (EARLIEST_LOCAL, 8, 0), (LATEST_TIERED, 9, -1), (EARLIEST_PENDING_UPLOAD, 11, -1)],
)
def test_special_timestamps_are_accepted_from_their_version_on(
    client: RawClient, topic: str, timestamp: int, since: int, offset: int
) -> None:
    for time in (10, 30, 20):
        client.produce(topic, batch_of(b"v", timestamp=NOW_MS + time))

    before, after = (client.look_up(topic, timestamp, version=version) for version in (since - 1, since))

    assert (before.error_code, before.offset) == (UNSUPPORTED_VERSION, -1)
    assert (after.error_code, after.offset) == (0, offset)


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
def test_an_unknown_special_timestamp_is_refused(client: RawClient, topic: str, timestamp: int) -> None:
    assert client.look_up(topic, timestamp, version=11).error_code == UNSUPPORTED_VERSION


def test_an_empty_log_has_an_earliest_and_a_latest_offset_but_none_by_timestamp(client: RawClient, topic: str) -> None:
    assert [client.offset(topic, one) for one in (EARLIEST, LATEST, MAX_TIMESTAMP, NOW_MS)] == [0, 0, -1, -1]
    assert client.look_up(topic, EARLIEST).leader_epoch == 0


def test_without_transactions_read_committed_has_the_same_latest_offset(client: RawClient, topic: str) -> None:
    client.produce(topic, batch_of(b"v"))
    assert client.look_up(topic, LATEST, isolation_level=1).offset == 1


def test_a_client_with_a_newer_leader_epoch_is_told_so(client: RawClient, topic: str) -> None:
    def code(epoch: int) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=epoch)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
        return client.ask(request, ListOffsetsResponse, 9).topics[0].partitions[0].error_code

    assert [code(epoch) for epoch in (-1, 0, 1)] == [0, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_client_with_an_older_leader_epoch_is_fenced(broker: Broker, client: RawClient, topic: str) -> None:
    partition = broker.node.broker.partition(topic, 0)
    on_loop(broker, lambda: setattr(partition, "leader_epoch", 5))
    client.produce(topic, batch_of(b"in epoch 5"))

    def ask(epoch: int, believed: int = -1) -> EpochEndOffset:
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=believed)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
        return client.ask(request, OffsetForLeaderEpochResponse, 4).topics[0].partitions[0]

    assert ask(5, believed=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(5, believed=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(5, believed=5) == EpochEndOffset(partition=0, leader_epoch=5, end_offset=1)


# -- OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(2, 5))
def test_the_latest_epoch_ends_at_the_log_end_offset(client: RawClient, topic: str, version: int) -> None:
    def end(epoch: int, partition: int = 0) -> EpochEndOffset:
        asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
        return client.ask(request, OffsetForLeaderEpochResponse, version).topics[0].partitions[0]

    assert end(0) == EpochEndOffset(partition=0, leader_epoch=0, end_offset=0)
    client.produce(topic, batch_of(b"a", b"b"))
    assert end(0) == EpochEndOffset(partition=0, leader_epoch=0, end_offset=2)
    assert end(7) == EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    assert end(-1) == EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    assert end(0, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(client: RawClient, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    told = [client.ask(request, InitProducerIdResponse, version) for _ in range(3)]

    assert len({one.producer_id for one in told}) == 3
    assert {(one.error_code, one.producer_epoch) for one in told} == {(0, 0)}


def test_no_producer_id_is_handed_out_that_the_catalog_could_not_store() -> None:
    disk = FaultyDisk()
    disk.cursed = "__headwater_catalog"
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    with Broker(disk=disk) as broker, RawClient(broker) as client:
        disk.write_error = FULL
        assert client.ask(request, InitProducerIdResponse, 4).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()
        assert client.ask(request, InitProducerIdResponse, 4).producer_id == 0


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_every_group_is_this_broker(broker: Broker, client: RawClient, version: int) -> None:
    request = FindCoordinatorRequest(key="group", coordinator_keys=["one", "two"])
    told = client.ask(request, FindCoordinatorResponse, version)

    if version < 4:
        assert (told.error_code, told.node_id) == (0, 1)
        assert f"{told.host}:{told.port}" == broker.bootstrap_servers
    else:
        assert [(one.key, one.error_code, f"{one.host}:{one.port}") for one in told.coordinators] == [
            ("one", 0, broker.bootstrap_servers),
            ("two", 0, broker.bootstrap_servers),
        ]


def test_coordinators_of_other_key_types_are_refused(client: RawClient) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["one"])
    (found,) = client.ask(request, FindCoordinatorResponse, 6).coordinators
    assert (found.key, found.node_id, found.error_code) == ("one", -1, ErrorCode.INVALID_REQUEST)


# -- the cluster and its directories


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_one_broker(broker: Broker, client: RawClient, version: int) -> None:
    told = client.ask(DescribeClusterRequest(), DescribeClusterResponse, version)

    assert (told.error_code, told.controller_id, told.cluster_id) == (0, 1, broker.node.broker.cluster_id)
    assert [f"{node.host}:{node.port}" for node in told.brokers] == [broker.bootstrap_servers]


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_endpoint_types_other_than_brokers_are_refused(client: RawClient, endpoint_type: int, code: ErrorCode) -> None:
    told = client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse, 1)
    assert (told.error_code, told.brokers, told.cluster_id) == (code, [], "")


@pytest.mark.parametrize("version", range(1, 12))
def test_a_partition_that_is_named_twice_is_not_looked_up(client: RawClient, topic: str, version: int) -> None:
    twice = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 0, 9)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=twice)])
    told = client.ask(request, ListOffsetsResponse, version).topics[0].partitions

    assert [each.error_code for each in told] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("version", range(4, 13))
def test_a_fetch_from_a_topic_without_a_name_is_answered_in_words_of_its_version(
    client: RawClient, version: int
) -> None:
    data = client.fetch("", 0, version=version)
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(1, 5))
def test_log_dirs_report_the_size_of_every_requested_partition(
    broker: Broker, client: RawClient, name: str, version: int
) -> None:
    client.create(name, partitions=2)
    batch = batch_of(bytes(500))
    client.produce(name, batch, partition=1)

    def sizes(topics: list[DescribableLogDirTopic] | None) -> dict[str, dict[int, int]]:
        (directory,) = client.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, version).results
        assert directory.log_dir == str(broker.data_directory)
        if version >= 4:
            assert directory.total_bytes > 0
        return {
            topic.name: {one.partition_index: one.partition_size for one in topic.partitions}
            for topic in directory.topics
        }

    assert sizes(None)[name] == {0: 0, 1: len(batch)}
    assert sizes([DescribableLogDirTopic(topic=name, partitions=[1, 9])]) == {name: {1: len(batch)}}
    assert sizes([DescribableLogDirTopic(topic="nobody", partitions=[0])]) == {}
