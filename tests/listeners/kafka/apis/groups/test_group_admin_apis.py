"""Administration of groups on the wire: FindCoordinator, ListGroups, DeleteGroups, and __consumer_offsets."""

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.protocol.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.protocol.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.testing import Broker
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import (
    SETTINGS,
    Place,
    commit,
    committed,
    consumer_member,
    find,
    leave,
    member_heartbeat,
    only_member,
)

OFFSETS_TOPIC = "__consumer_offsets"
SHARE = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    group = f"group-{uuid4().hex}"
    find(client, group)
    return group


# -- FindCoordinator


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_of_a_group_is_found(broker: Broker, client: RawClient, version: int) -> None:
    told = client.ask(FindCoordinatorRequest(key="group"), FindCoordinatorResponse, version)
    assert (told.error_code, told.node_id, f"{told.host}:{told.port}") == (0, 1, broker.bootstrap_servers)


@pytest.mark.parametrize("version", range(4, 7))
def test_the_coordinators_of_many_groups_are_found_at_once(broker: Broker, client: RawClient, version: int) -> None:
    told = find(client, "one", "two", "", version=version)
    assert [(each.key, each.error_code, each.node_id) for each in told.coordinators] == [
        ("one", 0, 1),
        ("two", 0, 1),
        ("", 0, 1),
    ]
    assert {f"{each.host}:{each.port}" for each in told.coordinators} == {broker.bootstrap_servers}


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [SHARE, 9])
def test_coordinators_of_other_key_types_are_refused(client: RawClient, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key="key", key_type=key_type, coordinator_keys=["key"])
    told = client.ask(request, FindCoordinatorResponse, version)
    found = told if version < 4 else told.coordinators[0]
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert found.error_message


# -- ListGroups


def listed(
    client: RawClient, *, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5
) -> dict[str, ListedGroup]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    told = client.ask(request, ListGroupsResponse, version)
    assert told.error_code == 0
    return {each.group_id: each for each in told.groups}


@pytest.mark.parametrize("version", range(6))
def test_groups_of_both_protocols_are_listed(client: RawClient, topic: str, group: str, version: int) -> None:
    classic, consumer, offsets = f"{group}-classic", f"{group}-consumer", f"{group}-offsets"
    only_member(client, classic)
    consumer_member(client, consumer, topic)
    commit(client, offsets, Place(), topic, 1)

    found = listed(client, version=version)

    assert {found[each].protocol_type for each in (classic, consumer)} == {"consumer"}
    assert found[offsets].protocol_type == ""
    if version >= 4:
        assert found[classic].group_state == "Stable"
        assert found[consumer].group_state in {"Reconciling", "Stable"}
        assert found[offsets].group_state == "Empty"
    if version >= 5:
        assert [found[each].group_type for each in (classic, consumer, offsets)] == ["classic", "consumer", "classic"]


def test_groups_are_filtered_by_state_and_type(client: RawClient, topic: str, group: str) -> None:
    classic, consumer, offsets = f"{group}-classic", f"{group}-consumer", f"{group}-offsets"
    only_member(client, classic)
    place = consumer_member(client, consumer, topic)
    member_heartbeat(client, consumer, place._replace(generation=-1))
    commit(client, offsets, Place(), topic, 1)
    ours = {classic, consumer, offsets}

    def found(states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5) -> set[str]:
        return ours & listed(client, states=states, types=types, version=version).keys()

    assert found() == ours
    assert found(["Stable"]) == {classic}
    assert found(["empty"]) == {consumer, offsets}, "however it is written"
    assert found(["Stable", "Empty"]) == ours
    assert found(["Dead"]) == found(["no such state"]) == set()
    assert found(types=["Consumer"]) == {consumer}
    assert found(types=["classic"]) == {classic, offsets}
    assert found(["Empty"], ["classic"]) == {offsets}
    assert found(types=["no such type"]) == set()
    assert found(["Stable"], version=4) == {classic}


def test_no_groups_are_listed_before_any_coordinator_lookup() -> None:
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        assert listed(client) == {}


@pytest.mark.parametrize("version", range(6))
def test_listing_fails_while_one_shard_is_not_served(version: int) -> None:
    """A partial list would make the groups of a damaged partition look deleted."""
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        find(client, "group")
        on_loop(broker, lambda: broker.node.broker.groups.shards[1].drop("it is damaged"))
        told = client.ask(ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse, version)
        assert (told.error_code, told.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


# -- DeleteGroups


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted_with_their_offsets(
    client: RawClient, topic: str, group: str, version: int
) -> None:
    busy, left, offsets, nobody = (f"{group}-{what}" for what in ("busy", "left", "offsets", "nobody"))
    only_member(client, busy)
    place = only_member(client, left)
    commit(client, left, place, topic, 5)
    leave(client, left, place)
    commit(client, offsets, Place(), topic, 6)

    request = DeleteGroupsRequest(groups_names=[busy, left, offsets, nobody])
    told = client.ask(request, DeleteGroupsResponse, version)

    assert {each.group_id: each.error_code for each in told.results} == {
        busy: ErrorCode.NON_EMPTY_GROUP,
        left: 0,
        offsets: 0,
        nobody: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert [committed(client, each, topic).committed_offset for each in (left, offsets)] == [-1, -1]
    assert listed(client).keys() & {busy, left, offsets} == {busy}


@pytest.mark.parametrize("version", range(3))
def test_an_empty_consumer_group_is_deleted(client: RawClient, topic: str, group: str, version: int) -> None:
    place = consumer_member(client, group, topic)
    commit(client, group, place, topic, 5)

    def delete() -> int:
        request = DeleteGroupsRequest(groups_names=[group])
        return client.ask(request, DeleteGroupsResponse, version).results[0].error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    member_heartbeat(client, group, place._replace(generation=-1))
    assert delete() == 0
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert committed(client, group, topic).committed_offset == -1


# -- __consumer_offsets


@pytest.fixture(params=[OFFSETS_TOPIC, "__headwater_anything"])
def internal(request: pytest.FixtureRequest, group: str) -> str:
    """The name of an internal topic: one that exists and one that does not."""
    return request.param


def test_an_internal_topic_cannot_be_created(client: RawClient, internal: str) -> None:
    topic = CreatableTopic(name=internal, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (told,) = client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7).topics
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_internal_topic_cannot_be_deleted(client: RawClient, internal: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=internal)], timeout_ms=1000)
    (told,) = client.ask(request, DeleteTopicsResponse, 6).responses
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_partitions_cannot_be_added_to_consumer_offsets(client: RawClient, group: str) -> None:
    asked = CreatePartitionsTopic(name=OFFSETS_TOPIC, count=99, assignments=None)
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=1000, validate_only=False)
    (told,) = client.ask(request, CreatePartitionsResponse, 3).results
    assert told.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("acks", [1, -1])
def test_consumer_offsets_cannot_be_produced_to(client: RawClient, group: str, acks: int) -> None:
    before = client.offset(OFFSETS_TOPIC)
    assert client.produce(OFFSETS_TOPIC, batch_of(b"forged"), acks=acks).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.offset(OFFSETS_TOPIC) == before


def test_records_of_consumer_offsets_cannot_be_deleted(client: RawClient, topic: str, group: str) -> None:
    commit(client, group, Place(), topic, 5)
    wrong = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact,delete")
    right = AlterableConfig(name="max.compaction.lag.ms", config_operation=0, value="3600000")
    for config, code in ((wrong, ErrorCode.INVALID_CONFIG), (right, ErrorCode.NONE)):
        resource = AlterConfigsResource(resource_type=2, resource_name=OFFSETS_TOPIC, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (told,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
        assert told.error_code == code
    partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(3)]
    topics = [DeleteRecordsTopic(name=OFFSETS_TOPIC, partitions=partitions)]
    told = client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), DeleteRecordsResponse, 2)
    assert {each.error_code for each in told.topics[0].partitions} == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_group_named_often_in_a_request_is_described_once(client: RawClient, group: str) -> None:
    """The size of an answer must stay in proportion to the request."""
    only_member(client, group)
    described = client.ask(DescribeGroupsRequest(groups=[group] * 100), DescribeGroupsResponse, 6).groups
    assert [each.group_id for each in described] == [group]


def test_a_group_named_often_in_a_request_is_deleted_once(client: RawClient, group: str) -> None:
    deleted = client.ask(DeleteGroupsRequest(groups_names=["nobody"] * 3), DeleteGroupsResponse, 2).results
    assert [(each.group_id, each.error_code) for each in deleted] == [("nobody", ErrorCode.GROUP_ID_NOT_FOUND)]


def test_a_group_name_beyond_the_limit_is_refused(client: RawClient, topic: str, group: str) -> None:
    find(client, group)
    assert commit(client, "g" * 1000, Place(), topic, 5) == 0
    assert commit(client, "g" * 1001, Place(), topic, 5) == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(1, 14))
def test_metadata_marks_consumer_offsets_as_internal(client: RawClient, group: str, version: int) -> None:
    topics = client.ask(MetadataRequest(topics=None), MetadataResponse, version).topics
    (told,) = (each for each in topics if each.name == OFFSETS_TOPIC)
    assert (told.is_internal, len(told.partitions)) == (True, 3)


def test_commits_can_be_read_from_consumer_offsets(client: RawClient, topic: str, group: str) -> None:
    commit(client, group, Place(), topic, 5)
    records = [record for index in range(3) for record in client.records(OFFSETS_TOPIC, partition=index)]
    assert any(group.encode() in (record.key or b"") and topic.encode() in (record.key or b"") for record in records)
