"""Cuts the offsets of a read into tasks, and limits the offsets of one micro-batch. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.ids import TopicPartition
from headwater.spark.reads.offsets import PartitionOffsets


class OffsetRange(NamedTuple):
    """The records from `start` up to but not including `end`. Some of these offsets may have no record."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The non-empty ranges of the partitions that are in both `start` and `end`."""
    return [
        OffsetRange(partition, start[partition], end_offset)
        for partition, end_offset in sorted(end.items())
        if partition in start and start[partition] < end_offset
    ]


def split(
    ranges: Sequence[OffsetRange], partitions_min: int | None, records_max: int | None = None
) -> list[OffsetRange]:
    """One task per range; large ones are cut until there are `partitions_min` tasks and none exceeds `records_max`."""
    parts = [1 if records_max is None else -(-each.size // records_max) for each in ranges]
    if partitions_min is not None and sum(parts) < partitions_min:
        total = sum(each.size for each in ranges)
        parts = [
            max(count, min(each.size, -(-each.size * partitions_min // total)))
            for count, each in zip(parts, ranges, strict=True)
        ]
    return [piece for each, count in zip(ranges, parts, strict=True) for piece in _cut(each, count)]


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], offsets_max: int
) -> PartitionOffsets:
    """An end at most `offsets_max` offsets after `start`; each partition advances in proportion to its backlog."""
    waiting = ranges_between(start, end)
    total = sum(each.size for each in waiting)
    if total <= offsets_max:
        return dict(end)
    shares = {each.partition: each.size * offsets_max // total for each in waiting}
    # The division rounds down. The remainder goes to the partitions that lost most by rounding, one offset each.
    by_loss = sorted(waiting, key=lambda each: (-(each.size * offsets_max % total), each.partition))
    for each in by_loss[: offsets_max - sum(shares.values())]:
        shares[each.partition] += 1
    return {
        partition: start[partition] + shares[partition] if partition in shares else offset
        for partition, offset in end.items()
    }


def count_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    return sum(each.size for each in ranges_between(start, end))


def _cut(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    for index in range(count):
        start = whole.start + whole.size * index // count
        end = whole.start + whole.size * (index + 1) // count
        yield OffsetRange(whole.partition, start, end)
