"""ListOffsets (key 2): the first or last offset, or the one that belongs to a time."""

import asyncio

from headwater.broker.partition import Partition
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.epochs import check_leader_epoch
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

REQUEST = ListOffsetsRequest

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
FIRST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1


async def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    committed_only = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    await _look_up(topic.name, asked, context, committed_only=committed_only)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _look_up(
    topic: str, asked: ListOffsetsPartition, context: Context, *, committed_only: bool
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        partition = context.broker.partition(topic, index)
        partition.check_online()
        check_leader_epoch(partition, asked.current_leader_epoch)
        if context.api_version < FIRST_VERSIONS.get(asked.timestamp, 0) or asked.timestamp < EARLIEST_PENDING_UPLOAD:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} has no meaning here")
        timestamp, offset = await _find(partition, asked.timestamp, committed_only=committed_only)
    except HeadwaterError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=_epoch_at(partition, offset),
    )


async def _find(partition: Partition, timestamp: int, *, committed_only: bool) -> tuple[int, int]:
    """Timestamp and offset, each -1 where there is none."""
    limit_offset = partition.last_stable_offset if committed_only else partition.high_watermark
    match timestamp:
        case -1:
            return -1, limit_offset
        case -2 | -4:
            return -1, partition.start_offset
        case -5 | -6:
            # Nothing is tiered, so nothing has been and nothing waits to be.
            return -1, -1
        case -3:
            lookup = partition.log.max_timestamp_lookup(limit_offset)
        case _:
            lookup = partition.log.timestamp_lookup(timestamp, limit_offset)
    # It may have to decompress a batch, which takes a thread.
    return await asyncio.to_thread(lookup.run) or (-1, -1)


def _epoch_at(partition: Partition, offset: int) -> int:
    if offset < 0:
        return -1
    if offset >= partition.log.end_offset:
        return partition.leader_epoch
    return partition.log.epochs.epoch_at(offset)
