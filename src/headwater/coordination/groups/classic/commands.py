"""The requests of the classic protocol and their results, free of any wire format."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode
from headwater.ids import GroupId, MemberId

NO_GENERATION = -1


class Join(NamedTuple):
    member_id: MemberId
    # Given to the member if it has no id yet.
    new_member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[SupportedProtocol]
    # From version 4 on a new member is first told its id and then joins with it, so that a client which gives up
    # waiting leaves no ghost member behind.
    is_member_id_required: bool
    # From version 9 on a leader may be told that no new assignment is needed.
    may_skip_assignment: bool
    reason: str = ""


class JoinedMember(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    member_id: MemberId
    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: MemberId = NO_MEMBER
    skip_assignment: bool = False
    # Filled in for the leader only.
    members: Sequence[JoinedMember] = ()


class Sync(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    generation: int
    # Both None in versions of the request that lack them.
    protocol_type: str | None
    protocol: str | None
    # From the leader: the assignment of each member.
    assignments: Mapping[MemberId, bytes]


class SyncResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Leave(NamedTuple):
    """One member of a LeaveGroup request."""

    member_id: MemberId
    instance_id: str | None
    reason: str = ""


class LeaveResult(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    error: ErrorCode


class ClassicMemberDescription(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    client_id: str
    client_host: str
    # Both empty unless the group is stable.
    metadata: bytes
    assignment: bytes


class ClassicDescription(NamedTuple):
    group_id: GroupId
    state: GroupState
    protocol_type: str
    protocol: str
    members: Sequence[ClassicMemberDescription]
