"""ReadShareGroupStateSummary (key 87), v0-1: where share groups begin; v1 adds how many records are done with."""

from headwater.broker.shards.shard import Outcome
from headwater.coordination.shares.commands import ShareStatus
from headwater.coordination.shares.terms import COMPLETE_COUNT_MAX, NOT_BEGUN
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_states import answers, error_of
from headwater.protocol.messages.shares.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

REQUEST = ReadShareGroupStateSummaryRequest


async def handle(request: ReadShareGroupStateSummaryRequest, context: Context) -> ReadShareGroupStateSummaryResponse:
    leaders = context.broker.remote_share_leaders
    told = await answers(
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda share_id, _: leaders.summary(share_id),
        _answer,
        context,
    )
    return ReadShareGroupStateSummaryResponse(
        results=[ReadStateSummaryResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in told]
    )


def _answer(asked: PartitionData, outcome: Outcome[ShareStatus | None]) -> PartitionResult:
    if isinstance(outcome, HeadwaterError):
        return PartitionResult(partition=asked.partition, **error_of(outcome))
    if outcome is None:
        return PartitionResult(partition=asked.partition, start_offset=NOT_BEGUN)
    return PartitionResult(
        partition=asked.partition,
        state_epoch=outcome.state_epoch,
        leader_epoch=outcome.leader_epoch,
        start_offset=outcome.start_offset,
        delivery_complete_count=min(outcome.complete_count, COMPLETE_COUNT_MAX)
        if outcome.start_offset != NOT_BEGUN
        else -1,
    )
