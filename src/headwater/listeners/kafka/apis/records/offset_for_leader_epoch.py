"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a client finds out what it read was cut off."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.records.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

REQUEST = OffsetForLeaderEpochRequest


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(topic.topic, asked, context) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(topic: str, asked: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    try:
        end = context.broker.end_of_epoch(topic, asked.partition, asked.leader_epoch, asked.current_leader_epoch)
    except HeadwaterError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
