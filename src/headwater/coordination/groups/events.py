"""The durable events of groups: each is one record of `__consumer_offsets`, and holds all there is to know of its key.

The end of a transaction is a control record and has no key: it decides about what its producer has committed before.
What a restart may forget (who is waiting, when a session ends) travels in events of `decisions.Volatile`, beside the
group that they belong to.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicId, TopicName

# -- offsets


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # Only very old clients ask for a time of their own.
    expire_timestamp_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID


class OffsetCommitted(NamedTuple):
    group_id: GroupId
    topic: TopicName
    partition: int
    committed: CommittedOffset


class OffsetForgotten(NamedTuple):
    group_id: GroupId
    topic: TopicName
    partition: int


class OffsetPended(NamedTuple):
    """Committed inside a transaction: it counts once that is committed."""

    producer_id: ProducerId
    producer_epoch: int
    group_id: GroupId
    topic: TopicName
    partition: int
    committed: CommittedOffset


class TransactionEnded(NamedTuple):
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    # Of the protocol: in the second, no end has the epoch of what it ends. It says whether this one may still be taken,
    # so the log, which holds those that were, does not keep it.
    transaction_version: int = 1


# -- classic groups


class StoredMember(NamedTuple):
    """A member of a classic group as its generation knows it."""

    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GenerationStored(NamedTuple):
    """A classic group whose members have their assignments, or one that has become empty."""

    group_id: GroupId
    protocol_type: str
    generation: int
    protocol: str | None
    leader: MemberId | None
    state_timestamp_ms: int
    members: Sequence[StoredMember]


class ClassicGroupForgotten(NamedTuple):
    group_id: GroupId


# -- consumer groups (KIP-848)


class MemberState(IntEnum):
    """How far a member has come on its way to its target; the numbers are Kafka's."""

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    UNRELEASED_PARTITIONS = 3
    UNKNOWN = 127


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


class ClassicMembership(NamedTuple):
    """What a member that speaks the classic protocol brings into a consumer group."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupStored(NamedTuple):
    group_id: GroupId
    epoch: int
    # Of the topics subscribed to, so that a change of theirs is noticed.
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
    classic: ClassicMembership | None = None


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
    """What a member shall have in the end."""

    group_id: GroupId
    member_id: MemberId
    partitions: Assignment


class TargetForgotten(NamedTuple):
    group_id: GroupId
    member_id: MemberId


class CurrentStored(NamedTuple):
    """What a member has now."""

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
    """The topics that a regular expression stood for when it was last looked at."""

    group_id: GroupId
    regex: str
    topics: frozenset[TopicName]
    version: int
    timestamp_ms: int


class RegexForgotten(NamedTuple):
    group_id: GroupId
    regex: str


OffsetEvent: TypeAlias = OffsetCommitted | OffsetForgotten | OffsetPended | TransactionEnded
ClassicEvent: TypeAlias = GenerationStored | ClassicGroupForgotten
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
Event: TypeAlias = OffsetEvent | ClassicEvent | ConsumerEvent
