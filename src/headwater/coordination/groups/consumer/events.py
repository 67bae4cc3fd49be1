"""The events of a consumer group.

Durable ones are records of `__consumer_offsets`, each with the whole state of its key. Volatile ones are what the group
remembers only until the next restart: the deadlines of members, and which topics it has looked at.
"""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import volatile
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.ids import GroupId, MemberId, TopicName

# Kinds of deadlines. A member that misses one is removed from the group.
SESSION = "consumer-session"
# For a member to give up partitions that others wait for.
REBALANCE = "consumer-rebalance"
# For a member that speaks the classic protocol to join again, and to fetch its assignment.
CLASSIC_JOIN = "consumer-classic-join"
CLASSIC_SYNC = "consumer-classic-sync"

DEADLINE_KINDS = (SESSION, REBALANCE, CLASSIC_JOIN, CLASSIC_SYNC)


# -- durable events


class MemberState(IntEnum):
    """How far a member is on its way to its target. The numbers are Kafka's."""

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    UNRELEASED_PARTITIONS = 3
    UNKNOWN = 127


class ClassicDetails(NamedTuple):
    """What only a member that speaks the classic protocol has in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]


class ConsumerGroupStored(NamedTuple):
    group_id: GroupId
    epoch: int
    # Of the subscribed topics, so that their changes are noticed.
    metadata_hash: int


class ConsumerGroupForgotten(NamedTuple):
    group_id: GroupId


class MemberStored(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: frozenset[TopicName]
    topic_regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicDetails | None = None


class MemberForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class TargetEpochStored(NamedTuple):
    group_id: GroupId
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


class TargetEpochForgotten(NamedTuple):
    group_id: GroupId


class TargetStored(NamedTuple):
    """The target assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    partitions: Assignment


class TargetForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class CurrentStored(NamedTuple):
    """The current assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment = NOTHING
    pending_revocation: Assignment = NOTHING


class CurrentForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class RegexResolved(NamedTuple):
    """The topics that a regular expression matched when it was last resolved."""

    group_id: GroupId
    regex: str
    topics: frozenset[TopicName]
    version: int
    timestamp_ms: int


class RegexForgotten(NamedTuple):
    group_id: GroupId
    regex: str


ConsumerEvent: TypeAlias = (
    ConsumerGroupStored
    | ConsumerGroupForgotten
    | MemberStored
    | MemberForgotten
    | TargetEpochStored
    | TargetEpochForgotten
    | TargetStored
    | TargetForgotten
    | CurrentStored
    | CurrentForgotten
    | RegexResolved
    | RegexForgotten
)


# -- volatile events


@volatile
class MemberDeadlineSet(NamedTuple):
    group_id: GroupId
    kind: str
    member_id: MemberId
    due_ms: int


@volatile
class MemberDeadlineCancelled(NamedTuple):
    group_id: GroupId
    kind: str
    member_id: MemberId


@volatile
class TopicsSeen(NamedTuple):
    """The group has taken the topics into account as of this version."""

    group_id: GroupId
    version: int


ConsumerRosterEvent: TypeAlias = ConsumerEvent | MemberDeadlineSet | MemberDeadlineCancelled | TopicsSeen
