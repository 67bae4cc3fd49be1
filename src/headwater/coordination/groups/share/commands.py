"""The requests of share groups' members (KIP-932) and their results, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.terms import GroupState
from headwater.ids import GroupId, MemberId, TopicName

# Epochs that a member sends instead of its own: it joins, or it leaves.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1


class ShareHeartbeat(NamedTuple):
    """A field is None if it has not changed since the member's previous heartbeat."""

    member_id: MemberId
    epoch: int
    rack_id: str | None
    topic_names: Sequence[TopicName] | None
    client_id: str
    client_host: str


class ShareAnswer(NamedTuple):
    member_id: MemberId
    epoch: int
    heartbeat_interval_ms: int
    # None: unchanged since the last answer that had one.
    assignment: Assignment | None = None


class ShareMemberDescription(NamedTuple):
    member_id: MemberId
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: Sequence[TopicName]
    assigned: Assignment


class ShareDescription(NamedTuple):
    group_id: GroupId
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[ShareMemberDescription]
