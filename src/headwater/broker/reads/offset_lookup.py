"""Lookups of offsets: the first or last of a partition, or the one that belongs to a time (ListOffsets)."""

import asyncio
import logging
from enum import IntEnum

from headwater.broker.partition import Partition
from headwater.errors import ErrorCode, Refusal
from headwater.storage.time_lookup import TimestampOffset

logger = logging.getLogger(__name__)


class Place(IntEnum):
    """Timestamps that stand for a place in the log instead of a time, by Kafka's numbers."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


NOT_FOUND = TimestampOffset(-1, -1, -1)


async def look_up(partition: Partition, timestamp: int, *, committed_only: bool) -> TimestampOffset:
    """The offset of a `Place` or a time among the records that the client may see; NOT_FOUND if there is none."""
    limit_offset = partition.last_stable_offset if committed_only else partition.high_watermark
    match timestamp:
        case Place.LATEST:
            return TimestampOffset(-1, limit_offset, partition.leader_epoch)
        case Place.EARLIEST | Place.EARLIEST_LOCAL:
            return partition.first_record()
        case Place.LATEST_TIERED | Place.EARLIEST_PENDING_UPLOAD:
            # There is no tiered storage: nothing was uploaded, and nothing waits to be.
            return NOT_FOUND
        case Place.MAX_TIMESTAMP:
            lookup = partition.plan_lookup(None, limit_offset)
        case _:
            lookup = partition.plan_lookup(timestamp, limit_offset)
    try:
        # The lookup may have to read and decompress a batch.
        found = await asyncio.to_thread(lookup.run)
    except OSError as error:
        logger.error("lookup by time in %s failed: %s", partition.id, error)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"lookup by time in {partition.id} failed: {error}") from error
    return found if found is not None and found.offset < limit_offset else NOT_FOUND
