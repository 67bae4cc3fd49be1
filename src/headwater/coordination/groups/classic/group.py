"""A group of the classic protocol: one of its members leads and divides the partitions among all.

Pure: no clock, no I/O. `decide_*` returns events and answers; `apply` is the only writer, live and in recovery. Each
generation is stored once it has its assignments. So a group that is loaded again is stable or empty, and its members
are expected to continue where they were.
"""

from collections.abc import Sequence

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.commands import (
    ClassicDescription,
    ClassicMemberDescription,
    Join,
    JoinResult,
    Leave,
    LeaveResult,
    Sync,
    SyncResult,
)
from headwater.coordination.groups.classic.draft import Draft
from headwater.coordination.groups.classic.events import (
    JOIN_PHASE,
    SESSION,
    SYNC_PHASE,
    ClassicGroupForgotten,
    ClassicMember,
    ClassicRosterEvent,
    MemberSynced,
    SessionExtended,
)
from headwater.coordination.groups.classic.join import check_join, check_metadata_bytes, decide_join
from headwater.coordination.groups.classic.roster import ClassicRoster
from headwater.coordination.groups.classic.subscriptions import topics_of
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, DeadlineKey, GroupState, GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName


class ClassicGroup:
    type = GroupType.CLASSIC
    may_expire = True

    def __init__(self, group_id: GroupId, config: GroupDefaults, deadlines: Deadlines[DeadlineKey]) -> None:
        self.group_id = group_id
        # Public for reading; `apply` alone changes it.
        self.roster = ClassicRoster(group_id, deadlines)
        self._config = config
        # A cache: the topics of the subscriptions that were read last.
        self._topics: frozenset[TopicName] | None = None
        self._topics_read_from: Sequence[bytes] | None = None

    @property
    def state(self) -> GroupState:
        return self.roster.state

    @property
    def is_pristine(self) -> bool:
        return self.roster.is_pristine

    @property
    def weight(self) -> int:
        return self.roster.weight

    def weight_of(self, member_id: MemberId) -> int:
        member = self.roster.members.get(member_id)
        return 0 if member is None else member.weight

    @property
    def protocol_type(self) -> str:
        return self.roster.protocol_type or ""

    # -- decisions on requests

    def decide_join(self, join: Join, ticket: Ticket, now: Now) -> Decision[JoinResult | Waiting]:
        check_join(join, self._config)
        self.roster.check_alive()
        return decide_join(self._draft(now), join, ticket)

    def decide_sync(self, sync: Sync, ticket: Ticket, now: Now) -> Decision[SyncResult | Waiting]:
        roster = self.roster
        roster.check_alive()
        member = roster.member(sync.member_id, sync.instance_id)
        roster.check_generation(sync.generation)
        _check_protocol(sync.protocol_type, roster.protocol_type)
        _check_protocol(sync.protocol, roster.protocol)
        if roster.state is GroupState.STABLE:
            events = [MemberSynced(self.group_id, member.id, None)] if member.id in roster.unsynced else []
            result = SyncResult(ErrorCode.NONE, roster.protocol_type, roster.protocol, member.assignment)
            return Decision(events, result)
        if roster.state is GroupState.PREPARING_REBALANCE:
            return Decision([], SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        draft = self._draft(now)
        draft.sync(member.id, ticket)
        if member.id == roster.leader:
            bytes_most = max(map(len, sync.assignments.values()), default=0)
            check_metadata_bytes(bytes_most, "the assignment of a member", self._config)
            draft.assign(sync.assignments)
        return draft.sync_decision(ticket)

    def weight_added_by(self, sync: Sync) -> int:
        return sum(len(sync.assignments[each]) - self.weight_of(each) for each in sync.assignments)

    def decide_heartbeat(
        self, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]:
        roster = self.roster
        roster.check_alive()
        member = roster.member(member_id, instance_id)
        roster.check_generation(generation)
        is_rebalancing = roster.state is GroupState.PREPARING_REBALANCE
        result = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
        return Decision(self._extend_session(member, now), result)

    def decide_leave(self, leaving: Sequence[Leave], now: Now) -> Decision[Sequence[LeaveResult]]:
        self.roster.check_alive()
        # A member that is named twice leaves once.
        gone: dict[MemberId, None] = {}
        left: list[LeaveResult] = []
        for member_id, instance_id, _ in leaving:
            try:
                found_id = self._leaving_id(member_id, instance_id)
            except Refusal as refusal:
                left.append(LeaveResult(member_id, instance_id, refusal.code))
                continue
            is_first = found_id not in gone
            gone[found_id] = None
            left.append(
                LeaveResult(member_id, instance_id, ErrorCode.NONE if is_first else ErrorCode.UNKNOWN_MEMBER_ID)
            )
        draft = self._draft(now)
        draft.remove_all(gone)
        return draft.decision(left)

    def _leaving_id(self, member_id: MemberId, instance_id: str | None) -> MemberId:
        roster = self.roster
        if member_id in roster.awaited:
            return member_id
        if member_id == NO_MEMBER and instance_id is not None:
            # An administrator knows only the instance ids of static members.
            member_id = roster.id_of_instance.get(instance_id, NO_MEMBER)
        return roster.member(member_id, instance_id).id

    def decide_commit(self, commit: Commit, *, is_transactional: bool, now: Now) -> Sequence[ClassicRosterEvent]:
        roster = self.roster
        member_id, instance_id, generation = commit.member_id, commit.instance_id, commit.generation
        roster.check_alive()
        if generation < 0 and roster.state is GroupState.EMPTY:
            # A tool, or a consumer that assigns partitions to itself.
            return []
        if generation < 0 and member_id == NO_MEMBER and instance_id is None:
            # Older producers do not tell for which member they commit.
            if is_transactional:
                return []
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group '{self.group_id}' has members: offsets can be set from outside once they have left",
            )
        member = roster.member(member_id, instance_id)
        roster.check_generation(generation)
        if is_transactional:
            return []
        if roster.state is GroupState.COMPLETING_REBALANCE:
            raise Refusal(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"group '{self.group_id}' is rebalancing: commit when the member has its assignment",
            )
        return self._extend_session(member, now)

    def decide_delete(self) -> Sequence[ClassicRosterEvent]:
        if self.state is GroupState.DEAD:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group '{self.group_id}'")
        if self.state is not GroupState.EMPTY:
            raise self._non_empty()
        return [ClassicGroupForgotten(self.group_id)]

    # -- decisions for other reasons

    def decide_expired(self, kind: str, member_id: str, now: Now) -> Decision[None]:
        draft = self._draft(now)
        if kind == JOIN_PHASE:
            draft.end_join_phase()
        elif kind == SYNC_PHASE:
            draft.remove_all([member_id for member_id in draft.roster.members if member_id in draft.roster.unsynced])
        else:
            assert kind == SESSION
            draft.remove_all([MemberId(member_id)])
        return draft.decision(None)

    def decide_loaded(self, now: Now) -> Sequence[ClassicRosterEvent]:
        draft = self._draft(now)
        for member in self.roster.members.values():
            for event in self._extend_session(member, now):
                draft.record(event)
        roster = self.roster
        # A generation without a leader was stored with a rebalance still due. A group that exceeds a lowered limit also
        # rebalances, and the last members to join find no room.
        if roster.members and (roster.leader is None or len(roster.members) > self._config.group_max_size):
            draft.begin_rebalance()
        return draft.events

    def decide_rebalance(self, now: Now) -> Decision[None]:
        """Makes every member join again, for a reason outside of the group."""
        draft = self._draft(now)
        draft.begin_rebalance()
        return draft.decision(None)

    def decide_dissolve(self, error: ErrorCode, now: Now) -> Decision[None]:
        """Ends the group although it has members. Those that wait are told this error."""
        draft = self._draft(now)
        draft.dissolve(error)
        return draft.decision(None)

    # -- questions

    def check_fetch(self, member_id: MemberId | None, epoch: int) -> None:
        """Members of classic groups do not say who they are when they fetch offsets."""

    def check_offsets_deletable(self) -> None:
        # Only consumers use the subscription format that the broker can read.
        if self.state is not GroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise self._non_empty()

    def is_subscribed_to(self, topic: TopicName) -> bool:
        topics = self._subscribed_topics()
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE if topics is None else topic in topics

    def expiry_rule(self) -> ExpiryRule | None:
        if self.roster.protocol_type is None:
            return ExpiryRule()
        if self.state is GroupState.EMPTY:
            return ExpiryRule(empty_since_ms=self.roster.state_timestamp_ms)
        topics = self._subscribed_topics()
        if self.state is GroupState.STABLE and topics is not None:
            return ExpiryRule(subscribed=topics)
        return None

    def describe(self) -> ClassicDescription:
        roster = self.roster
        is_stable = roster.state is GroupState.STABLE
        members = [
            ClassicMemberDescription(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(roster.protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in roster.members.values()
        ]
        protocol = (roster.protocol or "") if is_stable else ""
        return ClassicDescription(self.group_id, roster.state, self.protocol_type, protocol, members)

    # -- state

    def apply(self, event: ClassicRosterEvent) -> None:
        self.roster.apply(event)

    def _draft(self, now: Now) -> Draft:
        return Draft(self.roster, self._config, now)

    def _extend_session(self, member: ClassicMember, now: Now) -> Sequence[ClassicRosterEvent]:
        if self.roster.is_waiting(member.id):
            return []
        return [SessionExtended(self.group_id, member.id, now.monotonic_ms + member.session_timeout_ms)]

    def _subscribed_topics(self) -> frozenset[TopicName] | None:
        """The topics of the last generation. None if they are not known, as with members that are no consumers."""
        subscriptions = self.roster.subscriptions
        if subscriptions is None or self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if subscriptions is not self._topics_read_from:
            self._topics, self._topics_read_from = topics_of(subscriptions), subscriptions
        return self._topics

    def _non_empty(self) -> Refusal:
        return Refusal(
            ErrorCode.NON_EMPTY_GROUP, f"group '{self.group_id}' has members: stop its consumers and try again"
        )


def _check_protocol(stated: str | None, current: str | None) -> None:
    if stated is not None and current is not None and stated != current:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"this generation uses '{current}', not '{stated}': join again"
        )
