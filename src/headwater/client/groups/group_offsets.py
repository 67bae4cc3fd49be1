"""The committed offsets of a group: fetched from its coordinator, committed and deleted there."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ClientError, UnknownTopic, check, only
from headwater.errors import ErrorCode
from headwater.ids import MemberId, TopicName, TopicPartition
from headwater.protocol.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

# A commit without a member, as an administrator makes it. The group must then have no members.
NO_MEMBER = MemberId("")
NO_EPOCH = -1

# From version 10 on, requests name topics by id. The id of a deleted topic, for which offsets may exist, is not known.
_COMMIT_VERSION_MAX = 9
_FETCH_VERSION_MAX = 9


class CommittedOffset(NamedTuple):
    """`leader_epoch` is -1 if the committing client did not know it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def fetch_offsets(
    coordinator: GroupCoordinator, partitions: Collection[TopicPartition] | None = None, *, stable_only: bool = False
) -> dict[TopicPartition, CommittedOffset]:
    """Return the group's committed offsets of these partitions (None: all). Partitions without one are left out.

    With `stable_only`, wait while an open transaction may still change an offset.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=coordinator.group_id, topics=topics)], require_stable=stable_only
    )

    def read(response: OffsetFetchResponse) -> dict[TopicPartition, CommittedOffset]:
        group = only(response.groups)
        coordinator.check(group.error_code)
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in group.topics:
            for answer in topic.partitions:
                partition = TopicPartition(TopicName(topic.name), answer.partition_index)
                check(answer.error_code, f"group {coordinator.group_id!r}, partition {partition}")
                if answer.committed_offset >= 0:
                    found[partition] = CommittedOffset(
                        answer.committed_offset, answer.committed_leader_epoch, answer.metadata or ""
                    )
        return found

    return coordinator.ask(request, OffsetFetchResponse, read, version_max=_FETCH_VERSION_MAX)


def commit_offsets(
    coordinator: GroupCoordinator,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    member_id: MemberId = NO_MEMBER,
    epoch: int = NO_EPOCH,
) -> None:
    """Commit as a member of the group, or without a member for a group that has none."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), committed in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=coordinator.group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    def read(response: OffsetCommitResponse) -> None:
        missing = set(offsets)
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(TopicName(topic.name), answer.partition_index)
                missing.discard(partition)
                _check(answer.error_code, coordinator, partition)
        if missing:
            raise ClientError(f"the broker's answer leaves out {min(missing)}")

    coordinator.ask(request, OffsetCommitResponse, read, version_max=_COMMIT_VERSION_MAX)


def delete_offsets(coordinator: GroupCoordinator, partitions: Collection[TopicPartition]) -> None:
    """Delete the group's offsets of these partitions. No member may be subscribed to their topics."""
    request = OffsetDeleteRequest(
        group_id=coordinator.group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in _by_topic(partitions).items()
        ],
    )

    def read(response: OffsetDeleteResponse) -> None:
        coordinator.check(response.error_code)
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(TopicName(topic.name), answer.partition_index)
                _check(answer.error_code, coordinator, partition)

    coordinator.ask(request, OffsetDeleteResponse, read)


def _check(code: int, coordinator: GroupCoordinator, partition: TopicPartition) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # UnknownTopic is not retriable: a retry would not bring the partition back.
        raise UnknownTopic(f"partition {partition} does not exist")
    check(code, f"group {coordinator.group_id!r}, partition {partition}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes
