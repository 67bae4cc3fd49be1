"""Filters narrow a read, and never leave out a record that passes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from headwater.ids import TopicName, TopicPartition
from headwater.spark.reads.filters import ReadScope, read_scope
from headwater.spark.reads.plan import OffsetRange

ORDERS = TopicName("orders")
ZERO = TopicPartition(ORDERS, 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def cut(scope: ReadScope, times_ms: list[int], *, timestamps_ordered: bool = False) -> range:
    """The range left of a partition whose record at offset n has the nth timestamp."""

    def since(asked: Any) -> dict[TopicPartition, int | None]:
        found = (offset for offset, time_ms in enumerate(times_ms) if time_ms >= asked[ZERO])
        return {ZERO: next(found, None)}

    ranges = scope.cut([OffsetRange(ZERO, 0, len(times_ms))], since, timestamps_ordered=timestamps_ordered)
    return range(ranges[0].start, ranges[0].end) if ranges else range(0)


COMPARISONS: dict[type, Any] = {
    EqualTo: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
}
conditions = st.lists(
    st.tuples(st.sampled_from(list(COMPARISONS)), st.sampled_from(["offset", "timestamp"]), st.integers(-1000, 9000)),
    max_size=4,
)


@given(conditions, st.lists(st.integers(0, 8), max_size=12), st.booleans())
def test_no_record_that_passes_the_filters_is_left_out(
    chosen: list[tuple[type, str, int]], times_ms: list[int], timestamps_ordered: bool
) -> None:
    if timestamps_ordered:
        times_ms.sort()
    filters: list[Filter] = []
    passing = set(range(len(times_ms)))
    for kind, column, number in chosen:
        # Record timestamps are whole milliseconds; times in filters need not be.
        value = number // 1000 if column == "offset" else time_of(number)
        filters.append(kind((column,), value))
        passing &= {
            offset
            for offset, time_ms in enumerate(times_ms)
            if COMPARISONS[kind](offset if column == "offset" else time_of(time_ms * 1000), value)
        }
    left = cut(read_scope(filters), times_ms, timestamps_ordered=timestamps_ordered)
    assert passing <= set(left)


def test_offsets_are_narrowed_exactly() -> None:
    filters = [GreaterThan(("offset",), 2), LessThanOrEqual(("offset",), 5)]
    assert cut(read_scope(filters), [0] * 10) == range(3, 6)
    assert cut(read_scope([EqualTo(("offset",), 4)]), [0] * 10) == range(4, 5)
    assert cut(read_scope([EqualTo(("offset",), 40)]), [0] * 10) == range(0)


def test_a_time_range_reads_only_its_part_of_an_ordered_topic() -> None:
    filters = [GreaterThanOrEqual(("timestamp",), time_of(3_000)), LessThan(("timestamp",), time_of(6_500))]
    times_ms = list(range(10))
    assert cut(read_scope(filters), times_ms, timestamps_ordered=True) == range(3, 7)
    assert cut(read_scope(filters), times_ms) == range(3, 10), "an older record may follow"


def test_filters_on_partition_and_topic_choose_partitions() -> None:
    payments = TopicPartition(TopicName("payments"), 1)
    all_of_them = [ZERO, TopicPartition(ORDERS, 1), payments]
    assert read_scope([EqualTo(("topic",), "payments")]).pick(all_of_them) == [payments]
    assert read_scope([In(("topic",), ("orders", "x")), EqualTo(("partition",), 0)]).pick(all_of_them) == [ZERO]
    assert read_scope([In(("partition",), (1, 7)), In(("partition",), (0, 7))]).pick(all_of_them) == []


@pytest.mark.parametrize(
    "useless",
    [
        Not(EqualTo(("offset",), 1)),
        IsNotNull(("offset",)),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - a filter may come without time zone
    ],
)
def test_other_filters_are_left_to_spark(useless: Filter) -> None:
    assert read_scope([useless]) == ReadScope()
