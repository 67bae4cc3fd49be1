"""DescribeSchedule (key 10010), v0, Headwater's own: how many records of topics are scheduled."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.schedule.describe_schedule import (
    DescribeScheduleRequest,
    DescribeScheduleResponse,
    SchedulePartition,
    ScheduleTopic,
)
from headwater.security.acl import Operation, topic

REQUEST = DescribeScheduleRequest


async def handle(request: DescribeScheduleRequest, context: Context) -> DescribeScheduleResponse:
    if request.topics is not None:
        return DescribeScheduleResponse(
            topics=[await _described(name, context) for name in dict.fromkeys(request.topics)]
        )
    topics: list[ScheduleTopic] = []
    for found in tuple(context.broker.topics.all()):
        if context.guard.allows(Operation.DESCRIBE, topic(found.name), is_probe=True):
            described = await _described(found.name, context)
            if described.partitions or described.error_code:
                topics.append(described)
    return DescribeScheduleResponse(topics=topics)


async def _described(name: str, context: Context) -> ScheduleTopic:
    try:
        context.guard.check(Operation.DESCRIBE, topic(name))
        statuses = await context.broker.schedule.administration.statuses(name)
    except HeadwaterError as error:
        return ScheduleTopic(name=name, error_code=error.code, error_message=str(error), partitions=[])
    return ScheduleTopic(
        name=name,
        partitions=[
            SchedulePartition(
                partition_index=each.target.partition,
                pending_count=each.pending_count,
                size_bytes=each.size_bytes,
                next_due_ms=each.next_due_ms,
            )
            for each in statuses
        ],
    )
