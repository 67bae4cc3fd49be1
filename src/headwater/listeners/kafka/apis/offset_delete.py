"""OffsetDelete (key 47): forgets what a group committed for partitions that none of its members subscribes to."""

from headwater.errors import HeadwaterError
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

REQUEST = OffsetDeleteRequest


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    partitions = [
        TopicPartition(TopicName(topic.name), each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    outcome = await context.broker.groups.delete_offsets(GroupId(request.group_id), partitions).wait()
    if isinstance(outcome, HeadwaterError):
        return OffsetDeleteResponse(error_code=outcome.code, topics=[])
    codes = iter(outcome)
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
