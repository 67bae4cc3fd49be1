"""OffsetForLeaderEpoch (key 23), v2-4: where a leader epoch ended, so that a client can tell whether records that it
has read were cut off. v3 adds the replica, v4 is flexible."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.records.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import topic as named

REQUEST = OffsetForLeaderEpochRequest


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(topic.topic, requested, context) for requested in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(topic: str, requested: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    guard = context.guard
    try:
        if not guard.allows(Operation.CLUSTER_ACTION, CLUSTER, is_probe=True):
            guard.check(Operation.DESCRIBE, named(topic))
        end = context.broker.end_of_epoch(
            topic, requested.partition, requested.leader_epoch, requested.current_leader_epoch
        )
    except HeadwaterError as error:
        return EpochEndOffset(error_code=error.code, partition=requested.partition)
    return EpochEndOffset(partition=requested.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
