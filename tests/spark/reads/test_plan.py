"""Ranges become tasks without losing or duplicating an offset, and a limit is kept exactly."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.ids import TopicName, TopicPartition
from headwater.spark.reads.plan import OffsetRange, count_between, limited, ranges_between, split

ORDERS = TopicName("orders")

partitions = st.builds(TopicPartition, st.sampled_from([ORDERS, TopicName("payments")]), st.integers(0, 5))
ranges = st.dictionaries(partitions, st.tuples(st.integers(0, 1000), st.integers(0, 10**12))).map(
    lambda found: [OffsetRange(each, start, start + size) for each, (start, size) in sorted(found.items())]
)
filled = ranges.map(lambda found: [each for each in found if each.size])


def offsets(found: list[OffsetRange], *, of_end: bool) -> dict[TopicPartition, int]:
    return {each.partition: each.end if of_end else each.start for each in found}


@given(filled, st.none() | st.integers(1, 40))
def test_pieces_cover_the_range_in_order_and_none_is_empty(
    found: list[OffsetRange], partitions_min: int | None
) -> None:
    pieces = split(found, partitions_min)
    joined: list[OffsetRange] = []
    for piece in pieces:
        assert piece.size > 0
        if joined and joined[-1].partition == piece.partition and joined[-1].end == piece.start:
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == found


@given(filled, st.integers(1, 40))
def test_there_are_as_many_tasks_as_asked_for_if_there_are_enough_records(
    found: list[OffsetRange], partitions_min: int
) -> None:
    records = sum(each.size for each in found)
    assert len(split(found, partitions_min)) >= min(partitions_min, records)


def test_without_limits_each_range_is_one_task() -> None:
    found = [OffsetRange(TopicPartition(ORDERS, index), 0, 10**9) for index in range(3)]
    assert split(found, None) == found
    assert split(found, 3) == found


def test_no_task_reads_more_records_than_allowed() -> None:
    whole = OffsetRange(TopicPartition(ORDERS, 0), 5, 105)
    assert [each.size for each in split([whole], None, 30)] == [25, 25, 25, 25]


@given(ranges, st.integers(1, 10**6))
def test_a_limited_batch_takes_exactly_the_limit_or_everything(found: list[OffsetRange], offsets_max: int) -> None:
    start, end = offsets(found, of_end=False), offsets(found, of_end=True)
    reached = limited(start, end, offsets_max)
    assert count_between(start, reached) == min(offsets_max, count_between(start, end))
    assert reached.keys() == end.keys()
    assert all(start[each] <= reached[each] <= end[each] for each in end)


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    zero, one = TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1)
    assert limited({zero: 0, one: 100}, {zero: 900, one: 200}, 100) == {zero: 90, one: 110}


@given(filled, st.integers(1, 7))
def test_with_a_limit_everything_is_read_in_the_end(found: list[OffsetRange], rounds: int) -> None:
    start, end = offsets(found, of_end=False), offsets(found, of_end=True)
    offsets_max = max(count_between(start, end) // rounds, 1)
    for _ in range(rounds + 1):
        start = limited(start, end, offsets_max)
    assert count_between(start, end) <= max(count_between(offsets(found, of_end=False), end) - rounds * offsets_max, 0)


def test_a_partition_missing_from_start_or_end_or_shrunk_has_no_range() -> None:
    zero, one, two = (TopicPartition(ORDERS, index) for index in range(3))
    assert ranges_between({zero: 5, one: 0}, {zero: 3, two: 9}) == []
