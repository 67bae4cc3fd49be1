"""The state of a classic group: its members, the requests that wait, and the generation.

`apply` alone changes it. A decision of several steps applies its events to a copy, which has no deadlines (`Draft`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, assert_never

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.classic.events import (
    AWAITED_BYTES,
    JOIN_PHASE,
    SESSION,
    SYNC_PHASE,
    ClassicGroupForgotten,
    ClassicMember,
    ClassicRosterEvent,
    GenerationBegan,
    GenerationStored,
    JoinPhaseExtended,
    MemberAwaited,
    MemberJoining,
    MemberRemoved,
    MemberReplaced,
    MemberSynced,
    RebalanceBegan,
    SessionExtended,
    StoredMember,
    SupportedProtocol,
    SyncsAnswered,
)
from headwater.coordination.groups.terms import NO_MEMBER, DeadlineKey, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId


class PendingJoin(NamedTuple):
    ticket: Ticket
    # For a new member: it is removed at this time, even though its join waits.
    until_ms: int | None


@dataclass(slots=True, eq=False)
class ClassicRoster:
    """The state of a classic group; `apply` alone changes it."""

    group_id: GroupId
    deadlines: Deadlines[DeadlineKey] | None
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: MemberId | None = None
    state_timestamp_ms: int | None = None
    # In the order in which they joined.
    members: dict[MemberId, ClassicMember] = field(default_factory=dict[MemberId, ClassicMember])
    id_of_instance: dict[str, MemberId] = field(default_factory=dict[str, MemberId])
    # By protocol, how many members support it.
    supporters: Counter[str] = field(default_factory=Counter[str])
    # Member ids that were given out, and with which no client has joined yet.
    awaited: set[MemberId] = field(default_factory=set[MemberId])
    joining: dict[MemberId, PendingJoin] = field(default_factory=dict[MemberId, PendingJoin])
    syncing: dict[MemberId, Ticket] = field(default_factory=dict[MemberId, Ticket])
    # Members of this generation that have not fetched their assignment yet.
    unsynced: set[MemberId] = field(default_factory=set[MemberId])
    # While an empty group fills up: the latest end of the join phase, and whether a new member joined since the phase
    # began or was extended.
    initial_until_ms: int | None = None
    has_newcomer: bool = False
    # The subscriptions of the last generation; None if they cannot be known.
    subscriptions: Sequence[bytes] | None = None
    members_weight: int = 0

    def copy(self) -> "ClassicRoster":
        return replace(
            self,
            deadlines=None,
            members=self.members.copy(),
            id_of_instance=self.id_of_instance.copy(),
            supporters=self.supporters.copy(),
            awaited=self.awaited.copy(),
            joining=self.joining.copy(),
            syncing=self.syncing.copy(),
            unsynced=self.unsynced.copy(),
        )

    # -- questions

    @property
    def weight(self) -> int:
        """About how many bytes of memory the group takes."""
        return self.members_weight + AWAITED_BYTES * len(self.awaited)

    @property
    def is_pristine(self) -> bool:
        return self.state is GroupState.EMPTY and not (self.generation or self.members or self.awaited)

    @property
    def has_everyone_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.awaited

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of all members."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    def is_waiting(self, member_id: MemberId) -> bool:
        """Whether a request of the member waits. Then the member cannot be expected to send heartbeats."""
        return member_id in self.joining or member_id in self.syncing

    def check_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group '{self.group_id}' is being removed: look for it again"
            )

    def member(self, member_id: MemberId, instance_id: str | None) -> ClassicMember:
        """The member that sent a request. Refuses unknown members and fenced static members."""
        if instance_id is not None:
            current_id = self.id_of_instance.get(instance_id)
            if current_id is None:
                raise self._unknown(f"static member '{instance_id}'")
            if current_id != member_id:
                raise Refusal(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"another client has joined group '{self.group_id}' as '{instance_id}': each needs its own "
                    "group.instance.id",
                )
        member = self.members.get(member_id)
        if member is None:
            raise self._unknown(f"member '{member_id}'")
        return member

    def _unknown(self, whom: str) -> Refusal:
        return Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"group '{self.group_id}' has no {whom}: join it again without a member id"
        )

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise Refusal(
                ErrorCode.ILLEGAL_GENERATION,
                f"group '{self.group_id}' is at generation {self.generation}, not {generation}: join it again",
            )

    def check_protocols(self, protocol_type: str, protocols: Sequence[SupportedProtocol]) -> None:
        """Refuses a member that supports no protocol which all members support."""
        if self.state is GroupState.EMPTY:
            is_consistent = bool(protocol_type and protocols)
        else:
            is_consistent = protocol_type == self.protocol_type and any(
                self.supporters[protocol.name] == len(self.members) for protocol in protocols
            )
        if not is_consistent:
            raise Refusal(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group '{self.group_id}' needs the protocol type '{self.protocol_type or 'consumer'}' and a protocol "
                "(assignor) that all of its members know",
            )

    def selected_protocol(self) -> str:
        """Of the protocols that all members support, the one that most of them prefer."""
        candidates = {name for name, count in self.supporters.items() if count == len(self.members)}
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    # -- changes

    def apply(self, event: ClassicRosterEvent) -> None:
        match event:
            # First, because every heartbeat brings one.
            case SessionExtended():
                self._set_deadline(SESSION, event.until_ms, event.member_id)
            case MemberAwaited():
                self.awaited.add(event.member_id)
                self._set_deadline(SESSION, event.until_ms, event.member_id)
            case MemberJoining():
                self._apply_joining(event)
            case MemberReplaced():
                self._apply_replaced(event)
            case MemberRemoved():
                self._apply_removed(event.member_id)
            case RebalanceBegan():
                self.state = GroupState.PREPARING_REBALANCE
                self.initial_until_ms = event.initial_until_ms
                self.has_newcomer = False
                self.unsynced.clear()
                self._cancel_deadline(SYNC_PHASE)
                self._set_deadline(JOIN_PHASE, event.until_ms)
            case JoinPhaseExtended():
                self.has_newcomer = False
                self._set_deadline(JOIN_PHASE, event.until_ms)
            case GenerationBegan():
                self._apply_began(event)
            case MemberSynced():
                if event.ticket is not None:
                    self.syncing[event.member_id] = event.ticket
                    self._cancel_deadline(SESSION, event.member_id)
                self._discard_unsynced(event.member_id)
            case SyncsAnswered():
                self._restart_sessions(self.syncing, event.at_ms)
                self.syncing.clear()
            case GenerationStored():
                self._apply_stored(event)
            case ClassicGroupForgotten():
                self._apply_forgotten()
            case _:
                assert_never(event)

    def _apply_joining(self, event: MemberJoining) -> None:
        member = event.member
        if not self.members:
            self.protocol_type = event.protocol_type
        if member.id not in self.members:
            self.has_newcomer = True
            self.awaited.discard(member.id)
        self._put(member)
        if self.leader is None:
            self.leader = member.id
        self.joining[member.id] = PendingJoin(event.ticket, event.until_ms)
        if event.until_ms is None:
            self._cancel_deadline(SESSION, member.id)
        else:
            self._set_deadline(SESSION, event.until_ms, member.id)

    def _apply_replaced(self, event: MemberReplaced) -> None:
        self._put(event.member)
        if self.leader == event.old_id:
            self.leader = event.member.id
        if event.old_id in self.unsynced:
            self.unsynced.add(event.member.id)
        self._apply_removed(event.old_id)
        self._set_deadline(SESSION, event.until_ms, event.member.id)

    def _apply_removed(self, member_id: MemberId) -> None:
        self.awaited.discard(member_id)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        self._cancel_deadline(SESSION, member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._support(member, -1)
            self.members_weight -= member.weight
            if member.instance_id is not None and self.id_of_instance[member.instance_id] == member_id:
                del self.id_of_instance[member.instance_id]
            if self.leader == member_id:
                self.leader = next(iter(self.members), None)
            self._discard_unsynced(member_id)

    def _apply_began(self, event: GenerationBegan) -> None:
        self.state = GroupState.COMPLETING_REBALANCE
        self.generation = event.generation
        self.protocol = event.protocol
        self.leader = event.leader
        self.joining.clear()
        self.unsynced = set(self.members)
        self._cancel_deadline(JOIN_PHASE)
        self._set_deadline(SYNC_PHASE, event.sync_until_ms)
        self._restart_sessions(self.members, event.at_ms)
        self._subscribe()

    def _apply_stored(self, event: GenerationStored) -> None:
        known = self.members
        self.members, self.id_of_instance, self.supporters, self.members_weight = {}, {}, Counter(), 0
        for stored in event.members:
            self._put(_member(stored, event.protocol, known.get(stored.member_id)))
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.generation = event.generation
        self.protocol_type = event.protocol_type or None
        self.protocol = event.protocol
        self.leader = event.leader if event.leader in self.members else None
        self.state_timestamp_ms = event.state_timestamp_ms if event.state_timestamp_ms >= 0 else None
        if not self.members:
            self._cancel_deadline(JOIN_PHASE)
        self._subscribe()

    def _apply_forgotten(self) -> None:
        for member_id in [*self.members, *self.awaited]:
            self._apply_removed(member_id)
        self._cancel_deadline(JOIN_PHASE)
        self._cancel_deadline(SYNC_PHASE)
        self.state = GroupState.DEAD

    def _put(self, member: ClassicMember) -> None:
        before = self.members.get(member.id)
        if before is not None:
            self._support(before, -1)
            self.members_weight -= before.weight
        self._support(member, 1)
        self.members_weight += member.weight
        self.members[member.id] = member
        if member.instance_id is not None:
            self.id_of_instance[member.instance_id] = member.id

    def _support(self, member: ClassicMember, change: int) -> None:
        supporters = self.supporters
        for protocol in member.protocols:
            supporters[protocol.name] += change
            if not supporters[protocol.name]:
                del supporters[protocol.name]

    def _subscribe(self) -> None:
        is_known = self.protocol is not None or not self.members
        self.subscriptions = [m.metadata(self.protocol) for m in self.members.values()] if is_known else None

    def _discard_unsynced(self, member_id: MemberId) -> None:
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self._cancel_deadline(SYNC_PHASE)

    # -- deadlines

    def _restart_sessions(self, member_ids: Iterable[MemberId], at_ms: int) -> None:
        for member_id in member_ids:
            if member_id not in self.joining:
                self._set_deadline(SESSION, at_ms + self.members[member_id].session_timeout_ms, member_id)

    def _set_deadline(self, kind: str, due_ms: int, member_id: MemberId = NO_MEMBER) -> None:
        if self.deadlines is not None:
            self.deadlines.set((self.group_id, kind, member_id), due_ms)

    def _cancel_deadline(self, kind: str, member_id: MemberId = NO_MEMBER) -> None:
        if self.deadlines is not None:
            self.deadlines.cancel((self.group_id, kind, member_id))


def _member(stored: StoredMember, protocol: str | None, known: ClassicMember | None) -> ClassicMember:
    # Only the selected protocol is stored. If the other protocols are known, they are kept for the next generation.
    is_same = known is not None and known.metadata(protocol) == stored.subscription
    return ClassicMember(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        # Records of very old groups have one timeout only.
        stored.rebalance_timeout_ms if stored.rebalance_timeout_ms >= 0 else stored.session_timeout_ms,
        stored.session_timeout_ms,
        known.protocols if known is not None and is_same else (SupportedProtocol(protocol or "", stored.subscription),),
        stored.assignment,
    )
