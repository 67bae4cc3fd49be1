"""How the offsets of a read become tasks, and how many of them one micro-batch takes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.ids import TopicPartition
from headwater.spark.reads.offsets import Offsets


class OffsetRange(NamedTuple):
    """The records from `start` up to but not including `end`; some of these offsets may have no record."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Those that hold anything, of the partitions that both know."""
    return [
        OffsetRange(partition, start[partition], end_offset)
        for partition, end_offset in sorted(end.items())
        if partition in start and start[partition] < end_offset
    ]


def split(
    ranges: Sequence[OffsetRange], partitions_min: int | None, records_max: int | None = None
) -> list[OffsetRange]:
    """One task for each range; large ones are cut, until there are `partitions_min` and none exceeds `records_max`."""
    parts = [1 if records_max is None else -(-each.size // records_max) for each in ranges]
    if partitions_min is not None and sum(parts) < partitions_min:
        total = sum(each.size for each in ranges)
        parts = [
            max(count, min(each.size, -(-each.size * partitions_min // total)))
            for count, each in zip(parts, ranges, strict=True)
        ]
    return [piece for each, count in zip(ranges, parts, strict=True) for piece in _cut(each, count)]


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], offsets_max: int) -> Offsets:
    """An end that lies at most `offsets_max` offsets further, each partition moving in proportion to what it has."""
    waiting = ranges_between(start, end)
    total = sum(each.size for each in waiting)
    if total <= offsets_max:
        return dict(end)
    shares = {each.partition: each.size * offsets_max // total for each in waiting}
    # What the division left over goes to the partitions that it took most from, one offset each.
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
