"""ShareGroupHeartbeat (key 76), v1: a member of a share group joins, gets its assignment, stays, leaves."""

from headwater.broker.pending import Pending
from headwater.coordination.groups.assignment import Assignment as Partitions
from headwater.coordination.groups.share.commands import ShareAnswer, ShareHeartbeat
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId, TopicName
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.security.acl import Operation, group, topic

REQUEST = ShareGroupHeartbeatRequest


def handle(
    request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse | Pending[ShareGroupHeartbeatResponse]:
    names = request.subscribed_topic_names
    try:
        context.guard.check(Operation.READ, group(request.group_id))
        for name in names or ():
            context.guard.check(Operation.DESCRIBE, topic(name))
    except HeadwaterError as denial:
        return _response(denial)
    heartbeat = ShareHeartbeat(
        member_id=MemberId(request.member_id),
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=None if names is None else tuple(map(TopicName, names)),
        client_id=context.client_id or "",
        client_host=context.client_host,
    )
    return context.broker.groups.share_heartbeat(GroupId(request.group_id), heartbeat).map(_response)


def _response(outcome: ShareAnswer | HeadwaterError) -> ShareGroupHeartbeatResponse:
    if isinstance(outcome, HeadwaterError):
        return ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=str(outcome))
    return ShareGroupHeartbeatResponse(
        member_id=outcome.member_id,
        member_epoch=outcome.epoch,
        heartbeat_interval_ms=outcome.heartbeat_interval_ms,
        assignment=None if outcome.assignment is None else _assignment(outcome.assignment),
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in partitions.items()
        ]
    )
