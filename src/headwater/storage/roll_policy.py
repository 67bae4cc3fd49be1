"""When a new segment begins. Pure: it looks at what the active segment says about itself and decides."""

from typing import Final
from zlib import crc32

from headwater.config.topic import TopicConfig
from headwater.protocol.batches.batch import LOG_OVERHEAD, BatchHeader
from headwater.storage import names
from headwater.storage.segment import Segment

# Index entries hold offsets relative to the segment's first, as 32-bit integers.
_INT32_MAX: Final = 2**31 - 1


def is_full(segment: Segment, header: BatchHeader, pending_bytes: int, config: TopicConfig, now_ms: int) -> bool:
    """Whether the batch belongs in the next segment, with `pending_bytes` about to be written before it."""
    size = segment.size + pending_bytes
    if size == 0:
        return False
    if (
        size + header.batch_length + LOG_OVERHEAD > config.segment_bytes
        or header.base_offset + header.last_offset_delta - segment.base_offset > _INT32_MAX
        or segment.next_index_bytes > config.segment_index_bytes
    ):
        return True
    if segment.size == 0:
        return False  # the first batch is itself still pending
    return is_old(segment, header.max_timestamp, now_ms, config)


def is_old(segment: Segment, timestamp: int, now_ms: int, config: TopicConfig) -> bool:
    """Whether it rolls by age. Kafka counts from the first batch's timestamp, or from creation where there is none."""
    first = segment.first_timestamp
    age_ms = timestamp - first if first >= 0 and timestamp >= 0 else now_ms - segment.created_ms
    roll_ms = config.roll_ms
    return age_ms > roll_ms - config.segment_jitter_ms and age_ms > roll_ms - _jitter_ms(segment, config)


def _jitter_ms(segment: Segment, config: TopicConfig) -> int:
    """How much earlier than `segment.ms` this segment rolls: a part of the jitter that depends on its path alone."""
    return crc32(str(segment.path(names.LOG)).encode()) % (config.segment_jitter_ms + 1)
