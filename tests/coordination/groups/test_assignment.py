"""The set operations on assignments, against plain sets of partitions."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.groups.assignment import (
    Assignment,
    assignment_of,
    contains,
    difference,
    intersection,
    union,
)
from headwater.ids import TopicId

TOPIC_IDS = [TopicId(UUID(int=number)) for number in range(4)]

Pairs = frozenset[tuple[TopicId, int]]
pair_sets = st.frozensets(st.tuples(st.sampled_from(TOPIC_IDS), st.integers(0, 4)))


def pairs(assignment: Assignment) -> Pairs:
    assert all(assignment.values()), "a topic without partitions must not be there at all"
    return frozenset((topic_id, partition) for topic_id, those in assignment.items() for partition in those)


@given(pair_sets)
def test_an_assignment_holds_the_partitions_that_it_was_made_of(some: Pairs) -> None:
    assert pairs(assignment_of(some)) == some


@given(pair_sets, pair_sets)
def test_the_operations_are_those_of_sets(one: Pairs, other: Pairs) -> None:
    assert pairs(union(assignment_of(one), assignment_of(other))) == one | other
    assert pairs(intersection(assignment_of(one), assignment_of(other))) == one & other
    assert pairs(difference(assignment_of(one), assignment_of(other))) == one - other
    assert contains(assignment_of(one), assignment_of(other)) == (one >= other)
    assert contains(union(assignment_of(one), assignment_of(other)), assignment_of(one))


@given(pair_sets, pair_sets)
def test_the_operations_do_not_mutate_their_operands(one: Pairs, other: Pairs) -> None:
    given_one, given_other = assignment_of(one), assignment_of(other)
    for operation in (union, intersection, difference):
        operation(given_one, given_other)

    assert (pairs(given_one), pairs(given_other)) == (one, other)


@given(pair_sets, pair_sets)
def test_assignments_are_equal_if_their_partitions_are(one: Pairs, other: Pairs) -> None:
    assert (assignment_of(one) == assignment_of(other)) == (one == other)
    assert (
        union(assignment_of(one), assignment_of(other))
        == union(assignment_of(other), assignment_of(one))
        == assignment_of(one | other)
    )
