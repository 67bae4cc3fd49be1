"""DescribeShareGroupOffsets (key 90), v0-1: how far share groups are. v1 adds the lag: what is not done with yet."""

from collections.abc import Mapping, Sequence

from headwater.broker.pending import result_of
from headwater.coordination.catalog.events import Topic
from headwater.coordination.shares.commands import ShareStatus
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, GroupId, TopicId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headwater.security.acl import Operation, group
from headwater.security.acl import topic as named

REQUEST = DescribeShareGroupOffsetsRequest

NOT_BEGUN = -1


async def handle(request: DescribeShareGroupOffsetsRequest, context: Context) -> DescribeShareGroupOffsetsResponse:
    # Once each: a request that names a group a thousand times must not get its offsets a thousand times.
    once = {requested.group_id: requested for requested in request.groups}
    return DescribeShareGroupOffsetsResponse(groups=[await _group(each, context) for each in once.values()])


async def _group(
    requested: DescribeShareGroupOffsetsRequestGroup, context: Context
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = GroupId(requested.group_id)
    error = context.guard.denial(Operation.DESCRIBE, group(group_id))
    statuses: Sequence[ShareStatus] = ()
    if error is None:
        found = await result_of(context.broker.groups.describe_share(group_id))
        error = found if isinstance(found, HeadwaterError) else None
    if error is None:
        try:
            statuses = await context.broker.shares.statuses(group_id)
        except HeadwaterError as refusal:
            error = refusal
    if error is not None:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=[], error_code=error.code, error_message=str(error)
        )
    by_id = {status.id: status for status in statuses}
    if requested.topics is None:
        topics = _all_topics(by_id, context)
    else:
        topics = [_topic(each.topic_name, each.partitions, group_id, by_id, context) for each in requested.topics]
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)


def _all_topics(
    by_id: Mapping[SharePartitionId, ShareStatus], context: Context
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    by_topic: dict[TopicId, tuple[Topic, list[ShareStatus]]] = {}
    for share_id in sorted(by_id):
        topic = context.broker.topics.find_by_id(share_id.topic_id)
        if topic is not None and context.guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True):
            by_topic.setdefault(topic.id, (topic, []))[1].append(by_id[share_id])
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.name,
            topic_id=topic.id,
            partitions=[_partition(topic, status.id.partition, status, context) for status in statuses],
        )
        for topic, statuses in by_topic.values()
    ]


def _topic(
    name: str,
    partitions: Sequence[int],
    group_id: GroupId,
    by_id: Mapping[SharePartitionId, ShareStatus],
    context: Context,
) -> DescribeShareGroupOffsetsResponseTopic:
    denial = context.guard.denial(Operation.DESCRIBE, named(name))
    topic = context.broker.topics.find(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE
    if denial is not None:
        code = denial.code
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=NO_TOPIC_ID if topic is None or code else topic.id,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=NOT_BEGUN, leader_epoch=0, error_code=code
            )
            if topic is None or code
            else _partition(topic, index, by_id.get(SharePartitionId(group_id, topic.id, index)), context)
            for index in partitions
        ],
    )


def _partition(
    topic: Topic, index: int, status: ShareStatus | None, context: Context
) -> DescribeShareGroupOffsetsResponsePartition:
    if status is None:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NOT_BEGUN, leader_epoch=0)
    end_offset = context.broker.partition(topic.name, index).high_watermark
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=status.start_offset,
        leader_epoch=status.leader_epoch,
        lag=max(end_offset - status.start_offset - status.complete_count, 0),
    )
