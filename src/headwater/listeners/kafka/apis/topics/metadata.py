"""Metadata (key 3), v0-13: the brokers, and the leader of each partition; creates topics on first use if that is
switched on.

In v0 an empty list means all topics, from v1 on null does. v4 lets the client forbid the creation, v7 adds leader
epochs, v9 is flexible, v10 adds topic ids, v12 topics that are named by id alone, v13 an error for the whole."""

from collections.abc import Iterable
from uuid import UUID

from headwater.broker.audit.event import EventType
from headwater.broker.ports.leadership import NO_LEADER, PartitionReplicas
from headwater.broker.topics import Topic
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.metadata import (
    NO_AUTHORIZED_OPERATIONS,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import topic as named

REQUEST = MetadataRequest

FIRST_VERSION_WITH_NULL_NAME = 12


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    broker = context.broker
    leadership = broker.leadership
    if request.topics is None or (context.api_version == 0 and not request.topics):
        guard = context.guard
        topics = [
            _describe(topic, request, context)
            for topic in broker.topics.all()
            if guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True)
        ]
    else:
        topics = [await _find(requested, request, context) for requested in _once_each(request.topics)]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack)
            for node in leadership.nodes(context.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=leadership.controller_id,
        topics=topics,
        cluster_authorized_operations=context.guard.operations(CLUSTER)
        if request.include_cluster_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )


def _once_each(requested: Iterable[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    return {(topic.name, topic.topic_id): topic for topic in requested}.values()


async def _find(requested: MetadataRequestTopic, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    topics, guard = context.broker.topics, context.guard
    if requested.topic_id != NO_TOPIC_ID:
        topic = topics.find_by_id(TopicId(requested.topic_id))
        if topic is None:
            return _unnamed(requested.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, context)
        denial = guard.denial(Operation.DESCRIBE, named(topic.name))
        if denial is not None:
            return _unnamed(requested.topic_id, denial.code, context)
        return _describe(topic, request, context)
    name = requested.name or ""
    # Before anything else: an error must not tell whether the topic exists.
    denial = guard.denial(Operation.DESCRIBE, named(name))
    if denial is not None:
        return MetadataResponseTopic(error_code=denial.code, name=name, partitions=[])
    topic = topics.find(name)
    if topic is not None:
        return _describe(topic, request, context)
    # A new topic is not described yet: as in Kafka, the client finds it when it asks again.
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        topics.check_name(name)
        if request.allow_auto_topic_creation and topics.is_created_on_first_use:
            guard.check_creates_topic(name)
            with guard.change(EventType.TOPIC_CREATE, str(named(name)), {"by": "first use"}):
                await topics.create_on_first_use(name)
    except HeadwaterError as refusal:
        error = refusal.code
    return MetadataResponseTopic(
        error_code=error, name=name, partitions=[], topic_authorized_operations=_operations(name, request, context)
    )


def _unnamed(topic_id: UUID, code: ErrorCode, context: Context) -> MetadataResponseTopic:
    name = None if context.api_version >= FIRST_VERSION_WITH_NULL_NAME else ""
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _operations(name: str, request: MetadataRequest, context: Context) -> int:
    if request.include_topic_authorized_operations:
        return context.guard.operations(named(name))
    return NO_AUTHORIZED_OPERATIONS


def _describe(topic: Topic, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    leadership = context.broker.leadership
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(index, leadership.replicas_of(TopicPartition(topic.name, index)))
            for index in range(topic.partition_count)
        ],
        topic_authorized_operations=_operations(topic.name, request, context),
    )


def _partition(index: int, replicas: PartitionReplicas) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if replicas.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=replicas.leader,
        leader_epoch=replicas.leader_epoch,
        replica_nodes=list(replicas.replicas),
        isr_nodes=list(replicas.in_sync),
        offline_replicas=list(replicas.offline),
    )
