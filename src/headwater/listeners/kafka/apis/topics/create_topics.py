"""CreateTopics (key 19): each topic succeeds or fails by itself."""

import asyncio
from collections import Counter

from headwater.broker.broker import IN_SYNC_REPLICAS
from headwater.config.topic import describe
from headwater.coordination.catalog.events import Topic
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

REQUEST = CreateTopicsRequest

NOT_GIVEN = -1


async def handle(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    count = Counter(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            await _create(topic, count[topic.name], context, validate_only=request.validate_only)
            # A name that is given twice is refused once.
            for topic in {topic.name: topic for topic in request.topics}.values()
        ]
    )


async def _create(
    asked: CreatableTopic, times_named: int, context: Context, *, validate_only: bool
) -> CreatableTopicResult:
    broker = context.broker
    # A topic that is only validated waits for nothing, and there may be thousands.
    await asyncio.sleep(0)
    try:
        if times_named > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"topic '{asked.name}' is named twice in the request")
        partition_count = _partition_count(asked, context)
        overrides = _overrides(asked)
        topic = await broker.create_topic(asked.name, partition_count, overrides, validate_only=validate_only)
    except HeadwaterError as error:
        return CreatableTopicResult(name=asked.name, error_code=error.code, error_message=str(error))
    return _created(topic, context)


def _partition_count(asked: CreatableTopic, context: Context) -> int:
    config = context.broker.config
    if asked.assignments:
        if asked.num_partitions != NOT_GIVEN or asked.replication_factor != NOT_GIVEN:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, "a replica assignment excludes a number of partitions and replicas"
            )
        _check_assignments(asked, config.node_id)
        return len(asked.assignments)
    if asked.replication_factor not in (NOT_GIVEN, IN_SYNC_REPLICAS):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {asked.replication_factor} needs as many brokers, and there is 1",
        )
    count = config.num_partitions if asked.num_partitions == NOT_GIVEN else asked.num_partitions
    if count > config.headwater_create_partitions_max:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{count} partitions at once are more than {config.headwater_create_partitions_max} "
            "(headwater.create.partitions.max)",
        )
    return count


def _check_assignments(asked: CreatableTopic, node_id: int) -> None:
    indexes = sorted(assignment.partition_index for assignment in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 on, each exactly once")
    for assignment in asked.assignments:
        if assignment.broker_ids != [node_id]:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} must be on broker {node_id}, the only one there is",
            )


def _overrides(asked: CreatableTopic) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} has no value")
        overrides[config.name] = config.value
    return overrides


def _created(topic: Topic, context: Context) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=IN_SYNC_REPLICAS,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe(topic.overrides, context.broker.config)
        ],
    )
