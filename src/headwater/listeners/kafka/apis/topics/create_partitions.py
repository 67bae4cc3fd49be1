"""CreatePartitions (key 37), v0-3: lets topics grow; they never shrink. v2 is flexible, v3 adds an error code for
quotas."""

from collections import Counter
from contextlib import nullcontext

from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NodeId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headwater.security.acl import Operation, topic

REQUEST = CreatePartitionsRequest


async def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    count = Counter(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            await _add(topic, count[topic.name], context, validate_only=request.validate_only)
            # A name that is given twice is refused once.
            for topic in {topic.name: topic for topic in request.topics}.values()
        ]
    )


async def _add(
    requested: CreatePartitionsTopic, times_named: int, context: Context, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    try:
        if times_named > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"topic '{requested.name}' is named twice in the request")
        context.guard.check(Operation.ALTER, topic(requested.name))
        assignments = requested.assignments
        change = context.guard.change(
            EventType.TOPIC_MODIFY, str(topic(requested.name)), {"partitions": str(requested.count)}
        )
        with nullcontext() if validate_only else change:
            await context.broker.topics.add_partitions(
                requested.name,
                requested.count,
                None if assignments is None else [list(map(NodeId, each.broker_ids)) for each in assignments],
                validate_only=validate_only,
            )
    except HeadwaterError as error:
        return CreatePartitionsTopicResult(name=requested.name, error_code=error.code, error_message=str(error))
    return CreatePartitionsTopicResult(name=requested.name)
