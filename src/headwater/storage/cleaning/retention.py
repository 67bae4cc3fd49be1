"""Which of the oldest segments may be deleted. Pure: it looks at what a segment says about itself and decides."""

from collections.abc import Sequence
from typing import Protocol

from headwater.config.topic import TopicConfig


class SegmentAge(Protocol):
    """What a decision needs to know of a segment."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...


def expired_count(
    segments: Sequence[SegmentAge], config: TopicConfig, *, start_offset: int, limit_offset: int, now_ms: int
) -> int:
    """How many segments, from the oldest, may be deleted: those before the start offset, then by size, then by age.

    Never a segment that reaches beyond `limit_offset` (the high watermark), nor the last one if it is empty.
    """
    deletable = _deletable_count(segments, limit_offset)
    count = 0
    while count < min(deletable, len(segments) - 1) and segments[count + 1].base_offset <= start_offset:
        count += 1
    if "delete" not in config.cleanup_policy:
        return count
    if config.retention_bytes >= 0:
        surplus = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < deletable and surplus >= segments[count].size:
            surplus -= segments[count].size
            count += 1
    if config.retention_ms >= 0:
        while count < deletable and now_ms - segments[count].largest_timestamp > config.retention_ms:
            count += 1
    return count


def _deletable_count(segments: Sequence[SegmentAge], limit_offset: int) -> int:
    count = sum(1 for segment in segments if segment.next_offset <= limit_offset)
    return count - 1 if count == len(segments) and segments[-1].size == 0 else count
