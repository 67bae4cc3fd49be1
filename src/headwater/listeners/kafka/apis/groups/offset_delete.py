"""OffsetDelete (key 47), v0: forgets the offsets of a group for partitions to which none of its members subscribes."""

from itertools import compress

from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

REQUEST = OffsetDeleteRequest


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    requested = [
        TopicPartition(TopicName(topic.name), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    is_known = [_is_known(each, context) for each in requested]
    outcome = await context.broker.groups.delete_offsets(
        GroupId(request.group_id), list(compress(requested, is_known))
    ).wait()
    if isinstance(outcome, HeadwaterError):
        return OffsetDeleteResponse(error_code=outcome.code, topics=[])
    decided = iter(outcome)
    codes = (next(decided) if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for known in is_known)
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


def _is_known(requested: TopicPartition, context: Context) -> bool:
    topic = context.broker.topics.find(requested.topic)
    return topic is not None and 0 <= requested.partition < topic.partition_count
