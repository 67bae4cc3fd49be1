"""AlterShareGroupOffsets (key 91), v0: a share group without members begins again at these offsets."""

from headwater.broker.audit.event import EventType
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from headwater.security.acl import Operation, group
from headwater.security.acl import topic as named

REQUEST = AlterShareGroupOffsetsRequest


async def handle(request: AlterShareGroupOffsetsRequest, context: Context) -> AlterShareGroupOffsetsResponse:
    group_id = GroupId(request.group_id)
    error = context.guard.denial(Operation.READ, group(group_id))
    if error is None:
        error = await context.broker.groups.check_empty_share_group(group_id).wait()
    context.guard.changed(EventType.OFFSETS_DELETE, str(group(group_id)), error)
    if error is not None:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=str(error), responses=[])
    return AlterShareGroupOffsetsResponse(responses=[await _topic(each, group_id, context) for each in request.topics])


async def _topic(
    requested: AlterShareGroupOffsetsRequestTopic, group_id: GroupId, context: Context
) -> AlterShareGroupOffsetsResponseTopic:
    denial = context.guard.denial(Operation.READ, named(requested.topic_name))
    topic = context.broker.topics.find(requested.topic_name)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []
    for each in requested.partitions:
        error: HeadwaterError | None = denial
        if error is None:
            error = await _partition(requested.topic_name, each.partition_index, each.start_offset, group_id, context)
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else str(error),
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=requested.topic_name,
        topic_id=NO_TOPIC_ID if topic is None or denial is not None else topic.id,
        partitions=partitions,
    )


async def _partition(
    name: str, index: int, start_offset: int, group_id: GroupId, context: Context
) -> HeadwaterError | None:
    broker = context.broker
    try:
        partition = broker.partition(name, index)
        if start_offset < 0:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"a share group cannot begin at offset {start_offset}")
        share_id = SharePartitionId(group_id, broker.topics.existing(name).id, index)
        return await broker.shares.restart_at(share_id, start_offset, partition.leader_epoch)
    except HeadwaterError as refusal:
        return refusal
