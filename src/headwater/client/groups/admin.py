"""Administration of groups. Groups of all kinds have the same description, although different APIs tell it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.coordinator import CoordinatorNode, GroupCoordinator
from headwater.client.errors import UnknownGroup, UnsupportedApi, check, only
from headwater.client.groups.group_offsets import CommittedOffset, commit_offsets, delete_offsets, fetch_offsets
from headwater.client.groups.share_groups import SHARE, ShareOffset, describe_share_group, share_offsets
from headwater.endpoint import Endpoint
from headwater.errors import ProtocolError
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition
from headwater.protocol import consumer_protocol
from headwater.protocol.messages.groups import consumer_group_describe, describe_groups
from headwater.protocol.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.protocol.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.protocol.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.shares import share_group_describe

CLASSIC = "classic"
CONSUMER = "consumer"

_DEAD = "Dead"
_CLASSIC_MEMBER = 0


class GroupListing(NamedTuple):
    """`state` and `type` are empty if the broker is too old to tell them."""

    group_id: GroupId
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """`protocol` is classic, consumer or share; a consumer group may have members of the first two. In the classic
    protocol a member has no epoch. Its target assignment is its assignment, as in a share group."""

    member_id: MemberId
    instance_id: str | None
    client_id: str
    host: str
    protocol: str
    epoch: int | None
    topics: tuple[str, ...]
    topic_regex: str | None
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """`epoch` and `assignment_epoch` are None for a classic group: no API tells its generation."""

    group_id: GroupId
    type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    coordinator: CoordinatorNode
    members: tuple[MemberDescription, ...]


class GroupAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by name. `states` and `types` keep only groups that match one."""
        request = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))

        def ask() -> dict[str, GroupListing]:
            found: dict[str, GroupListing] = {}
            for broker in self._cluster.metadata().brokers:
                connection = self._cluster.connection(Endpoint(broker.host, broker.port))
                response = connection.call(request, ListGroupsResponse)
                check(response.error_code, f"the groups of the broker at {connection.endpoint}")
                for group in response.groups:
                    found[group.group_id] = GroupListing(
                        GroupId(group.group_id), group.group_type.lower(), group.protocol_type, group.group_state
                    )
            return found

        return sorted(self._cluster.retrying(ask).values())

    def describe_group(self, group_id: str) -> GroupDescription:
        coordinator = GroupCoordinator(self._cluster, group_id)
        try:
            return _describe_consumer(coordinator)
        except (UnknownGroup, UnsupportedApi):
            pass
        try:
            return _describe_classic(coordinator)
        except UnknownGroup as unknown:
            # A share group, or none at all.
            try:
                return _describe_share(coordinator)
            except (UnknownGroup, UnsupportedApi):
                raise unknown from None

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, together with its committed offsets."""
        coordinator = GroupCoordinator(self._cluster, group_id)

        def read(response: DeleteGroupsResponse) -> None:
            coordinator.check(only(response.results).error_code)

        coordinator.ask(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse, read)

    # -- offsets

    def share_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return how far a share group is in the partitions that it has begun with."""
        return share_offsets(GroupCoordinator(self._cluster, group_id))

    def committed(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's committed offsets of these partitions (None: all). Partitions without one are left out."""
        return fetch_offsets(GroupCoordinator(self._cluster, group_id), partitions)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without members. A group that does not exist is created."""
        commit_offsets(GroupCoordinator(self._cluster, group_id), offsets)

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Delete the group's offsets of these partitions. No member may be subscribed to their topics."""
        delete_offsets(GroupCoordinator(self._cluster, group_id), partitions)


# -- the next-generation protocol


def _describe_consumer(coordinator: GroupCoordinator) -> GroupDescription:
    request = ConsumerGroupDescribeRequest(group_ids=[coordinator.group_id], include_authorized_operations=False)

    def read(response: ConsumerGroupDescribeResponse) -> GroupDescription:
        group = only(response.groups)
        coordinator.check(group.error_code, group.error_message)
        return GroupDescription(
            coordinator.group_id,
            CONSUMER,
            group.group_state,
            CONSUMER,
            group.assignor_name,
            group.group_epoch,
            group.assignment_epoch,
            coordinator.node,
            tuple(_consumer_member(member) for member in group.members),
        )

    return coordinator.ask(request, ConsumerGroupDescribeResponse, read)


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    def partitions(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
        return _partitions((topic.topic_name, topic.partitions) for topic in assignment.topic_partitions)

    return MemberDescription(
        MemberId(member.member_id),
        member.instance_id,
        member.client_id,
        member.client_host,
        CLASSIC if member.member_type == _CLASSIC_MEMBER else CONSUMER,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or None,
        partitions(member.assignment),
        partitions(member.target_assignment),
    )


# -- the classic protocol


def _describe_classic(coordinator: GroupCoordinator) -> GroupDescription:
    request = DescribeGroupsRequest(groups=[coordinator.group_id])

    def read(response: DescribeGroupsResponse) -> GroupDescription:
        group = only(response.groups)
        coordinator.check(group.error_code, group.error_message)
        if group.group_state == _DEAD:
            # DescribeGroups before version 6 reports a missing group as Dead.
            raise UnknownGroup(f"group {coordinator.group_id!r} does not exist")
        return GroupDescription(
            coordinator.group_id,
            CLASSIC,
            group.group_state,
            group.protocol_type,
            group.protocol_data,
            None,
            None,
            coordinator.node,
            tuple(_classic_member(member, group.protocol_type) for member in group.members),
        )

    return coordinator.ask(request, DescribeGroupsResponse, read)


def _classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    topics: Sequence[str] = ()
    assigned: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER:
        # Both are empty until the group is stable. Members choose these bytes, so malformed ones are ignored.
        with suppress(ProtocolError):
            topics = consumer_protocol.read_subscription(member.member_metadata).topics
        with suppress(ProtocolError):
            assigned = _partitions(consumer_protocol.read_assignment(member.member_assignment).partitions.items())
    return MemberDescription(
        MemberId(member.member_id),
        member.group_instance_id,
        member.client_id,
        member.client_host,
        CLASSIC,
        None,
        tuple(sorted(topics)),
        None,
        assigned,
        assigned,
    )


# -- share groups


def _describe_share(coordinator: GroupCoordinator) -> GroupDescription:
    group = describe_share_group(coordinator)
    return GroupDescription(
        coordinator.group_id,
        SHARE,
        group.group_state,
        SHARE,
        group.assignor_name,
        group.group_epoch,
        group.assignment_epoch,
        coordinator.node,
        tuple(_share_member(member) for member in group.members),
    )


def _share_member(member: share_group_describe.Member) -> MemberDescription:
    assigned = _partitions((topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions)
    return MemberDescription(
        MemberId(member.member_id),
        None,
        member.client_id,
        member.client_host,
        SHARE,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        None,
        assigned,
        assigned,
    )


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(TopicName(topic), index) for topic, indexes in topics for index in indexes))
