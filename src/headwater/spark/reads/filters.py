"""Filter pushdown: a query's filters exclude whole partitions, and offsets at both ends of the others.

Law: a read omits a record only if the filters reject it. It may read too many, because Spark applies all filters again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from headwater.ids import TopicPartition
from headwater.spark.reads.plan import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """From `first` to `last`, both inclusive. None: no limit."""

    first: int | None = None
    last: int | None = None

    def narrowed(self, first: int | None, last: int | None) -> "Interval":
        return Interval(_greater(self.first, first), _smaller(self.last, last))


@dataclass(frozen=True, slots=True)
class ReadScope:
    """What remains to be read under all filters of a query. None: no limit."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Interval = field(default_factory=Interval)
    times_ms: Interval = field(default_factory=Interval)

    def pick(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        return [
            each
            for each in partitions
            if (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
        ]

    def cut(
        self,
        ranges: Iterable[OffsetRange],
        since: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]],
        *,
        timestamps_ordered: bool,
    ) -> list[OffsetRange]:
        """The parts of `ranges` that the filters leave. `since` finds a partition's first record at or after a time.

        All records before that one are older. Later records may be older as well, so a range ends at a time only if
        the timestamps are known to be in order.
        """
        wanted = [self._by_offset(each) for each in ranges]
        if self.times_ms.first is not None:
            starts = since({each.partition: self.times_ms.first for each in wanted})
            wanted = [_from(each, starts[each.partition]) for each in wanted]
        if self.times_ms.last is not None and timestamps_ordered:
            ends = since({each.partition: self.times_ms.last + 1 for each in wanted})
            wanted = [_until(each, ends[each.partition]) for each in wanted]
        return [each for each in wanted if each.start < each.end]

    def _by_offset(self, whole: OffsetRange) -> OffsetRange:
        return _until(
            _from(whole, 0 if self.offsets.first is None else self.offsets.first),
            None if self.offsets.last is None else self.offsets.last + 1,
        )


def read_scope(filters: Iterable[Filter]) -> ReadScope:
    scope = ReadScope()
    for each in filters:
        scope = _narrowed(scope, each)
    return scope


def _narrowed(scope: ReadScope, one: Filter) -> ReadScope:
    match one:
        case EqualTo(("topic",), str() as topic):
            return replace(scope, topics=_common(scope.topics, [topic]))
        case In(("topic",), topics):
            return replace(scope, topics=_common(scope.topics, topics))
        case EqualTo(("partition",), int() as partition):
            return replace(scope, partitions=_common(scope.partitions, [partition]))
        case In(("partition",), partitions):
            return replace(scope, partitions=_common(scope.partitions, partitions))
        case (
            EqualTo((("offset" | "timestamp") as column,), value)
            | GreaterThan((("offset" | "timestamp") as column,), value)
            | GreaterThanOrEqual((("offset" | "timestamp") as column,), value)
            | LessThan((("offset" | "timestamp") as column,), value)
            | LessThanOrEqual((("offset" | "timestamp") as column,), value)
        ):
            number = value if isinstance(value, int) else _milliseconds(value)
            if number is None:
                return scope
            first, last = _limits(one, number, is_exact=column == "offset")
            if column == "offset":
                return replace(scope, offsets=scope.offsets.narrowed(first, last))
            return replace(scope, times_ms=scope.times_ms.narrowed(first, last))
        case _:
            return scope


def _limits(one: Filter, number: int, *, is_exact: bool) -> tuple[int | None, int | None]:
    """First and last number that may pass the filter.

    A time is truncated to milliseconds. Its own millisecond may contain matching times, so it stays included.
    """
    step = 1 if is_exact else 0
    match one:
        case EqualTo():
            return number, number
        case GreaterThan():
            return number + step, None
        case GreaterThanOrEqual():
            return number, None
        case LessThan():
            return None, number - step
        case _:
            return None, number


def _milliseconds(value: Any) -> int | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // _MILLISECOND
    return None


def _from(whole: OffsetRange, start: int | None) -> OffsetRange:
    """None: the filters reject the whole partition."""
    return whole._replace(start=whole.end if start is None else max(whole.start, start))


def _until(whole: OffsetRange, end: int | None) -> OffsetRange:
    """None: no limit at this end."""
    return whole if end is None else whole._replace(end=min(whole.end, end))


def _common(known: frozenset[Any] | None, values: Iterable[Any]) -> frozenset[Any]:
    return frozenset(values) if known is None else known.intersection(values)


def _greater(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _smaller(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
