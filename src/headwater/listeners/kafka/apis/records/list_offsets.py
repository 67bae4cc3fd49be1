"""ListOffsets (key 2): the first or last offset, or the one that belongs to a time."""

import asyncio
import logging
from collections.abc import Mapping
from enum import IntEnum

from headwater.broker.partition import Partition
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.epochs import check_leader_epoch
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.storage.time_lookup import TimestampOffset

logger = logging.getLogger(__name__)

REQUEST = ListOffsetsRequest


class Special(IntEnum):
    """Timestamps that stand for a place in the log instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


FIRST_VERSIONS: Mapping[int, int] = {
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
    Special.EARLIEST_PENDING_UPLOAD: 11,
}
NOTHING = TimestampOffset(-1, -1, -1)
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
        if context.api_version < FIRST_VERSIONS.get(asked.timestamp, 0) or asked.timestamp < min(Special):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} has no meaning here")
        found = await _find(partition, asked.timestamp, committed_only=committed_only)
    except HeadwaterError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    except OSError as error:
        logger.error("lookup by time in %s-%d failed: %s", topic, index, error)
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


async def _find(partition: Partition, timestamp: int, *, committed_only: bool) -> TimestampOffset:
    limit_offset = partition.last_stable_offset if committed_only else partition.high_watermark
    log = partition.log
    match timestamp:
        case Special.LATEST:
            return TimestampOffset(-1, limit_offset, partition.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            start_offset = log.start_offset
            is_empty = start_offset >= log.end_offset
            epoch = partition.leader_epoch if is_empty else log.epochs.epoch_at(start_offset)
            return TimestampOffset(-1, start_offset, epoch)
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            # Nothing is tiered, so nothing has been and nothing waits to be.
            return NOTHING
        case Special.MAX_TIMESTAMP:
            lookup = log.latest_timestamp_lookup()
        case _:
            lookup = log.timestamp_lookup(timestamp, limit_offset)
    # It may have to read and decompress a batch, which takes a thread.
    found = await asyncio.to_thread(lookup.run)
    return found if found is not None and found.offset < limit_offset else NOTHING
