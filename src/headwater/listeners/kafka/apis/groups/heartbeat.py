"""Heartbeat (key 12), v0-4: keeps a member of a classic group alive; the reply tells it whether the group rebalances.

v3 adds static members, v4 is flexible."""

from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.security.acl import Operation, group

REQUEST = HeartbeatRequest


def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse | Pending[HeartbeatResponse]:
    denial = context.guard.denial(Operation.READ, group(request.group_id))
    if denial is not None:
        return _response(denial)
    outcome = context.broker.groups.heartbeat(
        GroupId(request.group_id), MemberId(request.member_id), request.group_instance_id, request.generation_id
    )
    return outcome.map(_response)


def _response(outcome: ErrorCode | HeadwaterError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=outcome.code if isinstance(outcome, HeadwaterError) else outcome)
