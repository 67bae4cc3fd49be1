"""LeaveGroup (key 13), v0-5: removes members from a classic group. v3 lets many leave at once, static members by their
instance id; v4 is flexible, v5 adds the reason."""

from collections.abc import Sequence

from headwater.broker.pending import Pending
from headwater.coordination.groups.classic.commands import Leave, LeaveResult
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from headwater.security.acl import Operation, group

REQUEST = LeaveGroupRequest

FIRST_VERSION_WITH_MANY = 3


def handle(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
    is_single = context.api_version < FIRST_VERSION_WITH_MANY
    respond = _single_response if is_single else _response
    denial = context.guard.denial(Operation.READ, group(request.group_id))
    if denial is not None:
        return respond(denial)
    leaving = (
        [Leave(MemberId(request.member_id), None)]
        if is_single
        else [
            Leave(MemberId(member.member_id), member.group_instance_id, member.reason or "")
            for member in request.members
        ]
    )
    outcome = context.broker.groups.leave(GroupId(request.group_id), leaving)
    return outcome.map(respond)


def _single_response(outcome: Sequence[LeaveResult] | HeadwaterError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=outcome.code if isinstance(outcome, HeadwaterError) else outcome[0].error)


def _response(outcome: Sequence[LeaveResult] | HeadwaterError) -> LeaveGroupResponse:
    if isinstance(outcome, HeadwaterError):
        return LeaveGroupResponse(error_code=outcome.code, members=[])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=left.member_id, group_instance_id=left.instance_id, error_code=left.error)
            for left in outcome
        ]
    )
