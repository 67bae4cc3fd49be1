"""InitializeShareGroupState (key 83), v0: a broker that leads a partition has a share group begin with it."""

from headwater.broker.shards.shard import Outcome
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_states import answers, error_of
from headwater.protocol.messages.shares.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)

REQUEST = InitializeShareGroupStateRequest


async def handle(request: InitializeShareGroupStateRequest, context: Context) -> InitializeShareGroupStateResponse:
    leaders = context.broker.remote_share_leaders
    told = await answers(
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda share_id, each: leaders.initialize(share_id, each.state_epoch, each.start_offset),
        _answer,
        context,
    )
    return InitializeShareGroupStateResponse(
        results=[InitializeStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in told]
    )


def _answer(asked: PartitionData, outcome: Outcome[None]) -> PartitionResult:
    return PartitionResult(partition=asked.partition, **error_of(outcome))
