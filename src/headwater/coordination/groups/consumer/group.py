"""A group of the consumer protocol (KIP-848): the coordinator computes a target assignment and moves one member after
the other towards it, while all members keep consuming what they keep.

Pure: no clock, no I/O. `decide_*` returns events; `apply` is the only writer, live and in recovery, so that a replayed
log rebuilds the same group.
"""

from collections.abc import Callable, Sequence

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket, Waiting
from headwater.coordination.groups.assignment import NOTHING
from headwater.coordination.groups.classic.commands import Join, JoinResult, Leave, LeaveResult, Sync, SyncResult
from headwater.coordination.groups.classic.join import check_join
from headwater.coordination.groups.consumer.classic_members import (
    arrive_classic,
    check_protocols,
    decide_heartbeat,
    decide_sync,
    joined_deadlines,
    joined_result,
    leaving_member,
)
from headwater.coordination.groups.consumer.commands import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerDescription,
    MemberAnswer,
    MemberHeartbeat,
)
from headwater.coordination.groups.consumer.consequences import (
    Arrival,
    advance,
    is_target_due,
    rebalance_deadline,
    remove,
)
from headwater.coordination.groups.consumer.events import SESSION, MemberDeadlineCancelled, MemberDeadlineSet
from headwater.coordination.groups.consumer.heartbeat import arrive, check_heartbeat, existing_member, is_full
from headwater.coordination.groups.consumer.member import ConsumerMember, weight_of
from headwater.coordination.groups.consumer.roster import ConsumerRoster
from headwater.coordination.groups.consumer.subscriptions import subscribed_names
from headwater.coordination.groups.consumer.target import preferred_assignor
from headwater.coordination.groups.migration.downgrade import (
    decide_succession,
    downgrade,
    forget_group,
    may_downgrade,
    selected_protocol,
)
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.terms import (
    CONSUMER_PROTOCOL_TYPE,
    NO_MEMBER,
    DeadlineKey,
    GroupState,
    GroupType,
    TopicImage,
)
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName


class ConsumerGroup:
    type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE
    # It begins with a member, whose events are stored.
    is_pristine = False
    may_expire = True

    def __init__(
        self,
        group_id: GroupId,
        config: GroupDefaults,
        config_of: Callable[[GroupId], GroupConfig],
        deadlines: Deadlines[DeadlineKey],
        topics: TopicImage,
    ) -> None:
        self.group_id = group_id
        self.roster = ConsumerRoster(group_id, deadlines)
        self.config = config
        self.topics = topics
        self._config_of = config_of

    @property
    def state(self) -> GroupState:
        return self.roster.state

    @property
    def weight(self) -> int:
        return self.roster.weight

    def weight_of(self, member_id: MemberId) -> int:
        member = self.roster.members.get(member_id)
        return 0 if member is None else weight_of(member.details)

    def apply(self, event: object) -> None:
        self.roster.apply(event)

    # -- members

    def decide_member_heartbeat(self, heartbeat: MemberHeartbeat, now: Now) -> Decision[MemberAnswer]:
        check_heartbeat(heartbeat, self.config)
        if heartbeat.epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._decide_leave(heartbeat, now)
        self._check_room(heartbeat.member_id, heartbeat.instance_id)
        arrival = arrive(self.roster, heartbeat)
        config = self._config_of(self.group_id)
        progress = advance(self.roster, arrival, self.topics, self.config.group_consumer_assignors, now)
        member = progress.member
        due_ms = now.monotonic_ms + config.consumer_session_timeout_ms
        progress.events.append(MemberDeadlineSet(self.group_id, SESSION, member.id, due_ms))
        assigned = member.current.assigned
        before = arrival.before.current
        # A member that still has its previous epoch has missed an answer, and perhaps its assignment with it.
        is_told = is_full(heartbeat) or assigned != before.assigned or heartbeat.epoch != before.epoch
        interval_ms = config.consumer_heartbeat_interval_ms
        answer = MemberAnswer(member.id, member.current.epoch, interval_ms, assigned if is_told else None)
        return Decision(progress.events, answer)

    def decide_expired(self, kind: str, member_id: str, now: Now) -> Decision[None]:
        """Removes a member that was silent for too long, or kept partitions that others wait for."""
        member = self.roster.members.get(MemberId(member_id))
        if member is None:
            return Decision([MemberDeadlineCancelled(self.group_id, kind, MemberId(member_id))], None)
        return Decision(self._remove([member], now), None)

    def decide_loaded(self, now: Now) -> Sequence[object]:
        """After a replay every session starts again, because the broker could not be reached meanwhile."""
        events: list[object] = []
        for member in self.roster.members.values():
            timeout_ms = self._session_timeout_ms(member)
            events.append(MemberDeadlineSet(self.group_id, SESSION, member.id, now.monotonic_ms + timeout_ms))
            if member.current.pending_revocation and member.details.classic is None:
                events.append(rebalance_deadline(member, now))
        return events

    def _decide_leave(self, heartbeat: MemberHeartbeat, now: Now) -> Decision[MemberAnswer]:
        member = existing_member(self.roster, heartbeat.member_id, heartbeat.instance_id)
        answer = MemberAnswer(member.id, heartbeat.epoch, 0)
        if heartbeat.epoch == LEAVE_EPOCH:
            return Decision(self._remove([member], now), answer)
        # The member has stopped. Partitions that it had to give up are free; the others wait until its session ends.
        away = member.current._replace(epoch=LEAVE_STATIC_EPOCH, pending_revocation=NOTHING)
        return Decision([away], answer)

    def _remove(self, gone: Sequence[ConsumerMember], now: Now) -> Sequence[object]:
        group = self.roster
        gone_ids = {member.id for member in gone}
        # The group stays a consumer group while it has members of this protocol. The counter saves a loop over members.
        if group.classic_count >= len(group.members) - len(gone_ids):
            remaining = [member for member in group.members.values() if member.id not in gone_ids]
            if may_downgrade(remaining, self.config):
                with_targets = [(member, group.target_of(member.id)) for member in remaining]
                return downgrade(group, with_targets, self.topics, self.config, now, is_rebalance_due=True)
        return remove(group, gone, self.topics)

    def _check_room(self, member_id: MemberId, instance_id: str | None) -> None:
        roster = self.roster
        if len(roster.members) < self.config.group_consumer_max_size or member_id in roster.members:
            return
        # A static member that comes back takes its former place.
        if instance_id is None or instance_id not in roster.static_members:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group '{self.group_id}' has {len(roster.members)} members already (group.consumer.max.size)",
            )

    def _session_timeout_ms(self, member: ConsumerMember) -> int:
        classic = member.details.classic
        return classic.session_timeout_ms if classic else self._config_of(self.group_id).consumer_session_timeout_ms

    # -- members that speak the classic protocol

    def decide_join(self, join: Join, ticket: Ticket, now: Now) -> Decision[JoinResult | Waiting]:
        group = self.roster
        if not group.members:
            return decide_succession(group, join, self.config, ticket, now)
        check_join(join, self.config)
        self._check_room(join.member_id, join.instance_id)
        check_protocols(group, join)
        if join.is_member_id_required and join.member_id == NO_MEMBER and join.instance_id is None:
            return Decision((), JoinResult(join.new_member_id, ErrorCode.MEMBER_ID_REQUIRED))
        arrival = arrive_classic(group, join, self.topics)
        heir = self._decide_last_replaced(arrival, now)
        if heir is not None:
            return heir
        progress = advance(group, arrival, self.topics, self.config.group_consumer_assignors, now)
        member = progress.member
        progress.events.extend(joined_deadlines(member, now))
        return Decision(progress.events, joined_result(member, member.current.epoch, join.protocols[0].name))

    def _decide_last_replaced(self, arrival: Arrival, now: Now) -> Decision[JoinResult] | None:
        """If a static member comes back with the classic protocol and was the last of the consumer protocol, the group
        becomes a classic one."""
        group, replaced = self.roster, arrival.replaced
        if replaced is None or replaced.details.classic is not None:
            return None
        member = ConsumerMember(arrival.details, arrival.before.current)
        remaining = [member, *(each for each in group.members.values() if each.id != replaced.id)]
        if not may_downgrade(remaining, self.config):
            return None
        targets = [group.target_of(replaced.id), *(group.target_of(each.id) for each in remaining[1:])]
        with_targets = list(zip(remaining, targets, strict=True))
        # No rebalance if the member keeps its subscription, the targets are up to date, and all other members have
        # reached theirs.
        is_due = (
            member.subscription != replaced.subscription
            or is_target_due(group, self.topics)
            or not all(each.is_reconciled_to(group.epoch) for each in remaining[1:])
        )
        events = downgrade(group, with_targets, self.topics, self.config, now, is_rebalance_due=is_due)
        return Decision(events, joined_result(member, group.epoch, selected_protocol(remaining)))

    def decide_sync(self, sync: Sync, ticket: Ticket, now: Now) -> Decision[SyncResult]:
        # No member has to wait for a leader.
        del ticket
        return decide_sync(self.roster, sync, self.topics, now)

    def weight_added_by(self, sync: Sync) -> int:
        """Nobody leads, so assignments that a client brings are ignored."""
        del sync
        return 0

    def decide_heartbeat(
        self, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]:
        return decide_heartbeat(self.roster, member_id, instance_id, generation, now)

    def decide_leave(self, leaving: Sequence[Leave], now: Now) -> Decision[Sequence[LeaveResult]]:
        """LeaveGroup. An administrator may also name members of the consumer protocol."""
        gone: dict[MemberId, ConsumerMember] = {}
        left: list[LeaveResult] = []
        for each in leaving:
            try:
                member = leaving_member(self.roster, each)
            except Refusal as refusal:
                left.append(LeaveResult(each.member_id, each.instance_id, refusal.code))
                continue
            # A member that is named twice leaves once.
            error = ErrorCode.UNKNOWN_MEMBER_ID if member.id in gone else ErrorCode.NONE
            gone[member.id] = member
            left.append(LeaveResult(each.member_id, each.instance_id, error))
        return Decision(self._remove(list(gone.values()), now) if gone else (), left)

    # -- offsets

    def decide_commit(self, commit: Commit, *, is_transactional: bool, now: Now) -> Sequence[object]:
        del now
        member_id, epoch = commit.member_id, commit.generation
        members = self.roster.members
        if epoch < 0 and not members:
            return ()
        # A transactional producer that does not tell which consumer it commits for.
        if is_transactional and epoch == -1 and member_id == NO_MEMBER and commit.instance_id is None:
            return ()
        member = self._member(member_id)
        if not is_transactional and not commit.knows_epochs and member.details.classic is None:
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION, "members of consumer groups need OffsetCommit version 9 or later"
            )
        self._check_epoch(member, epoch, is_transactional=is_transactional)
        return ()

    def check_fetch(self, member_id: MemberId | None, epoch: int) -> None:
        # Clients that are no members give neither.
        if member_id is not None or epoch >= 0:
            self._check_epoch(self._member(member_id or NO_MEMBER), epoch)

    def check_offsets_deletable(self) -> None:
        """The subscriptions of all members are known."""

    def _member(self, member_id: MemberId) -> ConsumerMember:
        return existing_member(self.roster, member_id, None)

    def _check_epoch(self, member: ConsumerMember, epoch: int, *, is_transactional: bool = False) -> None:
        if epoch != member.current.epoch:
            # Producers and members of the classic protocol only understand generations.
            knows_epochs = member.details.classic is None and not is_transactional
            raise Refusal(
                ErrorCode.STALE_MEMBER_EPOCH if knows_epochs else ErrorCode.ILLEGAL_GENERATION,
                f"epoch {epoch} is not the one of member '{member.id}', which is {member.current.epoch}",
            )

    # -- administration

    def decide_delete(self) -> Sequence[object]:
        roster = self.roster
        if roster.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, f"group '{self.group_id}' has {len(roster.members)} members")
        return forget_group(roster)

    def is_subscribed_to(self, topic: TopicName) -> bool:
        return topic in self._subscribed_names()

    def expiry_rule(self) -> ExpiryRule:
        return ExpiryRule(subscribed=self._subscribed_names())

    def _subscribed_names(self) -> frozenset[TopicName]:
        return subscribed_names(self.roster.subscribers, self.roster.regexes)

    def describe(self) -> ConsumerDescription:
        roster = self.roster
        members = roster.members.values()
        return ConsumerDescription(
            group_id=self.group_id,
            state=roster.state,
            epoch=roster.epoch,
            assignment_epoch=roster.assignment_epoch,
            assignor=preferred_assignor(members, self.config.group_consumer_assignors),
            members=[member.describe(roster.target_of(member.id)) for member in members],
        )
