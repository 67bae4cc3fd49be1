"""OffsetFetch (key 9), v1-10: the offsets that a group committed.

v2 can ask for all topics and adds an error for the whole group, v5 adds leader epochs, v6 is flexible, v7 can require
stable offsets, v8 takes many groups, v9 adds the member and its epoch, v10 names topics by id."""

from collections.abc import Iterable, Sequence

from headwater.broker.broker import Broker
from headwater.coordination.groups.offsets.commands import FoundOffset, OffsetQuery
from headwater.coordination.groups.offsets.events import CommittedOffset
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, TopicId, TopicName, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headwater.security.acl import Operation, group, topic

REQUEST = OffsetFetchRequest

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10

NOTHING_COMMITTED = CommittedOffset(-1, -1, "", -1)


async def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    if context.api_version >= FIRST_VERSION_WITH_MANY_GROUPS:
        # Once each: a request that names a group a thousand times must not get its offsets a thousand times.
        once = {requested.group_id: requested for requested in request.groups}
        groups = [await _group(requested, request.require_stable, context) for requested in once.values()]
        return OffsetFetchResponse(groups=groups)
    requested = None
    if request.topics is not None:
        requested = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = await _group(
        OffsetFetchRequestGroup(group_id=request.group_id, topics=requested), request.require_stable, context
    )
    topics = group.topics
    if group.error_code and context.api_version < FIRST_VERSION_WITH_GROUP_ERROR:
        topics = [_refused(topic, group.error_code) for topic in requested or ()]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


async def _group(
    requested: OffsetFetchRequestGroup, require_stable: bool, context: Context
) -> OffsetFetchResponseGroup:
    has_ids = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    broker, guard = context.broker, context.guard
    denial = guard.denial(Operation.DESCRIBE, group(requested.group_id))
    if denial is not None:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=denial.code)
    # The name of each topic, or why the client is not told its offsets.
    names = [] if requested.topics is None else [_name(each, has_ids, context) for each in requested.topics]
    partitions = None
    if requested.topics is not None:
        partitions = [
            TopicPartition(name, index)
            for name, each in zip(names, requested.topics, strict=True)
            if isinstance(name, str)
            for index in each.partition_indexes
        ]
    outcome = await broker.groups.committed(
        GroupId(requested.group_id),
        OffsetQuery(
            partitions,
            None if requested.member_id is None else MemberId(requested.member_id),
            requested.member_epoch,
            require_stable,
        ),
    ).wait()
    if isinstance(outcome, HeadwaterError):
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=outcome.code)
    if requested.topics is None:
        shown = [
            each for each in outcome if guard.allows(Operation.DESCRIBE, topic(each.partition.topic), is_probe=True)
        ]
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=_all_topics(shown, has_ids, broker))
    offsets = iter(outcome)
    return OffsetFetchResponseGroup(
        group_id=requested.group_id,
        topics=[
            _topic(each, [next(offsets) for _ in each.partition_indexes])
            if isinstance(name, str)
            else _refused(each, name)
            for name, each in zip(names, requested.topics, strict=True)
        ],
    )


def _name(requested: OffsetFetchRequestTopics, has_ids: bool, context: Context) -> TopicName | ErrorCode:
    name = TopicName(requested.name)
    if has_ids:
        found = context.broker.topics.find_by_id(TopicId(requested.topic_id))
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = found.name
    denial = context.guard.denial(Operation.DESCRIBE, topic(name))
    return name if denial is None else denial.code


def _all_topics(offsets: Iterable[FoundOffset], has_ids: bool, broker: Broker) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[TopicName, list[FoundOffset]] = {}
    for found in offsets:
        by_topic.setdefault(found.partition.topic, []).append(found)
    topics: list[OffsetFetchResponseTopics] = []
    for name, partitions in by_topic.items():
        known = broker.topics.find(name)
        if known is not None or not has_ids:
            topic_id = NO_TOPIC_ID if known is None else known.id
            requested = OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[])
            topics.append(_topic(requested, partitions))
    return topics


def _topic(requested: OffsetFetchRequestTopics, offsets: Sequence[FoundOffset]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=[
            _partition(found.partition.partition, found.committed or NOTHING_COMMITTED, found.error)
            for found in offsets
        ],
    )


def _refused(requested: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=[_partition(index, NOTHING_COMMITTED, code) for index in requested.partition_indexes],
    )


def _partition(index: int, committed: CommittedOffset, code: int = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )
