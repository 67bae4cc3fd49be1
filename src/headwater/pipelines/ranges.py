"""Offsets of topics as Headwater's source writes them and Spark passes them on: `{"orders":{"0":23,"1":40}}`."""

from dataclasses import dataclass
from typing import Any, cast

import orjson

TopicOffsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one partition from `start` up to but not including `end`. None: the start is unknown."""

    topic: str
    partition: int
    start: int | None
    end: int

    def __str__(self) -> str:
        # People expect an inclusive range: the last offset is part of it.
        begin = "up to" if self.start is None else f"{self.start} to"
        return f"{self.topic}-{self.partition} offsets {begin} {self.end - 1}"


def parse(offsets: object) -> TopicOffsets:
    """Accepts JSON or its parsed form. Returns an empty dict for the offsets of another source."""
    if isinstance(offsets, str | bytes):
        try:
            offsets = orjson.loads(offsets)
        except ValueError:
            return {}
    if not isinstance(offsets, dict):
        return {}
    topics = cast("dict[str, Any]", offsets)
    return topics if all(_are_partitions(partitions) for partitions in topics.values()) else {}


def between(starts: TopicOffsets, ends: TopicOffsets) -> tuple[Range, ...]:
    ranges = (
        Range(topic, int(partition), starts.get(topic, {}).get(partition), end)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
    return tuple(each for each in ranges if each.end > (each.start or 0))


def _are_partitions(offsets: object) -> bool:
    return isinstance(offsets, dict) and all(
        name.isdigit() and isinstance(offset, int) for name, offset in cast("dict[str, Any]", offsets).items()
    )
