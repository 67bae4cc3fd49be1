"""The machine of one shard: its groups of every kind, and the offsets that they committed.

Pure: no clock, no I/O. It finds the group that a command names, begins and ends groups, and leaves the rest to them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.commands import (
    ClassicDescription,
    Join,
    JoinResult,
    Leave,
    LeaveResult,
    Sync,
    SyncResult,
)
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.commands import (
    JOIN_EPOCH,
    ConsumerDescription,
    MemberAnswer,
    MemberHeartbeat,
)
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.consumer.heartbeat import check_heartbeat
from headwater.coordination.groups.consumer.subscriptions import NO_METADATA_HASH
from headwater.coordination.groups.group import Group, GroupContext
from headwater.coordination.groups.kinds import CLASSIC, KINDS, EventRule, GroupKind, event_rules
from headwater.coordination.groups.migration.upgrade import decide_takeover
from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery
from headwater.coordination.groups.offsets.events import (
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.coordination.groups.offsets.offsets import Offsets
from headwater.coordination.groups.share.commands import JOIN_EPOCH as SHARE_JOIN_EPOCH
from headwater.coordination.groups.share.commands import ShareAnswer, ShareDescription, ShareHeartbeat
from headwater.coordination.groups.share.events import ShareGroupStored
from headwater.coordination.groups.share.group import ShareGroup
from headwater.coordination.groups.share.group import check_heartbeat as check_share_heartbeat
from headwater.coordination.groups.terms import NO_MEMBER, DeadlineKey, GroupListing, GroupState, TopicImage
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition

GroupT = TypeVar("GroupT", ClassicGroup, ConsumerGroup, ShareGroup)


class GroupMachine:
    def __init__(
        self,
        config: GroupDefaults,
        config_of: Callable[[GroupId], GroupConfig],
        topics: TopicImage,
        has_room: Callable[[], bool],
        bytes_left: Callable[[], int],
        kinds: Sequence[GroupKind] = KINDS,
    ) -> None:
        self.groups: dict[GroupId, Group] = {}
        # About how many bytes of memory all members take.
        self.weight = 0
        self.offsets = Offsets(config)
        self._config = config
        self._topics = topics
        self._has_room = has_room
        self._bytes_left = bytes_left
        self._deadlines: Deadlines[DeadlineKey] = Deadlines()
        self._context = GroupContext(config, config_of, self._deadlines, topics)
        self._rules = event_rules(kinds)

    # -- the classic protocol

    def decide_join(self, group_id: GroupId, join: Join, ticket: Ticket, now: Now) -> Decision[JoinResult | Waiting]:
        group = self.groups.get(group_id)
        brought = sum(len(name) + len(metadata) for name, metadata in join.protocols)
        self._check_memory(brought, group, join.member_id)
        if group is None:
            self._check_room()
            group = CLASSIC.new(group_id, self._context)
        return group.decide_join(join, ticket, now)

    def decide_sync(self, group_id: GroupId, sync: Sync, ticket: Ticket, now: Now) -> Decision[SyncResult | Waiting]:
        group = self._group_of(group_id, sync.member_id)
        self._check_memory(group.weight_added_by(sync))
        return group.decide_sync(sync, ticket, now)

    def decide_heartbeat(
        self, group_id: GroupId, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]:
        return self._group_of(group_id, member_id).decide_heartbeat(member_id, instance_id, generation, now)

    def decide_leave(self, group_id: GroupId, leaving: Sequence[Leave], now: Now) -> Decision[Sequence[LeaveResult]]:
        group = self.groups.get(group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return Decision((), [LeaveResult(each.member_id, each.instance_id, unknown) for each in leaving])
        return group.decide_leave(leaving, now)

    # -- the consumer protocol

    def decide_member_heartbeat(
        self, group_id: GroupId, heartbeat: MemberHeartbeat, now: Now
    ) -> Decision[MemberAnswer]:
        group = self.groups.get(group_id)
        if heartbeat.topic_names is not None:
            self._check_memory(sum(map(len, heartbeat.topic_names)), group, heartbeat.member_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_member_heartbeat(heartbeat, now)
        if heartbeat.epoch != JOIN_EPOCH:
            check_heartbeat(heartbeat, self._config)
            raise _unknown_member(group_id, heartbeat.member_id)
        # A group to decide on; the real one begins when its first event is applied.
        fresh = ConsumerGroup(group_id, *self._context._replace(deadlines=Deadlines()))
        if group is not None:
            return decide_takeover(group, fresh, heartbeat, now)
        self._check_room()
        return fresh.decide_member_heartbeat(heartbeat, now)

    # -- share groups

    def decide_share_heartbeat(self, group_id: GroupId, heartbeat: ShareHeartbeat, now: Now) -> Decision[ShareAnswer]:
        check_share_heartbeat(heartbeat, self._config)
        group = self.groups.get(group_id)
        if heartbeat.topic_names is not None:
            self._check_memory(sum(map(len, heartbeat.topic_names)), group, heartbeat.member_id)
        if group is not None:
            return self._of_kind(group_id, ShareGroup).decide_share_heartbeat(heartbeat, now)
        if heartbeat.epoch != SHARE_JOIN_EPOCH:
            raise _unknown_member(group_id, heartbeat.member_id)
        self._check_room()
        # A group to decide on; the real one begins when its first event is applied.
        fresh = ShareGroup(group_id, *self._context._replace(deadlines=Deadlines()))
        return fresh.decide_share_heartbeat(heartbeat, now)

    def decide_restart_share_group(self, group_id: GroupId) -> Decision[None]:
        """Refuses a share group with members, whose offsets nobody may move. One that does not exist begins, as in
        Kafka: an administrator decides where it starts before its first member comes."""
        if group_id in self.groups:
            self.share_group(group_id).check_empty()
            return Decision((), None)
        self._check_room()
        return Decision([ShareGroupStored(group_id, 0, NO_METADATA_HASH)], None)

    def decide_open_share_group(self, group_id: GroupId) -> Decision[None]:
        """For clients that receive without being members: a share group that does not exist begins."""
        if group_id in self.groups:
            self.share_group(group_id)
            return Decision((), None)
        return self.decide_restart_share_group(group_id)

    def share_group(self, group_id: GroupId) -> ShareGroup:
        return self._of_kind(group_id, ShareGroup)

    # -- offsets

    def decide_commit(self, group_id: GroupId, commit: Commit, now: Now) -> Decision[Sequence[ErrorCode]]:
        events = self._decide_committer(group_id, commit, is_transactional=False, now=now)
        decision = self.offsets.decide_commit(group_id, commit.offsets, commit.retention_ms, now)
        return decision._replace(events=[*events, *decision.events])

    def decide_commit_in_transaction(
        self, group_id: GroupId, commit: Commit, producer_id: ProducerId, producer_epoch: int, now: Now
    ) -> Decision[Sequence[ErrorCode]]:
        """Whether the producer has an open transaction that includes the group, its coordinator has checked."""
        events = self._decide_committer(group_id, commit, is_transactional=True, now=now)
        decision = self.offsets.decide_commit_in_transaction(group_id, commit.offsets, producer_id, producer_epoch, now)
        return decision._replace(events=[*events, *decision.events])

    def decide_end_transaction(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        coordinator_epoch: int,
        is_committed: bool,
        transaction_version: int,
    ) -> Decision[None]:
        """The marker goes into the log even if no offset is pending: the partition itself tracks transactions by it."""
        ended = TransactionEnded(producer_id, producer_epoch, coordinator_epoch, is_committed, transaction_version)
        return Decision([ended], None)

    def _decide_committer(
        self, group_id: GroupId, commit: Commit, *, is_transactional: bool, now: Now
    ) -> Sequence[object]:
        group = self.groups.get(group_id)
        if group is not None:
            return group.decide_commit(commit, is_transactional=is_transactional, now=now)
        if commit.generation < 0:
            # A client that assigns partitions by hand, or an administrator: the group is no more than its offsets.
            self._check_room()
            return ()
        # Producers and older clients only understand that their generation is over.
        knows_groups = commit.knows_epochs and not is_transactional
        raise Refusal(
            ErrorCode.GROUP_ID_NOT_FOUND if knows_groups else ErrorCode.ILLEGAL_GENERATION,
            f"there is no group '{group_id}' with a generation or epoch {commit.generation}: join it again",
        )

    def committed(self, group_id: GroupId, query: OffsetQuery) -> Decision[Sequence[FoundOffset]]:
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(query.member_id, query.epoch)
        partitions = query.partitions
        if partitions is None:
            of_group = self.offsets.of_group(group_id)
            partitions = [TopicPartition(topic, partition) for topic, found in of_group.items() for partition in found]
        return Decision((), [self._found(group_id, each, query.require_stable) for each in partitions])

    def _found(self, group_id: GroupId, where: TopicPartition, require_stable: bool) -> FoundOffset:
        if require_stable and self.offsets.has_pending(group_id, *where):
            return FoundOffset(where, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.offsets.committed(group_id, *where)
        topic = self._topics.by_name.get(where.topic)
        if committed is None or topic is None or committed.topic_id in (NO_TOPIC_ID, topic.id):
            return FoundOffset(where, committed)
        # Committed for a deleted topic that had the same name.
        return FoundOffset(where, None)

    def decide_delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> Decision[Sequence[ErrorCode]]:
        group = self._existing(group_id)
        group.check_offsets_deletable()
        codes: list[ErrorCode] = []
        deleted: list[TopicPartition] = []
        for each in partitions:
            if group.is_subscribed_to(each.topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            else:
                codes.append(ErrorCode.NONE)
                deleted.append(each)
        return Decision(self.offsets.decide_delete(group_id, deleted), codes)

    def decide_forget_topics(self, names: Sequence[TopicName]) -> Decision[None]:
        """The topics were deleted, and so are the offsets committed for them."""
        return Decision(self.offsets.decide_forget_topics(names), None)

    # -- groups as wholes

    def describe_classic(self, group_id: GroupId) -> ClassicDescription:
        return self._of_kind(group_id, ClassicGroup).describe()

    def describe_consumer(self, group_id: GroupId) -> ConsumerDescription:
        return self._of_kind(group_id, ConsumerGroup).describe()

    def describe_share(self, group_id: GroupId) -> ShareDescription:
        return self._of_kind(group_id, ShareGroup).describe()

    def listings(self) -> Sequence[GroupListing]:
        return [
            GroupListing(group_id, group.protocol_type, group.state, group.type)
            for group_id, group in self.groups.items()
        ]

    def decide_delete(self, group_id: GroupId) -> Decision[None]:
        events = self._existing(group_id).decide_delete()
        return Decision([*self.offsets.decide_forget_group(group_id), *events], None)

    def decide_expire(self, now: Now) -> Decision[None]:
        events: list[object] = []
        for group_id, group in self.groups.items():
            expired = self.offsets.decide_expire(group_id, group.expiry_rule(), now)
            events += expired.events
            if expired.result and group.may_expire and group.state is GroupState.EMPTY:
                events += group.decide_delete()
        return Decision(events, None)

    # -- time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def decide_due(self, now: Now) -> Decision[None]:
        key = self._deadlines.next_key()
        assert key is not None, "something is due"
        group_id, kind, member_id = key
        return self.groups[group_id].decide_expired(kind, member_id, now)

    def decide_loaded(self, now: Now) -> Decision[None]:
        """Every session starts again, because no heartbeat could arrive meanwhile. Offsets of deleted topics are
        forgotten: a crash may have come between the deletion of a topic and that of its offsets."""
        events = [event for group in self.groups.values() for event in group.decide_loaded(now)]
        return Decision([*events, *self.offsets.decide_forget_gone(self._topics.by_name)], None)

    # -- state

    def apply(self, event: object) -> None:
        rule = self._rules.get(type(event))
        if rule is not None:
            self._apply_to_group(rule, event)
            return
        match event:
            case OffsetCommitted() | TransactionalOffsetCommitted():
                self.offsets.apply(event)
                # A group that only commits is a classic group without members.
                if event.group_id not in self.groups:
                    self.groups[event.group_id] = CLASSIC.new(event.group_id, self._context)
            case OffsetForgotten():
                self.offsets.apply(event)
            case TransactionEnded():
                concerned = self.offsets.pending_in(event.producer_id)
                self.offsets.apply(event)
                for group_id in concerned:
                    self._drop_if_pristine(group_id, self.groups[group_id])
            case _:
                raise AssertionError(f"not an event of groups: {event!r}")

    def _apply_to_group(self, rule: EventRule, event: Any) -> None:
        kind, can_begin, is_end = rule
        group_id: GroupId = event.group_id
        group = self.groups.get(group_id)
        if group is None or group.type is not kind.group_type:
            if not can_begin:
                # Compaction may have left no more than this of a group.
                return
            if group is not None:
                self.weight -= group.weight
            group = self.groups[group_id] = kind.new(group_id, self._context)
        before = group.weight
        group.apply(event)
        self.weight += group.weight - before
        if is_end:
            self._end(group_id, group)
        else:
            self._drop_if_pristine(group_id, group)

    def _drop_if_pristine(self, group_id: GroupId, group: Group) -> None:
        """A client that asked for a member id and never joined leaves no group behind; neither does an aborted
        transaction."""
        if group.is_pristine and not self.offsets.has_offsets(group_id):
            del self.groups[group_id]

    def _end(self, group_id: GroupId, group: Group) -> None:
        del self.groups[group_id]
        self.weight -= group.weight
        # A group that ended because one of another kind takes its place, of which the log may know nothing yet, leaves
        # its offsets behind. Without a group they would be neither listed nor deleted nor ever expire.
        if self.offsets.has_offsets(group_id):
            self.groups[group_id] = CLASSIC.new(group_id, self._context)

    # -- checks

    def _existing(self, group_id: GroupId) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group '{group_id}'")
        return group

    def _of_kind(self, group_id: GroupId, kind: type[GroupT]) -> GroupT:
        """For requests that only groups of one kind understand."""
        group = self._existing(group_id)
        if not isinstance(group, kind):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group '{group_id}' is not a {kind.type.value} group")
        return group

    def _group_of(self, group_id: GroupId, member_id: MemberId) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise _unknown_member(group_id, member_id)
        return group

    def _check_room(self) -> None:
        if not self._has_room():
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"there are {self._config.headwater_groups_max} groups already (headwater.groups.max): delete some",
            )

    def _check_memory(self, brought: int, group: Group | None = None, member_id: MemberId = NO_MEMBER) -> None:
        """Refuses a member that brings more than the memory left. One that brings no more than before always passes."""
        more = brought - (0 if group is None else group.weight_of(member_id))
        if more > 0 and more > self._bytes_left():
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "the members of all groups take as much memory as they may (headwater.groups.memory.max.bytes)",
            )


def _unknown_member(group_id: GroupId, member_id: MemberId) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group '{group_id}' with a member '{member_id}': join it again"
    )
