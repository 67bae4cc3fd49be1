"""DescribeTopicPartitions (key 75): metadata in pages, sorted by topic, each resumed from a cursor."""

from headwater.broker.partition import Partition
from headwater.coordination.catalog.topic_names import check_topic_name
from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

REQUEST = DescribeTopicPartitionsRequest

PAGE_MAX = 2000
NO_LEADER = -1


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    catalog = context.broker.catalog
    asked = {topic.name for topic in request.topics} or set(catalog.topics.by_name)
    cursor = request.cursor
    names = sorted(name for name in asked if cursor is None or name >= cursor.topic_name)
    left = max(1, min(request.response_partition_limit, PAGE_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if left <= 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        first = max(0, cursor.partition_index) if cursor is not None and cursor.topic_name == name else 0
        described = _describe(name, first, left, context)
        topics.append(described)
        left -= len(described.partitions)
        partitions = context.broker.catalog.partitions
        topic = context.broker.topic(name)
        following = first + len(described.partitions)
        if topic is not None and following < len(partitions[topic.name]):
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=following)
            )
    return DescribeTopicPartitionsResponse(topics=topics)


def _describe(name: str, first: int, count_max: int, context: Context) -> DescribeTopicPartitionsResponseTopic:
    broker = context.broker
    topic = broker.topic(name)
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            check_topic_name(name)
        except HeadwaterError as refusal:
            error = refusal.code
        return DescribeTopicPartitionsResponseTopic(error_code=error, name=name, partitions=[])
    page = broker.catalog.partitions[topic.name][first : first + count_max]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name.startswith("__"),
        partitions=[_partition(partition, broker.config.node_id) for partition in page],
    )


def _partition(partition: Partition, node_id: int) -> DescribeTopicPartitionsResponsePartition:
    is_online = partition.log.failure is None
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if is_online else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.id.partition,
        leader_id=node_id if is_online else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id] if is_online else [],
        # The Java client takes null for a list, and fails on it.
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[] if is_online else [node_id],
    )
