"""DescribeQueue (key 10023), v0, Headwater's own: how far a share group is in each partition."""

from headwater.errors import HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.describe_queue import (
    DescribeQueueRequest,
    DescribeQueueResponse,
    QueuePartition,
)

REQUEST = DescribeQueueRequest

NO_AGE = -1


async def handle(request: DescribeQueueRequest, context: Context) -> DescribeQueueResponse:
    try:
        stats = await context.broker.shares.queue_views.stats(context.guard, GroupId(request.group_id), request.topics)
    except HeadwaterError as error:
        return DescribeQueueResponse(error_code=error.code, error_message=str(error), partitions=[])
    return DescribeQueueResponse(
        partitions=[
            QueuePartition(
                topic=each.where.topic,
                partition=each.where.partition,
                start_offset=each.start_offset,
                end_offset=each.end_offset,
                backlog=each.backlog,
                held=each.held,
                waiting=each.waiting,
                oldest_age_ms=NO_AGE if each.oldest_age_ms is None else each.oldest_age_ms,
                deliveries=each.tally.deliveries,
                accepted=each.tally.accepted,
                archived=each.tally.archived,
            )
            for each in stats
        ]
    )
