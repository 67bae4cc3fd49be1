"""Heartbeat (key 12): a member of a classic group is alive, and learns whether its group rebalances."""

from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest


def handle(request: HeartbeatRequest, context: Context) -> Pending[HeartbeatResponse]:
    outcome = context.broker.groups.heartbeat(
        GroupId(request.group_id), MemberId(request.member_id), request.group_instance_id, request.generation_id
    )
    return outcome.map(_response)


def _response(outcome: ErrorCode | HeadwaterError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=outcome.code if isinstance(outcome, HeadwaterError) else outcome)
