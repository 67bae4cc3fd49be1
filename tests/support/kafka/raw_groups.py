"""One-line group requests over the raw client."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from headwater.errors import ErrorCode
from headwater.ids import NO_TOPIC_ID, TopicName
from headwater.protocol.consumer_protocol import Subscription, write_subscription
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headwater.protocol.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from headwater.protocol.messages.groups.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.kafka.raw_client import RawClient

SETTINGS: Mapping[str, str] = {
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}

SESSION_TIMEOUT_MS = 30_000
# Long enough for a loaded machine; a test that waits this long has failed.
LOAD_DEADLINE_S = 60
COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)


class Place(NamedTuple):
    """The identity with which a member sends its requests."""

    member_id: str = ""
    # The generation of a classic member, or the epoch of a consumer protocol member.
    generation: int = -1
    instance_id: str | None = None


def find(client: RawClient, *groups: str, version: int = 6) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key=groups[0], coordinator_keys=list(groups))
    return client.ask(request, FindCoordinatorResponse, version)


# -- the classic protocol


def join_request(
    group: str,
    place: Place = Place(),  # noqa: B008 (it cannot change)
    *,
    protocols: Mapping[str, bytes] | None = None,
    topics: Sequence[str] = (),
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    protocol_type: str = "consumer",
) -> JoinGroupRequest:
    if protocols is None:
        protocols = {"range": write_subscription(Subscription([TopicName(topic) for topic in topics]))}
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=place.member_id,
        group_instance_id=place.instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        reason="to test",
    )


def join(
    client: RawClient,
    group: str,
    place: Place = Place(),  # noqa: B008 (it cannot change)
    *,
    version: int = 9,
    **options: Any,
) -> JoinGroupResponse:
    """Joins; repeats the request with the member id if the coordinator answers MEMBER_ID_REQUIRED."""
    joined = client.ask(join_request(group, place, **options), JoinGroupResponse, version)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        named = place._replace(member_id=joined.member_id)
        joined = client.ask(join_request(group, named, **options), JoinGroupResponse, version)
    return joined


def sync(
    client: RawClient, group: str, place: Place, assignments: Mapping[str, bytes] | None = None, version: int = 5
) -> SyncGroupResponse:
    return client.ask(sync_request(group, place, assignments), SyncGroupResponse, version)


def sync_request(group: str, place: Place, assignments: Mapping[str, bytes] | None = None) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=place.instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=data)
            for member, data in (assignments or {}).items()
        ],
    )


def only_member(client: RawClient, group: str, instance_id: str | None = None, topics: Sequence[str] = ()) -> Place:
    """Joins as the only member, or as the replacement of a static one, and brings the group to Stable."""
    find(client, group)
    joined = join(client, group, Place(instance_id=instance_id), topics=topics)
    assert joined.error_code == 0
    place = Place(joined.member_id, joined.generation_id, instance_id)
    assert sync(client, group, place, {place.member_id: b"all"}).error_code == 0
    return place


def heartbeat(client: RawClient, group: str, place: Place, version: int = 4) -> int:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=place.instance_id,
    )
    return client.ask(request, HeartbeatResponse, version).error_code


def leave(client: RawClient, group: str, *places: Place, version: int = 5) -> LeaveGroupResponse:
    request = LeaveGroupRequest(
        group_id=group,
        member_id=places[0].member_id,
        members=[
            MemberIdentity(member_id=place.member_id, group_instance_id=place.instance_id, reason="done")
            for place in places
        ],
    )
    return client.ask(request, LeaveGroupResponse, version)


# -- the next-generation protocol


def member_heartbeat(
    client: RawClient,
    group: str,
    place: Place,
    *,
    topics: Sequence[str] | None = None,
    owned: Mapping[UUID, Sequence[int]] | None = None,
    version: int = 1,
    **options: Any,
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=place.member_id,
        member_epoch=place.generation,
        instance_id=place.instance_id,
        rebalance_timeout_ms=-1 if topics is None else SESSION_TIMEOUT_MS,
        subscribed_topic_names=None if topics is None else list(topics),
        topic_partitions=None
        if owned is None
        else [TopicPartitions(topic_id=topic, partitions=list(indexes)) for topic, indexes in owned.items()],
        **options,
    )
    return client.ask(request, ConsumerGroupHeartbeatResponse, version)


def consumer_member(client: RawClient, group: str, topic: str, instance_id: str | None = None) -> Place:
    """Joins as a member of the consumer protocol, and returns its identity with the new epoch."""
    find(client, group)
    place = Place(str(uuid4()), 0, instance_id)
    told = member_heartbeat(client, group, place, topics=[topic], owned={})
    assert told.error_code == 0, told.error_message
    return place._replace(generation=told.member_epoch)


# -- offsets


def commit(
    client: RawClient,
    group: str,
    place: Place,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    topic_id: UUID = NO_TOPIC_ID,
    metadata: str | None = "",
    version: int = 9,
) -> int:
    """Commits one offset and returns the error code."""
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=place.generation,
        member_id=place.member_id,
        group_instance_id=place.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )
    (told,) = client.ask(request, OffsetCommitResponse, version).topics
    assert (told.name, told.topic_id) == ((topic, NO_TOPIC_ID) if version < 10 else ("", topic_id))
    assert told.partitions[0].partition_index == partition
    return told.partitions[0].error_code


def committed(
    client: RawClient,
    group: str,
    topic: str,
    *,
    partition: int = 0,
    version: int = 9,
    topic_id: UUID = NO_TOPIC_ID,
    require_stable: bool = False,
) -> OffsetFetchResponsePartition | OffsetFetchResponsePartitions:
    if version < 8:
        asked = OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
        request = OffsetFetchRequest(group_id=group, topics=[asked], require_stable=require_stable)
        response = client.ask(request, OffsetFetchResponse, version)
        assert response.error_code == 0
        return response.topics[0].partitions[0]
    many = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[many])], require_stable=require_stable
    )
    deadline = time.monotonic() + LOAD_DEADLINE_S
    while True:
        (told,) = client.ask(request, OffsetFetchResponse, version).groups
        # A restarted broker is ready before it has loaded its groups; real clients retry as well.
        if told.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        assert time.monotonic() < deadline, f"{group} is not loaded"
    assert (told.group_id, told.error_code) == (group, 0)
    return told.topics[0].partitions[0]
