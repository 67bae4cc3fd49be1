"""The events of a classic group.

Durable ones are records of `__consumer_offsets`, each with the whole state of its key. Volatile ones are what the group
remembers only until the next restart: which members join or wait, and until when. Their times are monotonic. An event
says what happened; `ClassicRoster.apply` knows what follows from it.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import Ticket, volatile
from headwater.ids import GroupId, MemberId

# Kinds of deadlines. SESSION is that of a member, or of a client that was given a member id and is expected to join.
SESSION = "classic-session"
# The phase in which members join, and the phase in which they fetch their assignments.
JOIN_PHASE = "classic-join"
SYNC_PHASE = "classic-sync"

# What a member weighs besides what it brings, and what an id that was given out weighs: names, a deadline, entries in
# tables.
MEMBER_BYTES = 1000
AWAITED_BYTES = 600


# -- durable events


class SupportedProtocol(NamedTuple):
    """A protocol (for consumers: an assignor) that a member supports, and its metadata for it."""

    name: str
    metadata: bytes


class StoredMember(NamedTuple):
    """A member of a classic group, as stored with its generation."""

    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GenerationStored(NamedTuple):
    """A generation whose members have their assignments, or an empty group."""

    group_id: GroupId
    protocol_type: str
    generation: int
    protocol: str | None
    leader: MemberId | None
    state_timestamp_ms: int
    members: Sequence[StoredMember]


class ClassicGroupForgotten(NamedTuple):
    group_id: GroupId


ClassicEvent: TypeAlias = GenerationStored | ClassicGroupForgotten


# -- members, as the group knows them between two restarts


class ClassicMember(NamedTuple):
    id: MemberId
    # For static members: a member that comes back with another id keeps its place by its instance id.
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    # In order of preference, each name once.
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""

    @property
    def weight(self) -> int:
        """About how many bytes of memory the member takes."""
        return MEMBER_BYTES + len(self.assignment) + sum(len(name) + len(data) for name, data in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def stored(self, protocol: str | None) -> StoredMember:
        return StoredMember(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            self.assignment,
        )


# -- volatile events


@volatile
class MemberAwaited(NamedTuple):
    """A client was given a member id, and is expected to join with it."""

    group_id: GroupId
    member_id: MemberId
    until_ms: int


@volatile
class MemberJoining(NamedTuple):
    """A new or known member joins the next generation and waits for it."""

    group_id: GroupId
    member: ClassicMember
    protocol_type: str
    ticket: Ticket
    # For new members only: known members have no deadline while they wait.
    until_ms: int | None


@volatile
class MemberReplaced(NamedTuple):
    """A static member has come back under another id and keeps its assignment."""

    group_id: GroupId
    old_id: MemberId
    member: ClassicMember
    until_ms: int


@volatile
class MemberRemoved(NamedTuple):
    """A member is gone, or a client that was expected to join. The requests that it waited with have been answered."""

    group_id: GroupId
    member_id: MemberId


@volatile
class SessionExtended(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    until_ms: int


@volatile
class RebalanceBegan(NamedTuple):
    """Every member has to join again."""

    group_id: GroupId
    until_ms: int
    # If the group was empty: the phase is extended while new members come, but not beyond this time.
    initial_until_ms: int | None


@volatile
class JoinPhaseExtended(NamedTuple):
    group_id: GroupId
    until_ms: int


@volatile
class GenerationBegan(NamedTuple):
    """All joins have been answered. The leader is expected to bring the assignments."""

    group_id: GroupId
    generation: int
    protocol: str
    leader: MemberId
    at_ms: int
    sync_until_ms: int


@volatile
class MemberSynced(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    # None if the member did not have to wait.
    ticket: Ticket | None


@volatile
class SyncsAnswered(NamedTuple):
    """No member waits for an assignment any more; the sessions of those that did run again."""

    group_id: GroupId
    at_ms: int


ClassicRosterEvent: TypeAlias = (
    ClassicEvent
    | MemberAwaited
    | MemberJoining
    | MemberReplaced
    | MemberRemoved
    | SessionExtended
    | RebalanceBegan
    | JoinPhaseExtended
    | GenerationBegan
    | MemberSynced
    | SyncsAnswered
)
