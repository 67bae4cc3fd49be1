"""DeleteShareGroupOffsets (key 92), v0: a share group without members forgets what it did with whole topics."""

from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from headwater.security.acl import Operation, group
from headwater.security.acl import topic as named

REQUEST = DeleteShareGroupOffsetsRequest


async def handle(request: DeleteShareGroupOffsetsRequest, context: Context) -> DeleteShareGroupOffsetsResponse:
    group_id = GroupId(request.group_id)
    error = context.guard.denial(Operation.DELETE, group(group_id))
    if error is None:
        error = await context.broker.groups.check_empty_share_group(group_id).wait()
    context.guard.changed(EventType.OFFSETS_DELETE, str(group(group_id)), error)
    if error is not None:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=str(error), responses=[])
    return DeleteShareGroupOffsetsResponse(
        responses=[await _topic(each.topic_name, group_id, context) for each in request.topics]
    )


async def _topic(name: str, group_id: GroupId, context: Context) -> DeleteShareGroupOffsetsResponseTopic:
    broker = context.broker
    error: HeadwaterError | None = context.guard.denial(Operation.READ, named(name))
    topic = None if error is not None else broker.topics.find(name)
    if topic is not None:
        try:
            await broker.shares.forget(group_id, topic.id)
        except HeadwaterError as refusal:
            error = refusal
    elif error is None:
        error = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name[:249]}'")
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=NO_TOPIC_ID if topic is None else topic.id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else str(error),
    )
