"""Deadlines by key, against a model: a dictionary that is searched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.coordination.deadlines import SWEEP_MIN, Deadlines

KEYS = st.integers(min_value=0, max_value=9)
TIMES = st.integers(min_value=-5, max_value=30)


def test_no_key_is_due_without_deadlines() -> None:
    deadlines: Deadlines[str] = Deadlines()

    assert deadlines.next_ms() is None
    assert deadlines.next_key() is None
    assert len(deadlines) == 0


def test_the_earliest_deadline_comes_first() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, due_ms in (("late", 30), ("early", 10), ("between", 20)):
        deadlines.set(key, due_ms)

    assert (deadlines.next_key(), deadlines.next_ms()) == ("early", 10)
    assert "early" in deadlines
    assert "never" not in deadlines


def test_equal_deadlines_come_in_the_order_in_which_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in ("b", "a", "c"):
        deadlines.set(key, 10)

    assert drained(deadlines) == [("b", 10), ("a", 10), ("c", 10)]


@pytest.mark.parametrize("moves", [[20], [5], [20, 5], [5, 20], [5, 10], [20, 10, 20], [5, 20, 5, 20]])
def test_a_moved_deadline_is_due_at_its_last_time(moves: list[int]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("moved", 10)
    for due_ms in moves:
        deadlines.next_key()
        deadlines.set("moved", due_ms)

    assert len(deadlines) == 1
    assert drained(deadlines) == [("moved", moves[-1])]


@pytest.mark.parametrize("again_ms", [5, 10, 15])
def test_a_deadline_that_was_cancelled_may_be_set_again(again_ms: int) -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("key", 10)
    deadlines.cancel("key")
    deadlines.cancel("key")
    assert deadlines.next_ms() is None
    deadlines.set("key", 10)
    deadlines.cancel("key")

    deadlines.set("key", again_ms)

    assert drained(deadlines) == [("key", again_ms)]


def test_set_and_cancelled_keys_leave_no_memory_behind() -> None:
    deadlines: Deadlines[int] = Deadlines()
    deadlines.set(-1, 5)

    for key in range(10_000):
        deadlines.set(key, 1_000_000 - key)
        deadlines.cancel(key)

    assert len(deadlines._heap) <= SWEEP_MIN
    assert len(deadlines._queued_ms) <= SWEEP_MIN
    assert drained(deadlines) == [(-1, 5)]


def test_a_deadline_moved_back_and_forth_leaves_no_memory_behind() -> None:
    deadlines: Deadlines[str] = Deadlines()

    for round_ in range(10_000):
        deadlines.set("key", 1_000_000 - round_)
        deadlines.set("key", 2_000_000 - round_)

    assert len(deadlines._heap) <= SWEEP_MIN


def test_extending_a_deadline_does_not_touch_the_heap() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(100):
        deadlines.set(key, 10 + key)
    order_before = list(deadlines._heap)

    for key in range(100):
        deadlines.set(key, 1000 + key)

    assert deadlines._heap == order_before


class AgainstADictionary(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[int] = Deadlines()
        self.model: dict[int, int] = {}

    @rule(key=KEYS, due_ms=TIMES)
    def set(self, key: int, due_ms: int) -> None:
        self.deadlines.set(key, due_ms)
        self.model[key] = due_ms

    @rule(first=KEYS, due_ms=TIMES)
    def set_many(self, first: int, due_ms: int) -> None:
        for key in range(first * 100, first * 100 + 50):
            self.set(key, due_ms + key)

    @rule(key=KEYS)
    def cancel(self, key: int) -> None:
        self.deadlines.cancel(key)
        self.model.pop(key, None)

    @rule(first=KEYS)
    def cancel_many(self, first: int) -> None:
        for key in range(first * 100, first * 100 + 50):
            self.cancel(key)

    @rule()
    def take_what_is_due_next(self) -> None:
        key = self.deadlines.next_key()
        if key is not None:
            assert self.model[key] == min(self.model.values())
            self.cancel(key)

    @rule(due_ms=TIMES)
    def move_what_is_due_next(self, due_ms: int) -> None:
        key = self.deadlines.next_key()
        if key is not None:
            self.set(key, due_ms)

    @rule()
    def look(self) -> None:
        """A rule, no invariant: looking removes stale entries, and the accumulated ones are what may cause errors."""
        key, due_ms = self.deadlines.next_key(), self.deadlines.next_ms()
        assert due_ms == min(self.model.values(), default=None)
        assert (None if key is None else self.model[key]) == due_ms

    @invariant()
    def holds_the_same_keys(self) -> None:
        assert len(self.deadlines) == len(self.model)
        assert all(key in self.deadlines for key in self.model)

    def teardown(self) -> None:
        taken = drained(self.deadlines)
        assert dict(taken) == self.model
        assert [due_ms for _, due_ms in taken] == sorted(self.model.values())


TestAgainstADictionary = AgainstADictionary.TestCase
TestAgainstADictionary.settings = settings(max_examples=50, stateful_step_count=40)


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), TIMES)), max_size=300))
def test_any_sequence_of_moves_and_cancellations_comes_out_in_order(moves: list[tuple[int, int | None]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for key, due_ms in moves:
        if due_ms is None:
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            deadlines.set(key, due_ms)
            model[key] = due_ms

    taken = drained(deadlines)

    assert dict(taken) == model
    assert [due_ms for _, due_ms in taken] == sorted(model.values())


def drained(deadlines: Deadlines[int] | Deadlines[str]) -> list[tuple[int | str, int]]:
    taken: list[tuple[int | str, int]] = []
    while (key := deadlines.next_key()) is not None:
        due_ms = deadlines.next_ms()
        assert due_ms is not None
        taken.append((key, due_ms))
        deadlines.cancel(key)  # pyright: ignore[reportArgumentType]
    return taken
