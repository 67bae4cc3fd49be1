"""Runs of offsets against a plain dictionary of offsets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.shares.runs import Run, Runs
from headwater.coordination.shares.terms import FINAL_STATES, DeliveryState
from headwater.ids import MemberId

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
PENDING = DeliveryState.PENDING
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED

OFFSETS = st.integers(0, 40)
MEMBERS = st.sampled_from([MemberId("ann"), MemberId("bob")])
SETS = st.tuples(OFFSETS, st.integers(1, 12), st.sampled_from(DeliveryState), st.integers(0, 3), MEMBERS)
STARTS = st.tuples(st.just("advance"), st.integers(0, 60))


def shown(run: Run) -> tuple[object, ...]:
    """Neighbours in final states share one run, which need not tell them apart."""
    return ("final",) if run.is_final else run[2:]


@given(st.lists(SETS | STARTS, max_size=40))
def test_runs_are_what_a_table_of_offsets_would_be(changes: list[tuple[object, ...]]) -> None:
    runs, table, start = Runs(3), dict[int, tuple[object, ...]](), 3
    for change in changes:
        match change:
            case ("advance", int(offset)):
                runs.advance(offset)
                start = max(start, offset)
                table = {each: state for each, state in table.items() if each >= start}
            case (int(first), int(length), DeliveryState() as state, int(count), str(member)):
                run = Run(
                    first, first + length - 1, state, count, MemberId(member) if state is ACQUIRED else MemberId("")
                )
                runs.set(run)
                if run.last >= start:
                    for gap in range(max([start - 1, *table]) + 1, first):
                        table[gap] = (AVAILABLE, 0, MemberId(""), 0)
                    for each in range(max(first, start), run.last + 1):
                        table[each] = shown(run)
            case _:
                raise AssertionError(change)
        check(runs, table, start)


def check(runs: Runs, table: dict[int, tuple[object, ...]], start: int) -> None:
    assert {each: shown(run) for run in runs for each in range(run.first, run.last + 1)} == table
    assert (runs.start, runs.end) == (start, max([start - 1, *table]) + 1)
    listed = list(runs)
    for one, next_one in pairwise(listed):
        assert one.last + 1 == next_one.first
        assert shown(one) != shown(next_one), "neighbours in the same state are one run"
    free = [offset for offset, state in table.items() if state[0] is AVAILABLE]
    assert runs.available_count == len(free)
    assert runs.first_available() == min(free, default=runs.end)
    assert runs.final_count == sum(run.size for run in listed if run.state in FINAL_STATES)
    assert runs.acquired_count == sum(run.size for run in listed if run.state in (ACQUIRED, PENDING))
    assert runs.waiting_count == sum(run.size for run in listed if run.state is DeliveryState.WAITING)
    for offset in range(start - 1, runs.end + 1):
        run = runs.at(offset)
        assert (None if run is None else shown(run)) == table.get(offset)


def test_a_copy_is_independent() -> None:
    runs = Runs(0)
    runs.set(Run(0, 9, AVAILABLE, 1))
    copy = runs.copy()
    copy.set(Run(0, 4, ACKNOWLEDGED, 1))
    copy.advance(5)

    assert [*runs] == [Run(0, 9, AVAILABLE, 1)]
    assert (runs.start, runs.available_count, copy.start, copy.available_count) == (0, 10, 5, 5)


def test_accepted_and_rejected_neighbours_are_one_run() -> None:
    runs = Runs(0)
    runs.set(Run(0, 0, ACQUIRED, 1, MemberId("ann"), 5))
    for offset in range(1, 1000):
        runs.set(Run(offset, offset, (ACKNOWLEDGED, ARCHIVED)[offset % 2], 1))
    assert len(runs) == 2
    assert runs.final_count == 999
