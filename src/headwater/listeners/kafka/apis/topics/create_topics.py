"""CreateTopics (key 19), v2-7: creates topics; each succeeds or fails on its own.

v5 is flexible and adds the settings in effect to the reply, v7 the topic id."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from headwater.broker.audit.event import EventType
from headwater.broker.config_resources import ResourceType
from headwater.broker.topics import Topic
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NodeId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

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
    requested: CreatableTopic, times_named: int, context: Context, *, validate_only: bool
) -> CreatableTopicResult:
    # Serve other clients in between: a topic that is only validated never waits, and there may be thousands.
    await asyncio.sleep(0)
    try:
        if times_named > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"topic '{requested.name}' is named twice in the request")
        guard = context.guard
        guard.check_creates_topic(requested.name)
        overrides, assignments = _overrides(requested), _assignments(requested)
        # A validation changes nothing.
        with nullcontext() if validate_only else guard.change(EventType.TOPIC_CREATE, str(named(requested.name))):
            topic = await context.broker.topics.create(
                requested.name,
                overrides,
                partition_count=_given(requested.num_partitions),
                replication_factor=_given(requested.replication_factor),
                assignments=assignments,
                validate_only=validate_only,
            )
    except HeadwaterError as error:
        return CreatableTopicResult(name=requested.name, error_code=error.code, error_message=str(error))
    return _created(topic, context)


def _given(number: int) -> int | None:
    return None if number == NOT_GIVEN else number


def _assignments(requested: CreatableTopic) -> Mapping[int, Sequence[NodeId]]:
    indexes = Counter(assignment.partition_index for assignment in requested.assignments)
    repeated = [index for index, times in indexes.items() if times > 1]
    if repeated:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partition {repeated[0]} of topic '{requested.name}' is assigned twice",
        )
    return {each.partition_index: list(map(NodeId, each.broker_ids)) for each in requested.assignments}


def _overrides(requested: CreatableTopic) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for config in requested.configs:
        if config.value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} has no value")
        overrides[config.name] = config.value
    return overrides


def _created(topic: Topic, context: Context) -> CreatableTopicResult:
    broker = context.broker
    denial = context.guard.denial(Operation.DESCRIBE_CONFIGS, named(topic.name))
    if denial is not None:
        # The topic is created, and its settings are not shown.
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.id,
            error_message=None,
            topic_config_error_code=denial.code,
            num_partitions=NOT_GIVEN,
            replication_factor=NOT_GIVEN,
            configs=[],
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=broker.topics.replication_factor(topic),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in broker.configs.describe_overridden(ResourceType.TOPIC, topic.overrides)
        ],
    )
