"""SyncGroup (key 14), v0-5: the leader of a classic group hands in the assignment, and each member waits for its part.

v3 adds static members, v4 is flexible, v5 names the protocol that the client expects."""

from headwater.broker.pending import Pending
from headwater.coordination.groups.classic.commands import Sync, SyncResult
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.security.acl import Operation, group

REQUEST = SyncGroupRequest

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | Pending[SyncGroupResponse]:
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    denial = context.guard.denial(Operation.READ, group(request.group_id))
    if denial is not None:
        return _response(denial)
    sync = Sync(
        member_id=MemberId(request.member_id),
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={MemberId(each.member_id): bytes(each.assignment) for each in request.assignments},
    )
    return context.broker.groups.sync(GroupId(request.group_id), sync).map(_response, is_abandonable=True)


def _response(outcome: SyncResult | HeadwaterError) -> SyncGroupResponse:
    if isinstance(outcome, HeadwaterError):
        return SyncGroupResponse(error_code=outcome.code)
    return SyncGroupResponse(
        error_code=outcome.error,
        protocol_type=outcome.protocol_type,
        protocol_name=outcome.protocol,
        assignment=outcome.assignment,
    )
