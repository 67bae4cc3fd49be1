"""OffsetCommit (key 8): how far a group has come. On disk before it is answered, as whatever a group decides."""

from collections.abc import Iterable, Sequence

from headwater.broker.pending import Pending
from headwater.coordination.catalog.events import Topic
from headwater.coordination.groups.offsets.commands import Commit, OffsetToCommit
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, MemberId, TopicId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

REQUEST = OffsetCommitRequest

FIRST_VERSION_WITH_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10
NO_RETENTION = -1


def handle(request: OffsetCommitRequest, context: Context) -> Pending[OffsetCommitResponse]:
    offsets: list[OffsetToCommit] = []
    # One for each partition asked for; None where the group has the last word.
    refusals: list[ErrorCode | None] = []
    for asked in request.topics:
        topic = _topic(asked, context)
        for each in asked.partitions:
            if topic is None or not 0 <= each.partition_index < topic.partition_count:
                refusals.append(_unknown(topic, context))
                continue
            refusals.append(None)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    topic.id,
                )
            )
    commit = Commit(
        member_id=MemberId(request.member_id),
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
        retention_ms=None if request.retention_time_ms == NO_RETENTION else request.retention_time_ms,
        knows_epochs=context.api_version >= FIRST_VERSION_WITH_EPOCHS,
    )
    outcome = context.broker.groups.commit(GroupId(request.group_id), commit)
    return outcome.map(lambda codes: _response(request, refusals, codes))


def _topic(asked: OffsetCommitRequestTopic, context: Context) -> Topic | None:
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return context.broker.topics.find_by_id(TopicId(asked.topic_id))
    return context.broker.topics.find(asked.name)


def _unknown(topic: Topic | None, context: Context) -> ErrorCode:
    if topic is None and context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _response(
    request: OffsetCommitRequest,
    refusals: Iterable[ErrorCode | None],
    outcome: Sequence[ErrorCode] | HeadwaterError,
) -> OffsetCommitResponse:
    decided = iter(()) if isinstance(outcome, HeadwaterError) else iter(outcome)
    refusal = outcome.code if isinstance(outcome, HeadwaterError) else ErrorCode.NONE
    codes = (next(decided, refusal) if refused is None else refused for refused in refusals)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=next(codes))
                    for each in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )
