"""DeleteShareGroupState (key 86), v0: what a share group has done with partitions is forgotten."""

from headwater.broker.shards.shard import Outcome
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_states import answers, error_of
from headwater.protocol.messages.shares.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)

REQUEST = DeleteShareGroupStateRequest


async def handle(request: DeleteShareGroupStateRequest, context: Context) -> DeleteShareGroupStateResponse:
    leaders = context.broker.remote_share_leaders
    told = await answers(
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda share_id, _: leaders.delete(share_id),
        _answer,
        context,
    )
    return DeleteShareGroupStateResponse(
        results=[DeleteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in told]
    )


def _answer(asked: PartitionData, outcome: Outcome[None]) -> PartitionResult:
    return PartitionResult(partition=asked.partition, **error_of(outcome))
