"""OffsetDelete (key 47): forgets what a group committed for partitions that none of its members subscribes to."""

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
    asked = [
        TopicPartition(TopicName(topic.name), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    is_known = [_is_known(each, context) for each in asked]
    outcome = await context.broker.groups.delete_offsets(
        GroupId(request.group_id), list(compress(asked, is_known))
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


def _is_known(asked: TopicPartition, context: Context) -> bool:
    topic = context.broker.topics.find(asked.topic)
    return topic is not None and 0 <= asked.partition < topic.partition_count
