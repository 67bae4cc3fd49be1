"""The events of a share group.

Durable ones are records of `__consumer_offsets`, each with the whole state of its key. Volatile ones are what the group
remembers only until the next restart: when sessions end, and which topics it has looked at.
"""

from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import volatile
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.ids import GroupId, MemberId, TopicName

# A kind of deadline: a member that misses it is removed from the group.
SESSION = "share-session"


# -- durable events


class ShareGroupStored(NamedTuple):
    group_id: GroupId
    epoch: int
    # Of the subscribed topics, so that their changes are noticed.
    metadata_hash: int


class ShareGroupForgotten(NamedTuple):
    group_id: GroupId


class ShareMemberStored(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: frozenset[TopicName]


class ShareMemberForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class ShareTargetEpochStored(NamedTuple):
    group_id: GroupId
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


class ShareTargetEpochForgotten(NamedTuple):
    group_id: GroupId


class ShareTargetStored(NamedTuple):
    """The target assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    partitions: Assignment


class ShareTargetForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class ShareCurrentStored(NamedTuple):
    """The assignment that a member was told."""

    group_id: GroupId
    member_id: MemberId
    epoch: int
    previous_epoch: int
    assigned: Assignment = NOTHING


class ShareCurrentForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


ShareGroupEvent: TypeAlias = (
    ShareGroupStored
    | ShareGroupForgotten
    | ShareMemberStored
    | ShareMemberForgotten
    | ShareTargetEpochStored
    | ShareTargetEpochForgotten
    | ShareTargetStored
    | ShareTargetForgotten
    | ShareCurrentStored
    | ShareCurrentForgotten
)


# -- volatile events


@volatile
class ShareSessionSet(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    due_ms: int


@volatile
class ShareSessionCancelled(NamedTuple):
    group_id: GroupId
    member_id: MemberId


@volatile
class ShareTopicsSeen(NamedTuple):
    """The group has taken the topics into account as of this version."""

    group_id: GroupId
    version: int


ShareRosterEvent: TypeAlias = ShareGroupEvent | ShareSessionSet | ShareSessionCancelled | ShareTopicsSeen
