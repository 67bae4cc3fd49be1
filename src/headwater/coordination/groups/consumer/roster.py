"""The state of a consumer group: its members, their current and target assignments, and the owner of each partition.

`apply` is the only writer, live and in recovery. An event replaces the whole state of its key. Events of different keys
may come in any order, because a compacted log keeps only the last event of each key.
"""

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.consumer.events import (
    CLASSIC_JOIN,
    CLASSIC_SYNC,
    DEADLINE_KINDS,
    REBALANCE,
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberDeadlineCancelled,
    MemberDeadlineSet,
    MemberForgotten,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
    TopicsSeen,
)
from headwater.coordination.groups.consumer.member import ConsumerMember, new_current, new_details, weight_of
from headwater.coordination.groups.consumer.subscriptions import (
    NO_METADATA_HASH,
    TopicSubscription,
    resubscribe,
)
from headwater.coordination.groups.terms import DeadlineKey, GroupState
from headwater.ids import GroupId, MemberId, TopicId

NO_VERSION = -1


class ConsumerRoster:
    def __init__(self, group_id: GroupId, deadlines: Deadlines[DeadlineKey]) -> None:
        self.group_id = group_id
        # Rises with every change of members, subscriptions or topics: a new target is due.
        self.epoch = 0
        self.metadata_hash = NO_METADATA_HASH
        # The epoch for which the targets were computed.
        self.assignment_epoch = 0
        self.members: dict[MemberId, ConsumerMember] = {}
        self.targets: dict[MemberId, Assignment] = {}
        self.regexes: dict[str, RegexResolved] = {}
        # The version of the topics that subscriptions were last resolved against.
        self.topics_version = NO_VERSION
        # Derived from the members.
        self.static_members: dict[str, MemberId] = {}
        self.subscribers: dict[TopicSubscription, int] = {}
        self.classic_count = 0
        self.weight = 0
        self._owners: dict[TopicId, dict[int, MemberId]] = {}
        self._deadlines = deadlines

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def owner(self, topic_id: TopicId, partition: int) -> MemberId | None:
        partitions = self._owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: MemberId) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def has_deadline(self, kind: str, member_id: MemberId) -> bool:
        return (self.group_id, kind, member_id) in self._deadlines

    # -- changes

    def apply(self, event: object) -> None:
        match event:
            case MemberDeadlineSet(group_id, kind, member_id, due_ms):
                self._deadlines.set((group_id, kind, member_id), due_ms)
            case MemberDeadlineCancelled(group_id, kind, member_id):
                self._deadlines.cancel((group_id, kind, member_id))
            case TopicsSeen():
                self.topics_version = event.version
            case CurrentStored():
                self._apply_current(event)
            case CurrentForgotten(_, member_id):
                if member_id in self.members:
                    self._apply_current(new_current(self.group_id, member_id))
            case TargetStored(_, member_id, partitions):
                self.targets[member_id] = partitions
            case TargetForgotten(_, member_id):
                self.targets.pop(member_id, None)
            case TargetEpochStored(_, assignment_epoch):
                self.assignment_epoch = assignment_epoch
            case TargetEpochForgotten():
                self.assignment_epoch = 0
            case ConsumerGroupStored(_, epoch, metadata_hash):
                self.epoch, self.metadata_hash = epoch, metadata_hash
            case ConsumerGroupForgotten():
                self.epoch, self.metadata_hash = 0, NO_METADATA_HASH
            case MemberStored():
                self._apply_details(event)
            case MemberForgotten(_, member_id):
                self._forget(member_id)
            case RegexResolved():
                self.regexes[event.regex] = event
            case RegexForgotten(_, regex):
                self.regexes.pop(regex, None)
            case _:
                raise AssertionError(f"not an event of a consumer group: {event!r}")

    def _apply_details(self, details: MemberStored) -> None:
        before = self.members.get(details.member_id)
        current = before.current if before is not None else new_current(self.group_id, details.member_id)
        self._put(before, ConsumerMember(details, current))
        if details.classic is None:
            # The member may have spoken the classic protocol until now.
            for kind in (CLASSIC_JOIN, CLASSIC_SYNC):
                self._deadlines.cancel((self.group_id, kind, details.member_id))

    def _apply_current(self, current: CurrentStored) -> None:
        member_id = current.member_id
        before = self.members.get(member_id)
        if before is None:
            self._put(None, ConsumerMember(new_details(self.group_id, member_id), current))
        else:
            self._release(before)
            self.members[member_id] = ConsumerMember(before.details, current)
            self._hold(self.members[member_id])
        # The former deadline to give up partitions is obsolete. If a new one is due, an event of its own sets it.
        self._deadlines.cancel((self.group_id, REBALANCE, member_id))

    def _put(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        if before is not None:
            self._remove_from_indexes(before)
        self.members[after.id] = after
        self.subscribers = resubscribe(self.subscribers, (), (after.subscription,))
        self.classic_count += after.details.classic is not None
        self.weight += weight_of(after.details)
        if after.details.instance_id is not None:
            self.static_members[after.details.instance_id] = after.id
        self._hold(after)

    def _forget(self, member_id: MemberId) -> None:
        for kind in DEADLINE_KINDS:
            self._deadlines.cancel((self.group_id, kind, member_id))
        member = self.members.pop(member_id, None)
        if member is not None:
            self._remove_from_indexes(member)

    def _remove_from_indexes(self, member: ConsumerMember) -> None:
        self.subscribers = resubscribe(self.subscribers, (member.subscription,), ())
        self.classic_count -= member.details.classic is not None
        self.weight -= weight_of(member.details)
        instance_id = member.details.instance_id
        # The instance id of a replaced member already belongs to its successor.
        if instance_id is not None and self.static_members.get(instance_id) == member.id:
            del self.static_members[instance_id]
        self._release(member)

    def _hold(self, member: ConsumerMember) -> None:
        for topic_id, partitions in member.held.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                owners[partition] = member.id

    def _release(self, member: ConsumerMember) -> None:
        for topic_id, partitions in member.held.items():
            owners = self._owners.get(topic_id, {})
            for partition in partitions:
                if owners.get(partition) == member.id:
                    del owners[partition]
            if not owners:
                self._owners.pop(topic_id, None)
