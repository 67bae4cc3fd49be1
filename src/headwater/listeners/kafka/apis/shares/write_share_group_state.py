"""WriteShareGroupState (key 85), v0-1: a broker that leads a partition stores what a share group has done with records.

v1 adds how many records are done with; the broker counts them itself."""

from headwater.broker.shards.shard import Outcome
from headwater.coordination.shares.state_requests import WriteState
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_states import answers, error_of
from headwater.protocol.messages.shares.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

REQUEST = WriteShareGroupStateRequest


async def handle(request: WriteShareGroupStateRequest, context: Context) -> WriteShareGroupStateResponse:
    leaders = context.broker.remote_share_leaders
    told = await answers(
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda share_id, each: leaders.write(share_id, _command(each)),
        _answer,
        context,
    )
    return WriteShareGroupStateResponse(
        results=[WriteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in told]
    )


def _answer(asked: PartitionData, outcome: Outcome[None]) -> PartitionResult:
    return PartitionResult(partition=asked.partition, **error_of(outcome))


def _command(asked: PartitionData) -> WriteState:
    batches = [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in asked.state_batches
    ]
    return WriteState(asked.state_epoch, asked.leader_epoch, asked.start_offset, batches)
