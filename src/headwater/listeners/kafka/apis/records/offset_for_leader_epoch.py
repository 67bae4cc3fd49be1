"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a client finds out what it read was cut off."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.epochs import check_leader_epoch
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
        partition = context.broker.partition(topic, asked.partition)
        partition.check_online()
        check_leader_epoch(partition, asked.current_leader_epoch)
    except HeadwaterError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    if asked.leader_epoch == partition.leader_epoch:
        # Also while nothing has been written in the current epoch yet.
        return EpochEndOffset(
            partition=asked.partition, leader_epoch=asked.leader_epoch, end_offset=partition.high_watermark
        )
    end = partition.log.epochs.end_offset(asked.leader_epoch, partition.high_watermark)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
