"""A decision of a classic group in the making.

Each event is applied to a copy of the roster, so that later steps of the decision see the effect of earlier ones. The
copy is thrown away: the group itself changes when the events are applied to it.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import WAITING, Answer, Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.commands import JoinedMember, JoinResult, SyncResult
from headwater.coordination.groups.classic.events import (
    ClassicGroupForgotten,
    ClassicMember,
    ClassicRosterEvent,
    GenerationBegan,
    GenerationStored,
    JoinPhaseExtended,
    MemberJoining,
    MemberRemoved,
    MemberReplaced,
    MemberSynced,
    RebalanceBegan,
    SyncsAnswered,
)
from headwater.coordination.groups.classic.roster import ClassicRoster
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode
from headwater.ids import MemberId

ResultT = TypeVar("ResultT")


class Draft:
    def __init__(self, roster: ClassicRoster, config: GroupDefaults, now: Now) -> None:
        self.roster = roster.copy()
        self.config = config
        self.now = now
        self.events: list[ClassicRosterEvent] = []
        # Results of waiting requests, by their tickets.
        self._joined: dict[Ticket, JoinResult] = {}
        self._synced: dict[Ticket, SyncResult] = {}

    def record(self, event: ClassicRosterEvent) -> None:
        self.events.append(event)
        self.roster.apply(event)

    def decision(self, result: ResultT) -> Decision[ResultT]:
        answers = [Answer(ticket, joined) for ticket, joined in self._joined.items()]
        answers += [Answer(ticket, synced) for ticket, synced in self._synced.items()]
        return Decision(self.events, result, answers)

    def join_decision(self, ticket: Ticket) -> Decision[JoinResult | Waiting]:
        """The decision may contain the answer to the very request that caused it."""
        return self.decision(self._joined.pop(ticket, WAITING))

    def sync_decision(self, ticket: Ticket) -> Decision[SyncResult | Waiting]:
        return self.decision(self._synced.pop(ticket, WAITING))

    # -- members

    def join(self, member: ClassicMember, protocol_type: str, ticket: Ticket, newcomer_until_ms: int) -> None:
        """The member waits for the next generation; a new member no longer than until `newcomer_until_ms`."""
        before = self.roster.joining.get(member.id)
        if before is not None:
            # The client has retried, most likely over another connection.
            self._joined[before.ticket] = JoinResult(member.id, ErrorCode.REBALANCE_IN_PROGRESS)
            until_ms = before.until_ms
        else:
            until_ms = None if member.id in self.roster.members else newcomer_until_ms
        self.record(MemberJoining(self.roster.group_id, member, protocol_type, ticket, until_ms))

    def replace(self, old_id: MemberId, member: ClassicMember) -> None:
        self._answer_waits(old_id, JoinResult(old_id, ErrorCode.FENCED_INSTANCE_ID))
        until_ms = self.now.monotonic_ms + member.session_timeout_ms
        self.record(MemberReplaced(self.roster.group_id, old_id, member, until_ms))

    def remove(self, member_id: MemberId) -> None:
        # A client that is still alive learns that it has to join again.
        self._answer_waits(member_id, JoinResult(NO_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
        self.record(MemberRemoved(self.roster.group_id, member_id))

    def remove_all(self, member_ids: Iterable[MemberId]) -> None:
        """Removes members, and completes or begins a rebalance if that is due then."""
        members_before = len(self.roster.members)
        for member_id in member_ids:
            self.remove(member_id)
        if self.roster.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_due()
        elif len(self.roster.members) < members_before:
            self.begin_rebalance()

    def dissolve(self, error: ErrorCode) -> None:
        """Ends the group although it has members. A member that comes back finds another group, or none."""
        for member_id in self.roster.members:
            self._answer_waits(member_id, JoinResult(member_id, error))
        self.record(ClassicGroupForgotten(self.roster.group_id))

    def _answer_waits(self, member_id: MemberId, join_result: JoinResult) -> None:
        joining = self.roster.joining.get(member_id)
        if joining is not None:
            self._joined[joining.ticket] = join_result
        syncing = self.roster.syncing.get(member_id)
        if syncing is not None:
            self._synced[syncing] = SyncResult(join_result.error)

    # -- the phase in which members join

    def rebalance(self) -> None:
        """A member has joined: begins a rebalance unless one is in progress."""
        if self.roster.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_due()
        else:
            self.begin_rebalance()

    def begin_rebalance(self) -> None:
        roster = self.roster
        self._answer_syncs({}, ErrorCode.REBALANCE_IN_PROGRESS)
        now_ms = self.now.monotonic_ms
        until_ms, initial_until_ms = now_ms + roster.rebalance_timeout_ms, None
        if roster.state is GroupState.EMPTY:
            until_ms, initial_until_ms = now_ms + self.config.group_initial_rebalance_delay_ms, until_ms
        self.record(RebalanceBegan(roster.group_id, until_ms, initial_until_ms))
        self.complete_join_if_due()

    def complete_join_if_due(self) -> None:
        """The phase ends once all members have joined. A group that was empty waits longer, for more members."""
        if self.roster.initial_until_ms is None and self.roster.has_everyone_joined:
            self.complete_join()

    def end_join_phase(self) -> None:
        """The deadline of the phase has come. An initial rebalance is extended if a new member joined meanwhile."""
        now_ms, latest_ms = self.now.monotonic_ms, self.roster.initial_until_ms
        if latest_ms is not None and self.roster.has_newcomer and now_ms < latest_ms:
            until_ms = min(now_ms + self.config.group_initial_rebalance_delay_ms, latest_ms)
            self.record(JoinPhaseExtended(self.roster.group_id, until_ms))
        else:
            self.complete_join()

    def complete_join(self) -> None:
        roster = self.roster
        # A static member that has not joined keeps its place until its session ends.
        late = [m.id for m in roster.members.values() if m.instance_id is None and m.id not in roster.joining]
        for member_id in late:
            self.remove(member_id)
        if not roster.members:
            self._store([], roster.generation + 1, protocol=None, leader=None)
        elif not roster.joining:
            # No member could lead. The pause has a minimum, so that a rebalance timeout of 0 does not make us spin.
            pause_ms = max(roster.rebalance_timeout_ms, self.config.group_min_session_timeout_ms)
            self.record(JoinPhaseExtended(roster.group_id, self.now.monotonic_ms + pause_ms))
        else:
            self._begin_generation()

    def _begin_generation(self) -> None:
        roster = self.roster
        tickets = {member_id: joining.ticket for member_id, joining in roster.joining.items()}
        leader = roster.leader
        if leader is None or leader not in tickets:
            leader = next(iter(tickets))
        now_ms = self.now.monotonic_ms
        sync_until_ms = now_ms + roster.rebalance_timeout_ms
        protocol = roster.selected_protocol()
        self.record(GenerationBegan(roster.group_id, roster.generation + 1, protocol, leader, now_ms, sync_until_ms))
        for member_id, ticket in tickets.items():
            self._joined[ticket] = current_generation(roster, member_id)

    # -- the phase in which members fetch their assignments

    def sync(self, member_id: MemberId, ticket: Ticket) -> None:
        before = self.roster.syncing.get(member_id)
        if before is not None:
            self._synced[before] = SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        self.record(MemberSynced(self.roster.group_id, member_id, ticket))

    def assign(self, assignments: Mapping[MemberId, bytes]) -> None:
        """Members that the leader left out get an empty assignment."""
        self._answer_syncs(assignments, ErrorCode.NONE)
        members = [m._replace(assignment=assignments.get(m.id, b"")) for m in self.roster.members.values()]
        self._store(members, self.roster.generation, self.roster.protocol, self.roster.leader)

    def store_generation(self) -> None:
        """Stores the unchanged generation again, because a member has changed its id."""
        roster = self.roster
        self._store(roster.members.values(), roster.generation, roster.protocol, roster.leader)

    def _answer_syncs(self, assignments: Mapping[MemberId, bytes], error: ErrorCode) -> None:
        roster = self.roster
        if not roster.syncing:
            return
        for member_id, ticket in roster.syncing.items():
            if error is ErrorCode.NONE:
                result = SyncResult(error, roster.protocol_type, roster.protocol, assignments.get(member_id, b""))
            else:
                result = SyncResult(error)
            self._synced[ticket] = result
        self.record(SyncsAnswered(roster.group_id, self.now.monotonic_ms))

    def _store(
        self, members: Iterable[ClassicMember], generation: int, protocol: str | None, leader: MemberId | None
    ) -> None:
        stored = [member.stored(protocol) for member in members]
        group_id, protocol_type = self.roster.group_id, self.roster.protocol_type or ""
        self.record(GenerationStored(group_id, protocol_type, generation, protocol, leader, self.now.wall_ms, stored))


def current_generation(roster: ClassicRoster, member_id: MemberId, *, skip_assignment: bool = False) -> JoinResult:
    """The result of a join in this generation. The leader is also told all members."""
    is_leader = member_id == roster.leader
    return JoinResult(
        member_id,
        ErrorCode.NONE,
        roster.generation,
        roster.protocol_type,
        roster.protocol,
        roster.leader or NO_MEMBER,
        skip_assignment and is_leader,
        [JoinedMember(m.id, m.instance_id, m.metadata(roster.protocol)) for m in roster.members.values()]
        if is_leader
        else (),
    )
