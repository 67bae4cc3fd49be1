"""The machine of one shard: its groups of both protocols, and what they committed.

Pure: no clock, no I/O. It finds the group that a command names, begins and ends groups, and leaves the rest to them.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast, get_args

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
from headwater.coordination.groups.classic.events import ClassicGroupForgotten, ClassicRosterEvent
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.commands import (
    JOIN_EPOCH,
    ConsumerDescription,
    MemberAnswer,
    MemberHeartbeat,
)
from headwater.coordination.groups.consumer.events import (
    ConsumerEvent,
    ConsumerGroupForgotten,
    CurrentForgotten,
    MemberForgotten,
    RegexForgotten,
    TargetEpochForgotten,
    TargetForgotten,
)
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.migration import upgrade
from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery
from headwater.coordination.groups.offsets.events import (
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.coordination.groups.offsets.offsets import Offsets
from headwater.coordination.groups.terms import (
    CONSUMER_PROTOCOL_TYPE,
    NO_MEMBER,
    DeadlineKey,
    GroupListing,
    GroupState,
    GroupType,
    TopicImage,
)
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition

Group: TypeAlias = ClassicGroup | ConsumerGroup
GroupT = TypeVar("GroupT", ClassicGroup, ConsumerGroup)

CLASSIC_EVENTS = get_args(ClassicRosterEvent)
CONSUMER_ENDINGS = (
    ConsumerGroupForgotten,
    MemberForgotten,
    TargetEpochForgotten,
    TargetForgotten,
    CurrentForgotten,
    RegexForgotten,
)


class GroupMachine:
    def __init__(
        self,
        config: GroupDefaults,
        config_of: Callable[[GroupId], GroupConfig],
        topics: TopicImage,
        has_room: Callable[[], bool],
        bytes_left: Callable[[], int],
    ) -> None:
        self.groups: dict[GroupId, Group] = {}
        # About how much memory all members take.
        self.weight = 0
        self.offsets = Offsets(config)
        self._config = config
        self._config_of = config_of
        self._topics = topics
        self._has_room = has_room
        self._bytes_left = bytes_left
        self._deadlines: Deadlines[DeadlineKey] = Deadlines()

    # -- the classic protocol

    def decide_join(self, group_id: GroupId, join: Join, ticket: Ticket, now: Now) -> Decision[JoinResult | Waiting]:
        group = self.groups.get(group_id)
        brought = sum(len(name) + len(metadata) for name, metadata in join.protocols)
        self._check_memory(brought, group, join.member_id)
        events: list[object] = []
        if isinstance(group, ConsumerGroup):
            if group.state is not GroupState.EMPTY:
                return group.decide_classic_join(join, ticket, now)
            # Whoever comes first to an empty group says which protocol it speaks.
            events += group.decide_delete()
            group = self._new_classic(group_id)
        elif group is None:
            self._check_room()
            group = self._new_classic(group_id)
        decision = group.decide_join(join, ticket, now)
        return decision._replace(events=[*events, *decision.events]) if events else decision

    def decide_sync(self, group_id: GroupId, sync: Sync, ticket: Ticket, now: Now) -> Decision[SyncResult | Waiting]:
        group = self._group_of(group_id, sync.member_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_classic_sync(sync, now)
        self._check_memory(sum(len(sync.assignments[each]) - group.weight_of(each) for each in sync.assignments))
        return group.decide_sync(sync, ticket, now)

    def decide_heartbeat(
        self, group_id: GroupId, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]:
        group = self._group_of(group_id, member_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_classic_heartbeat(member_id, instance_id, generation, now)
        return group.decide_heartbeat(member_id, instance_id, generation, now)

    def decide_leave(self, group_id: GroupId, leaving: Sequence[Leave], now: Now) -> Decision[Sequence[LeaveResult]]:
        group = self.groups.get(group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return Decision((), [LeaveResult(each.member_id, each.instance_id, unknown) for each in leaving])
        if isinstance(group, ConsumerGroup):
            return group.decide_classic_leave(leaving, now)
        return group.decide_leave(leaving, now)

    # -- the next-generation protocol

    def decide_member_heartbeat(
        self, group_id: GroupId, heartbeat: MemberHeartbeat, now: Now
    ) -> Decision[MemberAnswer]:
        group = self.groups.get(group_id)
        if heartbeat.topic_names is not None:
            self._check_memory(sum(map(len, heartbeat.topic_names)), group, heartbeat.member_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_heartbeat(heartbeat, now)
        if heartbeat.epoch != JOIN_EPOCH:
            raise _unknown_member(group_id, heartbeat.member_id)
        # It is there to decide; the group itself begins when its first event is applied.
        fresh = ConsumerGroup(group_id, self._config, self._config_of, Deadlines(), self._topics)
        if group is not None:
            return upgrade.decide_upgrade(group, fresh, heartbeat, now)
        self._check_room()
        return fresh.decide_heartbeat(heartbeat, now)

    # -- offsets

    def decide_commit(self, group_id: GroupId, commit: Commit, now: Now) -> Decision[Sequence[ErrorCode]]:
        heard = self._decide_committer(group_id, commit, is_transactional=False, now=now)
        decision = self.offsets.decide_commit(group_id, commit.offsets, commit.retention_ms, now)
        return decision._replace(events=[*heard, *decision.events])

    def decide_commit_in_transaction(
        self, group_id: GroupId, commit: Commit, producer_id: ProducerId, producer_epoch: int, now: Now
    ) -> Decision[Sequence[ErrorCode]]:
        """Whether the producer has such a transaction is for its coordinator to say."""
        heard = self._decide_committer(group_id, commit, is_transactional=True, now=now)
        decision = self.offsets.decide_pend(group_id, commit.offsets, producer_id, producer_epoch, now)
        return decision._replace(events=[*heard, *decision.events])

    def decide_end_transaction(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        coordinator_epoch: int,
        is_committed: bool,
        transaction_version: int,
    ) -> Decision[None]:
        """Its end is in the log also where nothing is pending: the partition itself goes by it."""
        ended = TransactionEnded(producer_id, producer_epoch, coordinator_epoch, is_committed, transaction_version)
        return Decision([ended], None)

    def _decide_committer(
        self, group_id: GroupId, commit: Commit, *, is_transactional: bool, now: Now
    ) -> Sequence[object]:
        group, generation = self.groups.get(group_id), commit.generation
        who = commit.member_id, commit.instance_id, generation
        if isinstance(group, ClassicGroup):
            return group.decide_commit(*who, is_transactional=is_transactional, now=now)
        if group is not None:
            return group.decide_commit(
                *who, is_transactional=is_transactional, now=now, knows_epochs=commit.knows_epochs
            )
        if generation < 0:
            # A client that assigns partitions by hand, or an administrator: the group is no more than its offsets.
            self._check_room()
            return ()
        # Producers and older clients know only that their generation is over.
        knows_groups = commit.knows_epochs and not is_transactional
        raise Refusal(
            ErrorCode.GROUP_ID_NOT_FOUND if knows_groups else ErrorCode.ILLEGAL_GENERATION,
            f"there is no group '{group_id}' with a generation or epoch {generation}: join it again",
        )

    def committed(self, group_id: GroupId, asked: OffsetQuery) -> Decision[Sequence[FoundOffset]]:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and asked.member_id is not None:
            group.check_fetch(asked.member_id, asked.epoch)
        partitions = asked.partitions
        if partitions is None:
            of_group = self.offsets.of_group(group_id)
            partitions = [TopicPartition(topic, partition) for topic, found in of_group.items() for partition in found]
        return Decision((), [self._found(group_id, each, asked.require_stable) for each in partitions])

    def _found(self, group_id: GroupId, where: TopicPartition, require_stable: bool) -> FoundOffset:
        if require_stable and self.offsets.has_pending(group_id, *where):
            return FoundOffset(where, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.offsets.committed(group_id, *where)
        topic = self._topics.by_name.get(where.topic)
        if committed is None or topic is None or committed.topic_id in (NO_TOPIC_ID, topic.id):
            return FoundOffset(where, committed)
        # Of a topic that had this name before.
        return FoundOffset(where, None)

    def decide_delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> Decision[Sequence[ErrorCode]]:
        group = self._existing(group_id)
        if isinstance(group, ClassicGroup):
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
        """The topics are gone; so is what was committed for them."""
        return Decision(self.offsets.decide_forget_topics(names), None)

    # -- groups as wholes

    def describe_classic(self, group_id: GroupId) -> ClassicDescription:
        group = self._existing(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group '{group_id}' is not a classic group")
        return group.describe()

    def describe_consumer(self, group_id: GroupId) -> ConsumerDescription:
        group = self._existing(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group '{group_id}' is not a consumer group")
        return group.describe()

    def listings(self) -> Sequence[GroupListing]:
        return [
            GroupListing(group_id, group.protocol_type, group.state, GroupType.CLASSIC)
            if isinstance(group, ClassicGroup)
            else GroupListing(group_id, CONSUMER_PROTOCOL_TYPE, group.state, GroupType.CONSUMER)
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
            if expired.result and group.state is GroupState.EMPTY:
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
        """Every session begins anew, for nobody could have been heard. Offsets of topics that are gone are forgotten:
        the end may have come between a topic's deletion and that of its offsets."""
        events = [event for group in self.groups.values() for event in group.decide_loaded(now)]
        return Decision([*events, *self.offsets.decide_forget_gone(self._topics.by_name)], None)

    # -- state

    def apply(self, event: object) -> None:
        if isinstance(event, OffsetCommitted | TransactionalOffsetCommitted):
            self.offsets.apply(event)
            # A group that only commits is a classic one without members.
            if event.group_id not in self.groups:
                self.groups[event.group_id] = self._new_classic(event.group_id)
        elif isinstance(event, OffsetForgotten):
            self.offsets.apply(event)
        elif isinstance(event, TransactionEnded):
            concerned = self.offsets.pending_in(event.producer_id)
            self.offsets.apply(event)
            for group_id in concerned:
                self._forget_unborn(group_id)
        elif isinstance(event, CLASSIC_EVENTS):
            self._apply_classic(cast("ClassicRosterEvent", event))
        else:
            self._apply_consumer(cast("ConsumerEvent", event))

    def _apply_classic(self, event: ClassicRosterEvent) -> None:
        group = self.groups.get(event.group_id)
        if isinstance(event, ClassicGroupForgotten):
            if isinstance(group, ClassicGroup):
                group.apply(event)
                self._end(event.group_id)
            return
        if not isinstance(group, ClassicGroup):
            group = self._replace(event.group_id, self._new_classic(event.group_id))
        before = group.weight
        group.apply(event)
        self.weight += group.weight - before
        self._forget_unborn(event.group_id)

    def _forget_unborn(self, group_id: GroupId) -> None:
        """Whoever asked for an id and never came leaves nothing behind, nor does a transaction that was aborted."""
        group = self.groups[group_id]
        if isinstance(group, ClassicGroup) and group.roster.is_unborn and not self.offsets.has_offsets(group_id):
            del self.groups[group_id]

    def _apply_consumer(self, event: ConsumerEvent) -> None:
        group = self.groups.get(event.group_id)
        if isinstance(event, CONSUMER_ENDINGS):
            # Compaction may have left no more than this of a group.
            if isinstance(group, ConsumerGroup):
                before = group.weight
                group.apply(event)
                self.weight += group.weight - before
                if isinstance(event, ConsumerGroupForgotten):
                    self._end(event.group_id)
            return
        if not isinstance(group, ConsumerGroup):
            group = self._replace(event.group_id, self._new_consumer(event.group_id))
        before = group.weight
        group.apply(event)
        self.weight += group.weight - before

    def _replace(self, group_id: GroupId, group: GroupT) -> GroupT:
        former = self.groups.get(group_id)
        if former is not None:
            self.weight -= former.weight
        self.groups[group_id] = group
        return group

    def _end(self, group_id: GroupId) -> None:
        self.weight -= self.groups.pop(group_id).weight
        # It ended for one of the other protocol, of which the log may know nothing yet. Without a group that they
        # belong to, its offsets would be neither listed nor deleted nor ever expire.
        if self.offsets.has_offsets(group_id):
            self.groups[group_id] = self._new_classic(group_id)

    def _new_classic(self, group_id: GroupId) -> ClassicGroup:
        return ClassicGroup(group_id, self._config, self._deadlines)

    def _new_consumer(self, group_id: GroupId) -> ConsumerGroup:
        return ConsumerGroup(group_id, self._config, self._config_of, self._deadlines, self._topics)

    def _existing(self, group_id: GroupId) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group '{group_id}'")
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
        """Refuses what does not fit beside all the rest. Whoever brings no more than before is always welcome."""
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
