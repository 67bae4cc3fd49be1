"""What clients ask about committed offsets and what they are told, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.groups.offsets.events import CommittedOffset
from headwater.errors import ErrorCode
from headwater.ids import MemberId, TopicId, TopicName, TopicPartition


class OffsetToCommit(NamedTuple):
    topic: TopicName
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: TopicId


class Commit(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    # Of a member of a consumer group, its epoch. Negative for clients that are no members.
    generation: int
    offsets: Sequence[OffsetToCommit]
    # Only very old clients ask for a retention of their own.
    retention_ms: int | None = None
    # Whether the version of the request has room for the errors that a member of a consumer group needs (OffsetCommit
    # from version 9 on).
    knows_epochs: bool = True


class OffsetQuery(NamedTuple):
    # None for all offsets of the group.
    partitions: Sequence[TopicPartition] | None
    # Given by a member that wants to be told if it is not a member any more.
    member_id: MemberId | None = None
    epoch: int = -1
    # Refuse offsets that an open transaction may yet change.
    require_stable: bool = False


class FoundOffset(NamedTuple):
    partition: TopicPartition
    # None where nothing is committed, or where the offset is refused.
    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE
