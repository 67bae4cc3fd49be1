"""Offsets of topics, as our source writes them and Spark hands them around: `{"orders":{"0":23,"1":40}}`."""

from dataclasses import dataclass
from typing import Any, cast

import orjson

Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one partition; where it began is not always known."""

    topic: str
    partition: int
    start: int | None
    end: int

    def __str__(self) -> str:
        # As people name records: the last one is part of it.
        begin = "up to" if self.start is None else f"{self.start} to"
        return f"{self.topic}-{self.partition} offsets {begin} {self.end - 1}"


def parse(told: object) -> Offsets:
    """As JSON or already parsed; nothing for offsets of another source."""
    if isinstance(told, str | bytes):
        try:
            told = orjson.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict):
        return {}
    topics = cast("dict[str, Any]", told)
    return topics if all(_are_partitions(partitions) for partitions in topics.values()) else {}


def between(starts: Offsets, ends: Offsets) -> tuple[Range, ...]:
    ranges = (
        Range(topic, int(partition), starts.get(topic, {}).get(partition), end)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
    return tuple(each for each in ranges if each.end > (each.start or 0))


def count(ranges: tuple[Range, ...]) -> int:
    return sum(each.end - (each.start or 0) for each in ranges)


def _are_partitions(told: object) -> bool:
    return isinstance(told, dict) and all(
        name.isdigit() and isinstance(offset, int) for name, offset in cast("dict[str, Any]", told).items()
    )
