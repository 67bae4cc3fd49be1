"""A member of a consumer group: its details and its current assignment, each as the last event that set it."""

from typing import NamedTuple

from headwater.coordination.groups.assignment import Assignment, union
from headwater.coordination.groups.consumer.commands import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMemberDescription,
    MemberHeartbeat,
)
from headwater.coordination.groups.consumer.events import CurrentStored, MemberState, MemberStored
from headwater.coordination.groups.consumer.subscriptions import TopicSubscription
from headwater.ids import GroupId, MemberId

# What a member weighs besides what it brings: its entries in tables.
MEMBER_BYTES = 2000
# In a request: the rebalance timeout is as before.
UNCHANGED_TIMEOUT = -1


class ConsumerMember(NamedTuple):
    details: MemberStored
    current: CurrentStored

    @property
    def id(self) -> MemberId:
        return self.details.member_id

    @property
    def subscription(self) -> TopicSubscription:
        return TopicSubscription(self.details.topic_names, self.details.topic_regex)

    @property
    def held(self) -> Assignment:
        """Partitions that no other member may get: one is held until its member has confirmed its revocation."""
        return union(self.current.assigned, self.current.pending_revocation)

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that has left for a while."""
        return self.current.epoch == LEAVE_STATIC_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.current.epoch == assignment_epoch

    def renamed(self, member_id: MemberId) -> "ConsumerMember":
        """The static member that takes this one's place: it joins again, with the same assignment."""
        return ConsumerMember(
            self.details._replace(member_id=member_id),
            self.current._replace(member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH),
        )

    def describe(self, target: Assignment) -> ConsumerMemberDescription:
        details = self.details
        return ConsumerMemberDescription(
            member_id=details.member_id,
            instance_id=details.instance_id,
            rack_id=details.rack_id,
            epoch=self.current.epoch,
            client_id=details.client_id,
            client_host=details.client_host,
            topic_names=sorted(details.topic_names),
            topic_regex=details.topic_regex,
            assigned=self.current.assigned,
            target=target,
            is_classic=details.classic is not None,
        )


def weight_of(details: MemberStored) -> int:
    """About how many bytes of memory a member takes."""
    brought = len(details.topic_regex or "") + sum(map(len, details.topic_names))
    if details.classic is not None:
        brought += sum(len(name) + len(metadata) for name, metadata in details.classic.protocols)
    return MEMBER_BYTES + brought


def new_details(group_id: GroupId, member_id: MemberId) -> MemberStored:
    return MemberStored(group_id, member_id, None, None, "", "", frozenset(), None, UNCHANGED_TIMEOUT, None)


def new_current(group_id: GroupId, member_id: MemberId) -> CurrentStored:
    return CurrentStored(group_id, member_id, JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE)


def new_member(group_id: GroupId, member_id: MemberId) -> ConsumerMember:
    return ConsumerMember(new_details(group_id, member_id), new_current(group_id, member_id))


def details_after(details: MemberStored, heartbeat: MemberHeartbeat) -> MemberStored:
    """The member's details after its heartbeat; the identical object if nothing has changed."""
    if (
        heartbeat.topic_names is heartbeat.topic_regex is heartbeat.assignor is heartbeat.rack_id is None
        and heartbeat.rebalance_timeout_ms == UNCHANGED_TIMEOUT
        and heartbeat.instance_id in (None, details.instance_id)
        and heartbeat.client_id == details.client_id
        and heartbeat.client_host == details.client_host
        and details.classic is None
    ):
        return details
    topic_names, regex = details.topic_names, details.topic_regex
    if heartbeat.topic_names is not None:
        topic_names = frozenset(heartbeat.topic_names)
    if heartbeat.topic_regex is not None:
        # An empty expression removes the former one.
        regex = heartbeat.topic_regex or None
    timeout_ms = heartbeat.rebalance_timeout_ms
    return MemberStored(
        group_id=details.group_id,
        member_id=details.member_id,
        instance_id=heartbeat.instance_id if heartbeat.instance_id is not None else details.instance_id,
        rack_id=heartbeat.rack_id if heartbeat.rack_id is not None else details.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        topic_names=topic_names,
        topic_regex=regex,
        rebalance_timeout_ms=timeout_ms if timeout_ms != UNCHANGED_TIMEOUT else details.rebalance_timeout_ms,
        assignor=heartbeat.assignor if heartbeat.assignor is not None else details.assignor,
    )
