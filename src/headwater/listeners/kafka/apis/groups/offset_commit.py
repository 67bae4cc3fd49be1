"""OffsetCommit (key 8), v2-10: commits offsets of a group. Like every decision of a group, it is on disk before the
reply.

v5 drops the retention time, v6 adds leader epochs, v7 static members, v8 is flexible, v9 takes member epochs of the
consumer protocol, v10 names topics by id."""

from collections.abc import Iterable, Sequence
from itertools import repeat

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
from headwater.security.acl import Operation, group
from headwater.security.acl import topic as named

REQUEST = OffsetCommitRequest

FIRST_VERSION_WITH_EPOCHS = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10
NO_RETENTION = -1


def handle(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
    guard = context.guard
    denial = None if guard.is_open else guard.denial(Operation.READ, group(request.group_id))
    if denial is not None:
        return _response(request, repeat(None), denial)
    offsets: list[OffsetToCommit] = []
    # One for each partition of the request; None where the group decides.
    refusals: list[ErrorCode | None] = []
    for requested in request.topics:
        topic = _topic(requested, context)
        # Before anything about a name: an error must not tell whether the topic exists.
        name = requested.name if topic is None else topic.name
        is_denied = bool(name) and not guard.is_open and not guard.allows(Operation.READ, named(name))
        for each in requested.partitions:
            if is_denied:
                refusals.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                continue
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


def _topic(requested: OffsetCommitRequestTopic, context: Context) -> Topic | None:
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return context.broker.topics.find_by_id(TopicId(requested.topic_id))
    return context.broker.topics.find(requested.name)


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
                name=requested.name,
                topic_id=requested.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=next(codes))
                    for each in requested.partitions
                ],
            )
            for requested in request.topics
        ]
    )
