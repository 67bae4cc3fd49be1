"""OffsetDelete (key 47), v0: forgets the offsets of a group for partitions to which none of its members subscribes."""

from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.security.acl import Operation, group
from headwater.security.acl import topic as named

REQUEST = OffsetDeleteRequest


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    denial = context.guard.denial(Operation.DELETE, group(request.group_id))
    if denial is not None:
        return OffsetDeleteResponse(error_code=denial.code, topics=[])
    requested = [
        TopicPartition(TopicName(topic.name), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    refusals = [_refusal(each, context) for each in requested]
    outcome = await context.broker.groups.delete_offsets(
        GroupId(request.group_id),
        [each for each, refusal in zip(requested, refusals, strict=True) if not refusal],
    ).wait()
    error = outcome if isinstance(outcome, HeadwaterError) else None
    context.guard.changed(EventType.OFFSETS_DELETE, str(group(request.group_id)), error)
    if isinstance(outcome, HeadwaterError):
        return OffsetDeleteResponse(error_code=outcome.code, topics=[])
    decided = iter(outcome)
    codes = (refusal or next(decided) for refusal in refusals)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=next(codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refusal(requested: TopicPartition, context: Context) -> ErrorCode:
    denial = context.guard.denial(Operation.READ, named(requested.topic))
    if denial is not None:
        return denial.code
    topic = context.broker.topics.find(requested.topic)
    if topic is None or not 0 <= requested.partition < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
