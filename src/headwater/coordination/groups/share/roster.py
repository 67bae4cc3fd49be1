"""The state of a share group: its members, and the target and the current assignment of each.

`apply` is the only writer, live and in recovery. An event replaces the whole state of its key. Events of different keys
may come in any order, because a compacted log keeps only the last event of each key.
"""

from typing import NamedTuple

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.consumer.subscriptions import NO_METADATA_HASH
from headwater.coordination.groups.share.commands import JOIN_EPOCH, ShareMemberDescription
from headwater.coordination.groups.share.events import (
    SESSION,
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
from headwater.coordination.groups.terms import DeadlineKey, GroupState
from headwater.ids import GroupId, MemberId, TopicName

NO_VERSION = -1
# What a member weighs besides what it brings: its entries in tables.
MEMBER_BYTES = 2000


class ShareMember(NamedTuple):
    details: ShareMemberStored
    current: ShareCurrentStored

    @property
    def id(self) -> MemberId:
        return self.details.member_id

    @property
    def weight(self) -> int:
        return MEMBER_BYTES + sum(map(len, self.details.topic_names))

    def describe(self) -> ShareMemberDescription:
        details, current = self
        return ShareMemberDescription(
            details.member_id,
            details.rack_id,
            current.epoch,
            details.client_id,
            details.client_host,
            sorted(details.topic_names),
            current.assigned,
        )


def new_member(group_id: GroupId, member_id: MemberId) -> ShareMember:
    return ShareMember(
        ShareMemberStored(group_id, member_id, None, "", "", frozenset()),
        ShareCurrentStored(group_id, member_id, JOIN_EPOCH, JOIN_EPOCH),
    )


class ShareRoster:
    def __init__(self, group_id: GroupId, deadlines: Deadlines[DeadlineKey]) -> None:
        self.group_id = group_id
        # Rises with every change of members, subscriptions or topics: new targets are due.
        self.epoch = 0
        self.metadata_hash = NO_METADATA_HASH
        # The epoch for which the targets were computed.
        self.assignment_epoch = 0
        self.members: dict[MemberId, ShareMember] = {}
        self.targets: dict[MemberId, Assignment] = {}
        # The version of the topics that subscriptions were last resolved against.
        self.topics_version = NO_VERSION
        self.weight = 0
        self._deadlines = deadlines

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def subscribed_names(self) -> frozenset[TopicName]:
        return frozenset[TopicName]().union(*(member.details.topic_names for member in self.members.values()))

    def target_of(self, member_id: MemberId) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def apply(self, event: object) -> None:
        match event:
            case ShareSessionSet(group_id, member_id, due_ms):
                self._deadlines.set((group_id, SESSION, member_id), due_ms)
            case ShareSessionCancelled(group_id, member_id):
                self._deadlines.cancel((group_id, SESSION, member_id))
            case ShareTopicsSeen(_, version):
                self.topics_version = version
            case ShareCurrentStored(_, member_id):
                self._put(self._known(member_id)._replace(current=event))
            case ShareCurrentForgotten(group_id, member_id):
                if member_id in self.members:
                    self._put(self._known(member_id)._replace(current=new_member(group_id, member_id).current))
            case ShareTargetStored(_, member_id, partitions):
                self.targets[member_id] = partitions
            case ShareTargetForgotten(_, member_id):
                self.targets.pop(member_id, None)
            case ShareTargetEpochStored(_, assignment_epoch):
                self.assignment_epoch = assignment_epoch
            case ShareTargetEpochForgotten():
                self.assignment_epoch = 0
            case ShareGroupStored(_, epoch, metadata_hash):
                self.epoch, self.metadata_hash = epoch, metadata_hash
            case ShareGroupForgotten():
                self.epoch, self.metadata_hash = 0, NO_METADATA_HASH
            case ShareMemberStored(_, member_id):
                self._put(self._known(member_id)._replace(details=event))
            case ShareMemberForgotten(group_id, member_id):
                self._deadlines.cancel((group_id, SESSION, member_id))
                gone = self.members.pop(member_id, None)
                self.weight -= 0 if gone is None else gone.weight
            case _:
                raise AssertionError(f"not an event of a share group: {event!r}")

    def _known(self, member_id: MemberId) -> ShareMember:
        return self.members.get(member_id) or new_member(self.group_id, member_id)

    def _put(self, member: ShareMember) -> None:
        before = self.members.get(member.id)
        self.weight += member.weight - (0 if before is None else before.weight)
        self.members[member.id] = member
