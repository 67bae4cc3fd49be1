"""The requests of the consumer protocol (KIP-848) and their results, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.terms import GroupState
from headwater.ids import GroupId, MemberId, TopicName

# Epochs that a member sends instead of its own: it joins, it leaves, or, as a static member, it leaves for a while and
# its partitions wait for it.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class MemberHeartbeat(NamedTuple):
    """A field is None if it has not changed since the member's previous heartbeat."""

    member_id: MemberId
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: Sequence[TopicName] | None
    topic_regex: str | None
    assignor: str | None
    # The partitions that the member says it owns.
    owned: Assignment | None
    client_id: str
    client_host: str
    # For a member of version 0, which gets its id from the coordinator; later versions make their own.
    new_member_id: MemberId


class MemberAnswer(NamedTuple):
    member_id: MemberId
    epoch: int
    heartbeat_interval_ms: int
    # None: unchanged since the last answer that had one.
    assignment: Assignment | None = None


class ConsumerMemberDescription(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: Sequence[TopicName]
    topic_regex: str | None
    assigned: Assignment
    target: Assignment
    # Whether the member speaks the classic protocol.
    is_classic: bool


class ConsumerDescription(NamedTuple):
    group_id: GroupId
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[ConsumerMemberDescription]
