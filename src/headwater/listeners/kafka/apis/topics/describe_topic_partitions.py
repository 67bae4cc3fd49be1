"""DescribeTopicPartitions (key 75), v0, flexible: metadata in pages, sorted by topic, each resumed from a cursor."""

from collections.abc import Sequence

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
    guard, cursor = context.guard, request.cursor
    requested = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (requested and cursor.topic_name not in requested)):
        return DescribeTopicPartitionsResponse(
            topics=[_refused(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics]
        )
    names = requested or {topic.name for topic in context.broker.topics.all()}
    names = {name for name in names if cursor is None or name >= cursor.topic_name}
    shown = {name for name in names if guard.allows(Operation.DESCRIBE, named(name), is_probe=not requested)}
    page = _page(sorted(shown), request, context)
    if requested:
        # Outside of the page and its cursor, which would tell whether the topic exists.
        page.topics.extend(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in sorted(names - shown))
    return page


def _page(
    names: Sequence[str], request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    left = max(1, min(request.response_partition_limit, PAGE_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if left <= 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = _describe(name, first, left, context)
        topics.append(described)
        left -= len(described.partitions)
        topic = context.broker.topics.find(name)
        following = first + len(described.partitions)
        if topic is not None and following < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=following)
            )
    return DescribeTopicPartitionsResponse(topics=topics)


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, partitions=[])


def _describe(name: str, first: int, count_max: int, context: Context) -> DescribeTopicPartitionsResponseTopic:
    topics, leadership = context.broker.topics, context.broker.leadership
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
