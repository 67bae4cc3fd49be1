"""DescribeTopicPartitions (key 75), v0, flexible: metadata in pages, sorted by topic, each resumed from a cursor."""

from headwater.broker.ports.leadership import NO_LEADER, PartitionReplicas
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

REQUEST = DescribeTopicPartitionsRequest

PAGE_MAX = 2000


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    topics_known = context.broker.topics
    guard = context.guard
    requested = {topic.name for topic in request.topics} or {
        topic.name for topic in topics_known.all() if guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True)
    }
    cursor = request.cursor
    names = sorted(name for name in requested if cursor is None or name >= cursor.topic_name)
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
        topic = topics_known.find(name)
        following = first + len(described.partitions)
        if topic is not None and following < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=following)
            )
    return DescribeTopicPartitionsResponse(topics=topics)


def _describe(name: str, first: int, count_max: int, context: Context) -> DescribeTopicPartitionsResponseTopic:
    topics, leadership = context.broker.topics, context.broker.leadership
    denial = context.guard.denial(Operation.DESCRIBE, named(name))
    if denial is not None:
        return DescribeTopicPartitionsResponseTopic(error_code=denial.code, name=name, partitions=[])
    operations = context.guard.operations(named(name))
    topic = topics.find(name)
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            topics.check_name(name)
        except HeadwaterError as refusal:
            error = refusal.code
        return DescribeTopicPartitionsResponseTopic(
            error_code=error, name=name, partitions=[], topic_authorized_operations=operations
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(index, leadership.replicas_of(TopicPartition(topic.name, index)))
            for index in range(topic.partition_count)[first : first + count_max]
        ],
        topic_authorized_operations=operations,
    )


def _partition(index: int, replicas: PartitionReplicas) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if replicas.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=replicas.leader,
        leader_epoch=replicas.leader_epoch,
        replica_nodes=list(replicas.replicas),
        isr_nodes=list(replicas.in_sync),
        # The Java client fails on null lists, although the protocol allows them.
        eligible_leader_replicas=list(replicas.eligible),
        last_known_elr=[],
        offline_replicas=list(replicas.offline),
    )
