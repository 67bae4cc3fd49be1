"""How far streaming queries are behind, from the progress that Spark reports of them.

Spark's Kafka source puts these figures into `metrics` of the progress. A source written in Python has no way to do so:
`metrics` stays empty, and the description is the name of a class. But the progress has the offsets that a batch reached
and the latest ones, and these tell the same.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The records (offsets) of one source that wait behind the end of a batch; the figures are those of partitions."""

    topics: tuple[str, ...]
    partition_count: int
    total: int
    minimum: int
    maximum: int
    average: float

    def __str__(self) -> str:
        partitions = f"{self.partition_count} partition{'' if self.partition_count == 1 else 's'}"
        return (
            f"{', '.join(self.topics)} ({partitions}): {self.total} offsets behind, "
            f"{self.minimum} to {self.maximum} a partition, {self.average:.1f} on average"
        )


def source_lags(progress: Any) -> list[SourceLag]:
    """The lag of each source that reads topics.

    `progress` is `query.lastProgress`, the `progress` of a listener's event, its JSON, or the JSON decoded.
    """
    if progress is None:
        # The query has not finished a batch.
        return []
    decoded: Any = json.loads(progress) if isinstance(progress, str) else progress
    if not isinstance(decoded, Mapping):
        decoded = json.loads(decoded.json)
    sources = cast("Mapping[str, Any]", decoded).get("sources", ())
    return [lag for source in sources if (lag := _lag(source)) is not None]


def _lag(source: Mapping[str, Any]) -> SourceLag | None:
    latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if not latest:
        return None
    behind = [max(0, offset - reached.get(partition, 0)) for partition, offset in latest.items()]
    topics = tuple(sorted({topic for topic, _ in latest}))
    total = sum(behind)
    return SourceLag(topics, len(behind), total, min(behind), max(behind), total / len(behind))


def _offsets(given: Any) -> dict[tuple[str, str], int]:
    """`{"orders":{"0":23}}`, as JSON or decoded. Empty for the offsets of another kind of source."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    if not isinstance(given, Mapping):
        return {}
    topics = cast("Mapping[str, Mapping[str, Any]]", given)
    if not all(isinstance(cast("object", partitions), Mapping) for partitions in topics.values()):
        return {}
    offsets = {(topic, partition): offset for topic, found in topics.items() for partition, offset in found.items()}
    return offsets if all(isinstance(offset, int) for offset in offsets.values()) else {}
