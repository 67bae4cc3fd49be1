"""What a classic group remembers only until the next restart: who joins, who waits, and until when.

Times are monotonic. Each event says what happened; what follows from it for the group is told by `Roster.apply`.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import Ticket, Volatile
from headwater.coordination.groups.events import ClassicEvent, ClassicProtocol, StoredMember
from headwater.ids import GroupId, MemberId

# The kinds of deadlines: of one member, or of one that has been given an id and is expected to join with it;
SESSION = "classic-session"
# of the phase in which members join, and of the one in which they fetch their assignments.
JOIN_PHASE = "classic-join"
SYNC_PHASE = "classic-sync"


# What a member takes beside what it brings, and an id that was given out: names, a deadline, places in tables.
MEMBER_BYTES = 1000
AWAITED_BYTES = 600


class Member(NamedTuple):
    id: MemberId
    # A static member has one, and keeps its place under it when it comes back with another id.
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    # Best liked first, each name once.
    protocols: tuple[ClassicProtocol, ...]
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
    member: Member
    protocol_type: str
    ticket: Ticket
    # For a newcomer alone: others cannot be lost while they wait.
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class MemberReplaced(Volatile):
    """A static member has come back under another id, and holds what it held before."""

    group_id: GroupId
    old_id: MemberId
    member: Member
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


RosterEvent: TypeAlias = (
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
