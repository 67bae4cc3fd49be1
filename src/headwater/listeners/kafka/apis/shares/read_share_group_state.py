"""ReadShareGroupState (key 84), v0: what a share group has done with a partition, for a broker that leads it."""

from headwater.broker.shards.shard import Outcome
from headwater.coordination.shares.state_requests import ReadState
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_states import answers, error_of
from headwater.protocol.messages.shares.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

REQUEST = ReadShareGroupStateRequest


async def handle(request: ReadShareGroupStateRequest, context: Context) -> ReadShareGroupStateResponse:
    leaders = context.broker.remote_share_leaders
    told = await answers(
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda share_id, each: leaders.read(share_id, each.leader_epoch),
        _answer,
        context,
    )
    return ReadShareGroupStateResponse(
        results=[ReadStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in told]
    )


def _answer(asked: PartitionData, outcome: Outcome[ReadState]) -> PartitionResult:
    if isinstance(outcome, HeadwaterError):
        return PartitionResult(partition=asked.partition, state_batches=[], **error_of(outcome))
    return PartitionResult(
        partition=asked.partition,
        state_epoch=outcome.state_epoch,
        start_offset=outcome.start_offset,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in outcome.batches
        ],
    )
