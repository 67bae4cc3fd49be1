"""The events of a classic group.

Durable ones are records of `__consumer_offsets`, each with the whole state of its key. Volatile ones are what the group
remembers only until the next restart: which members join or wait, and until when. Their times are monotonic. An event
says what happened; `ClassicRoster.apply` knows what follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import Ticket, Volatile
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


ClassicEvent: TypeAlias = GenerationStored | ClassicGroupForgotten


# -- members, as the group knows them between two restarts


class ClassicMember(NamedTuple):
    id: MemberId
    # A static member has one, and keeps its place under it when it comes back with another id.
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    # Best liked first, each name once.
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""

    @property
    def weight(self) -> int:
        """About how much memory it takes."""
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


@dataclass(frozen=True, slots=True)
class MemberAwaited(Volatile):
    """A client has been given an id, and is to join with it."""

    group_id: GroupId
    member_id: MemberId
    until_ms: int


@dataclass(frozen=True, slots=True)
class MemberJoining(Volatile):
    """A member, new or known, asks to be part of the next generation and waits for it."""

    group_id: GroupId
    member: ClassicMember
    protocol_type: str
    ticket: Ticket
    # For a newcomer alone: others cannot be lost while they wait.
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class MemberReplaced(Volatile):
    """A static member has come back under another id, and holds what it held before."""

    group_id: GroupId
    old_id: MemberId
    member: ClassicMember
    until_ms: int


@dataclass(frozen=True, slots=True)
class MemberRemoved(Volatile):
    """A member, or one that was expected to become one, is gone; whatever it waited for has been answered."""

    group_id: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class SessionExtended(Volatile):
    group_id: GroupId
    member_id: MemberId
    until_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceBegan(Volatile):
    """Every member has to join again."""

    group_id: GroupId
    until_ms: int
    # Where the group was empty: its first wait for members is prolonged while they come, but not beyond this.
    initial_until_ms: int | None


@dataclass(frozen=True, slots=True)
class JoinPhaseExtended(Volatile):
    group_id: GroupId
    until_ms: int


@dataclass(frozen=True, slots=True)
class GenerationBegan(Volatile):
    """All joins have been answered; the leader is to bring the assignments."""

    group_id: GroupId
    generation: int
    protocol: str
    leader: MemberId
    at_ms: int
    sync_until_ms: int


@dataclass(frozen=True, slots=True)
class MemberSynced(Volatile):
    group_id: GroupId
    member_id: MemberId
    # None where the answer was there.
    ticket: Ticket | None


@dataclass(frozen=True, slots=True)
class SyncsAnswered(Volatile):
    """Nobody waits for an assignment any more; who did has a session again."""

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
