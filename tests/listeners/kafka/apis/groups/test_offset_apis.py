"""Committed offsets on the wire: OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.topics.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import (
    COMMIT_VERSIONS,
    FETCH_VERSIONS,
    SETTINGS,
    Place,
    commit,
    committed,
    consumer_member,
    find,
    member_heartbeat,
    only_member,
)

NOBODY = Place()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    group = f"group-{uuid4().hex}"
    find(client, group)
    return group


# -- OffsetCommit


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_committed_offset_is_fetched(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=2)

    code = commit(client, group, NOBODY, name, 42, partition=1, topic_id=topic_id, metadata="why", version=version)

    assert code == 0
    told = committed(client, group, name, partition=1)
    assert (told.error_code, told.committed_offset, told.metadata) == (0, 42, "why")
    assert told.committed_leader_epoch == (0 if version >= 6 else -1)
    assert committed(client, group, name, partition=0).committed_offset == -1


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_for_an_unknown_topic_or_partition_is_refused(
    client: RawClient, name: str, group: str, version: int
) -> None:
    topic_id = client.create(name)

    def code(topic: str, partition: int, topic_id: object) -> int:
        assert isinstance(topic_id, type(unknown))
        return commit(client, group, NOBODY, topic, 1, partition=partition, topic_id=topic_id, version=version)

    unknown = uuid4()
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code("no-such-topic", 0, unknown) == missing
    assert code(name, 1, topic_id) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(name, -1, topic_id) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(name, 0, topic_id) == 0


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_with_metadata_beyond_the_limit_is_refused(
    client: RawClient, name: str, group: str, version: int
) -> None:
    topic_id = client.create(name)

    def code(metadata: str | None) -> int:
        return commit(client, group, NOBODY, name, 1, topic_id=topic_id, metadata=metadata, version=version)

    assert code("m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert committed(client, group, name).committed_offset == -1
    assert code("m" * 4096) == 0
    assert code(None) == 0
    assert committed(client, group, name).metadata == ""


def test_a_group_without_a_name_may_commit(client: RawClient, topic: str) -> None:
    """Kafka allows this for clients older than consumer groups."""
    find(client, "")
    assert commit(client, "", NOBODY, topic, 3) == 0
    assert committed(client, "", topic).committed_offset == 3


# -- OffsetFetch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_offsets_are_fetched_in_every_version(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=2)
    commit(client, group, NOBODY, name, 7, metadata="why")

    def fetched(partition: int) -> tuple[int, int, str | None]:
        told = committed(client, group, name, partition=partition, version=version, topic_id=topic_id)
        assert told.committed_leader_epoch == (0 if version >= 5 and partition == 0 else -1)
        return told.error_code, told.committed_offset, told.metadata

    assert fetched(0) == (0, 7, "why")
    assert fetched(1) == (0, -1, "")
    assert fetched(99) == (0, -1, ""), "nothing is committed for what is not there"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_unknown_group_has_no_offsets(client: RawClient, name: str, version: int) -> None:
    topic_id = client.create(name)
    find(client, "anybody")
    told = committed(client, f"nobody-{uuid4()}", name, version=version, topic_id=topic_id)
    assert (told.error_code, told.committed_offset) == (0, -1)


@pytest.mark.parametrize("version", [version for version in FETCH_VERSIONS if version >= 2])
def test_all_offsets_of_a_group_are_fetched(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=3)
    for partition in (0, 2):
        commit(client, group, NOBODY, name, partition + 5, partition=partition)

    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    request = OffsetFetchRequest(group_id=group, topics=None, groups=groups)
    response = client.ask(request, OffsetFetchResponse, version)

    (told,) = response.topics if version < 8 else response.groups[0].topics
    assert sorted((each.partition_index, each.committed_offset) for each in told.partitions) == [(0, 5), (2, 7)]
    if version < 10:
        assert told.name == name
    else:
        assert response.groups[0].topics[0].topic_id == topic_id


@pytest.mark.parametrize("version", [version for version in FETCH_VERSIONS if version >= 8])
def test_offsets_of_many_groups_are_fetched_at_once(client: RawClient, name: str, version: int) -> None:
    topic_id = client.create(name)
    groups = [f"group-{uuid4().hex}" for _ in range(5)]
    for number, group in enumerate(groups):
        find(client, group)
        commit(client, group, NOBODY, name, number)

    topics = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])]
    asked = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups]
    told = client.ask(OffsetFetchRequest(groups=asked, require_stable=True), OffsetFetchResponse, version).groups

    assert [(each.group_id, each.topics[0].partitions[0].committed_offset) for each in told] == [
        (group, number) for number, group in enumerate(groups)
    ]


def test_an_unknown_topic_id_is_refused(client: RawClient, group: str) -> None:
    told = committed(client, group, "", version=10, topic_id=uuid4())
    assert (told.error_code, told.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_with_a_stale_epoch_may_not_fetch_offsets(
    client: RawClient, name: str, group: str, version: int
) -> None:
    topic_id = client.create(name)
    place = consumer_member(client, group, name)
    commit(client, group, place, name, 8)

    def ask(member_id: str | None, epoch: int) -> tuple[int, list[int]]:
        asked = OffsetFetchRequestGroup(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])],
        )
        (told,) = client.ask(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, version).groups
        return told.error_code, [each.committed_offset for topic in told.topics for each in topic.partitions]

    assert ask(place.member_id, place.generation) == (0, [8])
    assert ask(None, -1) == (0, [8]), "an administrator may always ask"
    assert ask(place.member_id, place.generation + 1) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert ask("somebody", place.generation) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert ask(None, place.generation) == (ErrorCode.UNKNOWN_MEMBER_ID, []), "an epoch is that of a member"


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_offset_fetches_before_any_coordinator_lookup_are_refused(version: int) -> None:
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        topic_id = client.create("topic")
        topics = [OffsetFetchRequestTopics(name="topic", topic_id=topic_id, partition_indexes=[0])]
        request = OffsetFetchRequest(
            group_id="group",
            topics=[OffsetFetchRequestTopic(name="topic", partition_indexes=[0])],
            groups=[OffsetFetchRequestGroup(group_id="group", topics=topics)],
        )
        told = client.ask(request, OffsetFetchResponse, version)

    if version == 1:
        assert told.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR, "it has no other place for it"
    else:
        code = told.error_code if version < 8 else told.groups[0].error_code
        assert code == ErrorCode.NOT_COORDINATOR


def test_offsets_of_a_topic_are_deleted_with_it(client: RawClient, topic: str, group: str) -> None:
    commit(client, group, NOBODY, topic, 5)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1000)
    assert client.ask(request, DeleteTopicsResponse, 6).responses[0].error_code == 0
    client.create(topic)
    assert committed(client, group, topic).committed_offset == -1


# -- OffsetDelete


def delete(client: RawClient, group: str, topic: str, partitions: Sequence[int] = (0,)) -> tuple[int, list[int]]:
    """The error code of the response and those of the partitions."""
    asked = OffsetDeleteRequestTopic(
        name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    )
    told = client.ask(OffsetDeleteRequest(group_id=group, topics=[asked]), OffsetDeleteResponse, 0)
    for each in told.topics:
        assert (each.name, [one.partition_index for one in each.partitions]) == (topic, list(partitions))
    return told.error_code, [each.error_code for found in told.topics for each in found.partitions]


def test_offsets_are_deleted(client: RawClient, name: str, group: str) -> None:
    client.create(name, partitions=2)
    for partition in (0, 1):
        commit(client, group, NOBODY, name, 5, partition=partition)

    assert delete(client, group, name, [0]) == (0, [0])

    assert [committed(client, group, name, partition=index).committed_offset for index in (0, 1)] == [-1, 5]


def test_offsets_of_unknown_groups_and_topics_cannot_be_deleted(client: RawClient, topic: str, group: str) -> None:
    commit(client, group, NOBODY, topic, 5)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, group, "no-such-topic") == (0, [unknown])
    assert delete(client, group, topic, [9, 0, 10]) == (0, [unknown, 0, unknown])
    assert delete(client, "no-such-group", topic) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete(client, "", topic) == (ErrorCode.INVALID_GROUP_ID, [])


def test_offsets_of_topics_that_classic_members_subscribe_to_are_not_deleted(
    client: RawClient, name: str, group: str
) -> None:
    client.create(name)
    client.create(f"{name}-idle")
    place = only_member(client, group, topics=[name])
    for topic in (name, f"{name}-idle"):
        commit(client, group, place, topic, 5)

    assert delete(client, group, name) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete(client, group, f"{name}-idle") == (0, [0])
    assert committed(client, group, name).committed_offset == 5


def test_offsets_of_topics_that_consumer_members_subscribe_to_are_not_deleted(
    client: RawClient, topic: str, group: str
) -> None:
    place = consumer_member(client, group, topic)
    commit(client, group, place, topic, 5)

    assert delete(client, group, topic) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    member_heartbeat(client, group, place._replace(generation=-1))
    assert delete(client, group, topic) == (0, [0])
