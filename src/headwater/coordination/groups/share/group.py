"""A share group (KIP-932): members that read the same partitions together, record by record.

Any number of members may be given a partition, so nobody waits for a partition to be given up: a member has a new
assignment as soon as it is computed. Who holds which record is a matter of share-partitions (`coordination/shares`).

Pure: no clock, no I/O. `decide_*` returns events; `apply` is the only writer, live and in recovery.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.assignors.simple import ShareSubscription, assign_simple
from headwater.coordination.groups.classic.commands import Join, Leave, Sync
from headwater.coordination.groups.consumer.subscriptions import metadata_hash
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.share.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareAnswer,
    ShareDescription,
    ShareHeartbeat,
)
from headwater.coordination.groups.share.events import (
    ShareCurrentForgotten,
    ShareCurrentStored,
    ShareGroupForgotten,
    ShareGroupStored,
    ShareMemberForgotten,
    ShareMemberStored,
    ShareSessionCancelled,
    ShareSessionSet,
    ShareTargetEpochForgotten,
    ShareTargetEpochStored,
    ShareTargetForgotten,
    ShareTargetStored,
    ShareTopicsSeen,
)
from headwater.coordination.groups.share.roster import ShareMember, ShareRoster, new_member
from headwater.coordination.groups.terms import DeadlineKey, GroupState, GroupType, TopicImage
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicId, TopicName

SHARE_PROTOCOL_TYPE = "share"
ASSIGNOR = "simple"


class ShareGroup:
    type = GroupType.SHARE
    protocol_type = SHARE_PROTOCOL_TYPE
    # It begins with a member, whose events are stored.
    is_pristine = False
    # What it has done with is kept until an administrator deletes it, also while it has no members.
    may_expire = False

    def __init__(
        self,
        group_id: GroupId,
        config: GroupDefaults,
        config_of: Callable[[GroupId], GroupConfig],
        deadlines: Deadlines[DeadlineKey],
        topics: TopicImage,
    ) -> None:
        self.group_id = group_id
        self.roster = ShareRoster(group_id, deadlines)
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
        return 0 if member is None else member.weight

    def apply(self, event: object) -> None:
        self.roster.apply(event)

    # -- members

    def decide_share_heartbeat(self, heartbeat: ShareHeartbeat, now: Now) -> Decision[ShareAnswer]:
        if heartbeat.epoch == LEAVE_EPOCH:
            member = self._member(heartbeat.member_id)
            return Decision(self._remove(member), ShareAnswer(member.id, LEAVE_EPOCH, 0))
        before = self._arrive(heartbeat)
        details = _details_after(before.details, heartbeat)
        events: list[object] = []
        epoch = self._next_epoch(before, details, events)
        if heartbeat.member_id not in self.roster.members or details != before.details:
            events.append(details)
        targets = self._targets(epoch, ShareMember(details, before.current), now, events)
        current = before.current
        assigned = targets.get(details.member_id, NOTHING)
        if heartbeat.member_id not in self.roster.members or (current.epoch, current.assigned) != (epoch, assigned):
            current = ShareCurrentStored(self.group_id, details.member_id, epoch, current.epoch, assigned)
            events.append(current)
        config = self._config_of(self.group_id)
        due_ms = now.monotonic_ms + config.share_session_timeout_ms
        events.append(ShareSessionSet(self.group_id, details.member_id, due_ms))
        # A member that still has its previous epoch has missed an answer, and perhaps its assignment with it.
        is_told = (
            heartbeat.topic_names is not None
            or heartbeat.epoch != before.current.epoch
            or assigned != before.current.assigned
        )
        interval_ms = config.share_heartbeat_interval_ms
        return Decision(events, ShareAnswer(details.member_id, epoch, interval_ms, assigned if is_told else None))

    def _arrive(self, heartbeat: ShareHeartbeat) -> ShareMember:
        """The member that sent the heartbeat, as it was until now. Refuses one that is fenced or not known."""
        members = self.roster.members
        if heartbeat.epoch != JOIN_EPOCH:
            member = self._member(heartbeat.member_id)
            epoch = member.current.epoch
            # The answer with the new epoch may have been lost.
            if heartbeat.epoch not in (epoch, member.current.previous_epoch) or heartbeat.epoch > epoch:
                raise Refusal(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"member epoch {heartbeat.epoch} is not the one of '{member.id}', which is {epoch}: join again",
                )
            return member
        known = members.get(heartbeat.member_id)
        if known is None and len(members) >= self.config.group_share_max_size:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group '{self.group_id}' has {len(members)} members already (group.share.max.size)",
            )
        return known or new_member(self.group_id, heartbeat.member_id)

    def _next_epoch(self, before: ShareMember, details: ShareMemberStored, events: list[object]) -> int:
        roster, topics = self.roster, self.topics
        is_changed = before.id not in roster.members or details.topic_names != before.details.topic_names
        is_stale = roster.topics_version != topics.version
        epoch = roster.epoch
        if is_changed or is_stale or not epoch:
            others = (member.details.topic_names for member in roster.members.values() if member.id != before.id)
            hashed = metadata_hash(details.topic_names.union(*others), topics)
            if is_changed or hashed != roster.metadata_hash or not epoch:
                epoch += 1
                events.append(ShareGroupStored(self.group_id, epoch, hashed))
            if is_stale:
                events.append(ShareTopicsSeen(self.group_id, topics.version))
        return epoch

    def _targets(
        self, epoch: int, arriving: ShareMember, now: Now, events: list[object]
    ) -> Mapping[MemberId, Assignment]:
        roster = self.roster
        if epoch == roster.assignment_epoch:
            return roster.targets
        by_name = self.topics.by_name
        subscriptions = [
            ShareSubscription(
                member.id,
                frozenset(by_name[name].id for name in member.details.topic_names if name in by_name),
                roster.target_of(member.id),
            )
            for member in {**roster.members, arriving.id: arriving}.values()
        ]
        subscribed = frozenset[TopicId]().union(*(each.topic_ids for each in subscriptions))
        counts = {topic_id: self.topics.by_id[topic_id].partition_count for topic_id in subscribed}
        targets = assign_simple(subscriptions, counts)
        for member_id, partitions in targets.items():
            if roster.targets.get(member_id) != partitions:
                events.append(ShareTargetStored(self.group_id, member_id, partitions))
        # Last, so that a log cut before it shows incomplete targets.
        events.append(ShareTargetEpochStored(self.group_id, epoch, now.wall_ms))
        return targets

    def _remove(self, member: ShareMember) -> list[object]:
        """New targets are computed at the next heartbeat of a remaining member."""
        roster = self.roster
        others = (each.details.topic_names for each in roster.members.values() if each.id != member.id)
        hashed = metadata_hash(frozenset[TopicName]().union(*others), self.topics)
        return [
            ShareGroupStored(self.group_id, roster.epoch + 1, hashed),
            # Kafka can only read a log in which the member itself comes last.
            ShareCurrentForgotten(self.group_id, member.id),
            ShareTargetForgotten(self.group_id, member.id),
            ShareMemberForgotten(self.group_id, member.id),
        ]

    def _member(self, member_id: MemberId) -> ShareMember:
        member = self.roster.members.get(member_id)
        if member is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, f"'{member_id}' is not a member of group '{self.group_id}': join it first"
            )
        return member

    def decide_expired(self, kind: str, member_id: str, now: Now) -> Decision[None]:
        """Removes a member that was silent for too long."""
        del kind, now
        member = self.roster.members.get(MemberId(member_id))
        if member is None:
            return Decision([ShareSessionCancelled(self.group_id, MemberId(member_id))], None)
        return Decision(self._remove(member), None)

    def decide_loaded(self, now: Now) -> Sequence[object]:
        """Every session starts again, because the broker could not be reached meanwhile."""
        due_ms = now.monotonic_ms + self._config_of(self.group_id).share_session_timeout_ms
        return [ShareSessionSet(self.group_id, member_id, due_ms) for member_id in self.roster.members]

    # -- requests of the classic protocol

    def decide_join(self, join: Join, ticket: Ticket, now: Now) -> NoReturn:
        del join, ticket, now
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"'{self.group_id}' is a share group: choose another group.id, or use a share consumer",
        )

    def decide_sync(self, sync: Sync, ticket: Ticket, now: Now) -> NoReturn:
        del ticket, now
        self._refuse_member(sync.member_id)

    def weight_added_by(self, sync: Sync) -> int:
        del sync
        return 0

    def decide_heartbeat(self, member_id: MemberId, instance_id: str | None, generation: int, now: Now) -> NoReturn:
        del instance_id, generation, now
        self._refuse_member(member_id)

    def decide_leave(self, leaving: Sequence[Leave], now: Now) -> NoReturn:
        del now
        self._refuse_member(leaving[0].member_id if leaving else MemberId(""))

    def _refuse_member(self, member_id: MemberId) -> NoReturn:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"'{self.group_id}' is a share group: '{member_id}' is not in it")

    # -- committed offsets, of which it has none

    def decide_commit(self, commit: Commit, *, is_transactional: bool, now: Now) -> NoReturn:
        del commit, is_transactional, now
        self._refuse_offsets()

    def check_fetch(self, member_id: MemberId | None, epoch: int) -> NoReturn:
        del member_id, epoch
        self._refuse_offsets()

    def check_offsets_deletable(self) -> NoReturn:
        self._refuse_offsets()

    def _refuse_offsets(self) -> NoReturn:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"'{self.group_id}' is a share group: it commits no offsets")

    def is_subscribed_to(self, topic: TopicName) -> bool:
        return topic in self.roster.subscribed_names

    def expiry_rule(self) -> ExpiryRule | None:
        return None

    # -- administration

    def check_empty(self) -> None:
        members = self.roster.members
        if members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, f"group '{self.group_id}' has {len(members)} members")

    def decide_delete(self) -> Sequence[object]:
        self.check_empty()
        targets = self.roster.targets
        return [
            *(ShareTargetForgotten(self.group_id, member_id) for member_id in targets),
            ShareTargetEpochForgotten(self.group_id),
            ShareGroupForgotten(self.group_id),
        ]

    def describe(self) -> ShareDescription:
        roster = self.roster
        return ShareDescription(
            self.group_id,
            roster.state,
            roster.epoch,
            roster.assignment_epoch,
            ASSIGNOR,
            [member.describe() for member in roster.members.values()],
        )


def check_heartbeat(heartbeat: ShareHeartbeat, config: GroupDefaults) -> None:
    """Refuses requests that are invalid for every group."""
    if not heartbeat.member_id:
        raise _invalid("the member id must not be empty")
    if heartbeat.rack_id == "":
        raise _invalid("the rack id must not be empty")
    if heartbeat.epoch < LEAVE_EPOCH:
        raise _invalid(f"member epoch {heartbeat.epoch} has no meaning")
    if heartbeat.epoch == JOIN_EPOCH and not heartbeat.topic_names:
        raise _invalid("a member that joins must subscribe to topics")
    size = len(heartbeat.member_id) + sum(map(len, heartbeat.topic_names or ()))
    if size > config.headwater_group_metadata_max_bytes:
        raise _invalid(
            f"the subscription has {size} bytes, the limit is {config.headwater_group_metadata_max_bytes} "
            "(headwater.group.metadata.max.bytes)"
        )


def _details_after(details: ShareMemberStored, heartbeat: ShareHeartbeat) -> ShareMemberStored:
    return ShareMemberStored(
        details.group_id,
        details.member_id,
        details.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        heartbeat.client_id,
        heartbeat.client_host,
        details.topic_names if heartbeat.topic_names is None else frozenset(heartbeat.topic_names),
    )


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
