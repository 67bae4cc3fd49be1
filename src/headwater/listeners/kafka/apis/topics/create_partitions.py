"""CreatePartitions (key 37): a topic may grow, never shrink."""

from collections import Counter

from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

REQUEST = CreatePartitionsRequest


async def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    count = Counter(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            await _add(topic, count[topic.name], context, validate_only=request.validate_only)
            for topic in request.topics
        ]
    )


async def _add(
    asked: CreatePartitionsTopic, times_named: int, context: Context, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    try:
        if times_named > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"topic '{asked.name}' is named twice in the request")
        _check(asked, context)
        await context.broker.add_partitions(asked.name, asked.count, validate_only=validate_only)
    except HeadwaterError as error:
        return CreatePartitionsTopicResult(name=asked.name, error_code=error.code, error_message=str(error))
    return CreatePartitionsTopicResult(name=asked.name)


def _check(asked: CreatePartitionsTopic, context: Context) -> None:
    config = context.broker.config
    before = context.broker.catalog.topics.existing(asked.name).partition_count
    if asked.count - before > config.headwater_create_partitions_max:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{asked.count - before} partitions at once are more than {config.headwater_create_partitions_max} "
            "(headwater.create.partitions.max)",
        )
    if asked.assignments is None:
        return
    if len(asked.assignments) != asked.count - before:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{asked.count - before} partitions are added, {len(asked.assignments)} are assigned",
        )
    if any(assignment.broker_ids != [config.node_id] for assignment in asked.assignments):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions must be on broker {config.node_id}, the only one"
        )
