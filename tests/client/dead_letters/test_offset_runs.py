"""A set of offsets behaves as a set, and is kept as runs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.dead_letters.offset_runs import OffsetRuns, runs_of

RUNS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda run: (run[0], run[0] + run[1])), max_size=20
)


@given(RUNS)
def test_it_has_what_was_added(added: list[tuple[int, int]]) -> None:
    runs, expected = OffsetRuns(), set[int]()
    for first, last in added:
        runs.add(first, last)
        expected.update(range(first, last + 1))
    assert {offset for offset in range(-2, 80) if offset in runs} == expected
    kept = list(runs)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(kept)), "apart, and in order"


def test_runs_are_joined() -> None:
    assert runs_of([5, 3, 4, 9, 8, 1]) == [(1, 1), (3, 5), (8, 9)]
    assert runs_of(()) == []
