"""Metadata (key 3): who leads what; creates topics on first use where that is switched on."""

from collections.abc import Iterable
from uuid import UUID

from headwater.broker.broker import Broker
from headwater.coordination.catalog.events import Topic
from headwater.coordination.catalog.topic_names import check_topic_name, is_internal
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, TopicId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

REQUEST = MetadataRequest

NO_LEADER = -1
FIRST_VERSION_WITH_NULL_NAME = 12


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    broker = context.broker
    node_id = broker.config.node_id
    host, port = context.advertised
    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = [_describe(topic, broker) for topic in broker.catalog.topics.by_name.values()]
    else:
        topics = [
            await _find(asked, request.allow_auto_topic_creation, context) for asked in _once_each(request.topics)
        ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=broker.config.broker_rack)],
        cluster_id=broker.cluster_id,
        controller_id=node_id,
        topics=topics,
    )


def _once_each(asked: Iterable[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    return {(topic.name, topic.topic_id): topic for topic in asked}.values()


async def _find(asked: MetadataRequestTopic, may_create: bool, context: Context) -> MetadataResponseTopic:
    broker = context.broker
    if asked.topic_id != NO_TOPIC_ID:
        topic = broker.topic_by_id(TopicId(asked.topic_id))
        return _describe(topic, broker) if topic is not None else _unknown_id(asked.topic_id, context)
    name = asked.name or ""
    topic = broker.topic(name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        try:
            check_topic_name(name)
            if may_create and broker.config.auto_create_topics_enable:
                topic = await broker.create_topic(name, broker.config.num_partitions, {})
        except HeadwaterError as refusal:
            error = refusal.code
            # Somebody else asked for it at the same time, and was first.
            topic = broker.topic(name)
    if topic is not None:
        return _describe(topic, broker)
    return MetadataResponseTopic(error_code=error, name=name, partitions=[])


def _unknown_id(topic_id: UUID, context: Context) -> MetadataResponseTopic:
    name = None if context.api_version >= FIRST_VERSION_WITH_NULL_NAME else ""
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=topic_id, partitions=[])


def _describe(topic: Topic, broker: Broker) -> MetadataResponseTopic:
    nodes = [broker.config.node_id]
    partitions: list[MetadataResponsePartition] = []
    for index, partition in enumerate(broker.catalog.partitions[topic.name]):
        is_online = partition.log.failure is None
        partitions.append(
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if is_online else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=nodes[0] if is_online else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=nodes,
                isr_nodes=nodes if is_online else [],
                offline_replicas=[] if is_online else nodes,
            )
        )
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name), partitions=partitions
    )
