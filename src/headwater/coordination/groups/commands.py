"""What clients ask of a group and what they are told, free of any wire format."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from headwater.coordination.catalog.events import Topic
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.events import ClassicProtocol, CommittedOffset
from headwater.errors import ErrorCode
from headwater.ids import GroupId, MemberId, TopicId, TopicName, TopicPartition

# Group, kind of deadline, member; no member where the whole group is meant.
DeadlineKey: TypeAlias = tuple[GroupId, str, str]

NO_MEMBER = MemberId("")
NO_GENERATION = -1
CONSUMER_PROTOCOL_TYPE = "consumer"


class TopicImage(Protocol):
    """The topics as groups see them."""

    @property
    def version(self) -> int:
        """Rises whenever a topic is created, deleted or grows."""
        ...

    @property
    def by_name(self) -> Mapping[TopicName, Topic]: ...

    @property
    def by_id(self) -> Mapping[TopicId, Topic]: ...

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        """Where the partition's replicas are; nothing where that is not known."""
        ...


class GroupState(Enum):
    """The states of both protocols, by the names that clients and tools are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


# -- classic protocol


class Join(NamedTuple):
    member_id: MemberId
    # The id that a member gets if it has none yet.
    new_member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[ClassicProtocol]
    # From version 4 on a member first learns its id and joins with it: one that gave up waiting leaves no ghost behind.
    is_member_id_required: bool
    # From version 9 on a leader may be told that the assignment it would compute is not needed.
    may_skip_assignment: bool
    reason: str = ""


class JoinedMember(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    member_id: MemberId
    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: MemberId = NO_MEMBER
    skip_assignment: bool = False
    # For the leader alone.
    members: Sequence[JoinedMember] = ()


class Sync(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    generation: int
    # None where the version of the request does not tell.
    protocol_type: str | None
    protocol: str | None
    # From the leader: what each member shall have.
    assignments: Mapping[MemberId, bytes]


class SyncResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Leaving(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    reason: str = ""


class Left(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    error: ErrorCode


class ClassicMemberDescription(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    # Both empty unless the group is stable.
    metadata: bytes
    assignment: bytes


class ClassicDescription(NamedTuple):
    group_id: GroupId
    state: GroupState
    protocol_type: str
    protocol: str
    members: Sequence[ClassicMemberDescription]


# -- next-generation protocol (KIP-848)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
# A static member leaves for a while, and its partitions wait for it.
LEAVE_STATIC_EPOCH = -2


class MemberHeartbeat(NamedTuple):
    """None where nothing has changed since the heartbeat before."""

    member_id: MemberId
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: Sequence[TopicName] | None
    topic_regex: str | None
    assignor: str | None
    # What the member says that it owns.
    owned: Assignment | None
    client_id: str
    client_host: str
    # From version 1 on the member makes its own id; before that the coordinator gives it this one.
    new_member_id: MemberId


class MemberAnswer(NamedTuple):
    member_id: MemberId
    epoch: int
    heartbeat_interval_ms: int
    # None: what the member has been told before still stands.
    assignment: Assignment | None = None


class ConsumerMemberDescription(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: Sequence[TopicName]
    topic_regex: str | None
    assigned: Assignment
    target: Assignment
    # Speaks the classic protocol.
    is_classic: bool


class ConsumerDescription(NamedTuple):
    group_id: GroupId
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[ConsumerMemberDescription]


# -- offsets


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
    # The epoch of a member of the next-generation protocol; negative for whoever is no member.
    generation: int
    offsets: Sequence[OffsetToCommit]
    # What very old clients ask for.
    retention_ms: int | None = None
    # Whether the client means an epoch where it is a member of the next-generation protocol.
    knows_epochs: bool = True


class OffsetsAsked(NamedTuple):
    # None for all that the group has.
    partitions: Sequence[TopicPartition] | None
    # A member may say who it is, to learn that it is not one any more.
    member_id: MemberId | None = None
    epoch: int = -1
    # Whether to be refused where a transaction is about to change the answer.
    require_stable: bool = False


class FoundOffset(NamedTuple):
    partition: TopicPartition
    # None where nothing is committed, or it is refused.
    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


# -- groups as wholes


class GroupType(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupListing(NamedTuple):
    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
