"""Offsets in order, as runs of the same state, so that a million records cost no more than the changes between them."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from headwater.coordination.shares.terms import DeliveryState
from headwater.ids import MemberId

NOBODY = MemberId("")

_AVAILABLE, _ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
_WAITING, _PENDING = DeliveryState.WAITING, DeliveryState.PENDING
_ACKNOWLEDGED, _ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED


class Run(NamedTuple):
    first: int
    last: int
    state: DeliveryState
    delivery_count: int
    # Who holds it and until when, on the monotonic clock, if it is acquired; if it waits, for how long. If it is
    # pending, who held it.
    member_id: MemberId = NOBODY
    deadline_ms: int = 0

    @property
    def is_final(self) -> bool:
        return self.state is _ACKNOWLEDGED or self.state is _ARCHIVED

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Runs:
    """All offsets from `start` up to `end`; those from `end` on were never given to a member.

    Neighbours in final states become one run, also if one is accepted and one rejected: a record that stays unfinished
    for long would otherwise pile up as many runs behind it as there are changes between accepted and rejected ones.
    """

    __slots__ = (
        "_available_from",
        "_firsts",
        "_runs",
        "available_count",
        "end",
        "final_count",
        "start",
        "waiting_count",
    )

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.available_count = 0
        self.final_count = 0
        self.waiting_count = 0
        self._firsts: list[int] = []
        self._runs: list[Run] = []
        # No offset before this one is available.
        self._available_from = start

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        """The number of runs, not of offsets."""
        return len(self._runs)

    @property
    def unfinished_count(self) -> int:
        return self.end - self.start - self.final_count

    @property
    def acquired_count(self) -> int:
        """Of those that are held, also for an open transaction."""
        return self.unfinished_count - self.available_count - self.waiting_count

    def copy(self) -> "Runs":
        same = Runs(self.start)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(same, name, value.copy() if isinstance(value, list) else value)
        return same

    def at(self, offset: int) -> Run | None:
        """The run that holds the offset; None outside of start and end."""
        if not self.start <= offset < self.end:
            return None
        return self._runs[bisect_right(self._firsts, offset) - 1]

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs that overlap these offsets, not cut to them."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if first > last:
            return
        for number in range(bisect_right(self._firsts, first) - 1, len(self._runs)):
            run = self._runs[number]
            if run.first > last:
                return
            yield run

    def first_available(self) -> int:
        """The first offset that may be acquired; `end` if none before it may."""
        if not self.available_count:
            return self.end
        for run in self.within(self._available_from, self.end - 1):
            if run.state is _AVAILABLE:
                self._available_from = run.first
                return run.first
        raise AssertionError("available offsets are counted wrongly")

    def set(self, run: Run) -> None:
        """Put offsets into a state. Those before the start are ignored; a gap behind the end becomes available."""
        first, last, state, count, member_id, deadline_ms = run
        if first < self.start:
            if last < self.start:
                return
            first = self.start
        if first > self.end:
            self._append(Run(self.end, first - 1, _AVAILABLE, 0))
        if first == self.end:
            self._append(Run(first, last, state, count, member_id, deadline_ms))
            return
        if last >= self.end:
            self._set_inside(Run(first, self.end - 1, state, count, member_id, deadline_ms))
            self._append(Run(self.end, last, state, count, member_id, deadline_ms))
        else:
            self._set_inside(Run(first, last, state, count, member_id, deadline_ms))

    def advance(self, start: int) -> None:
        """Forget all offsets before `start`."""
        if start <= self.start:
            return
        if start >= self.end:
            self._firsts.clear()
            self._runs.clear()
            self.start = self.end = self._available_from = start
            self.available_count = self.final_count = self.waiting_count = 0
            return
        number = bisect_right(self._firsts, start) - 1
        for run in self._runs[:number]:
            self._count(run, -1)
        cut = self._runs[number]
        self._count(cut, -1)
        self._runs[: number + 1] = [kept := Run(start, *cut[1:])]
        self._firsts[: number + 1] = [start]
        self._count(kept, 1)
        self.start = start

    def _append(self, run: Run) -> None:
        self._count(run, 1)
        self.end = run.last + 1
        if self._runs:
            merged = _merged(self._runs[-1], run)
            if merged is not None:
                self._runs[-1] = merged
                return
        self._runs.append(run)
        self._firsts.append(run.first)

    def _set_inside(self, run: Run) -> None:
        runs, firsts = self._runs, self._firsts
        low = bisect_right(firsts, run.first) - 1
        high = bisect_right(firsts, run.last) - 1
        head, tail = runs[low], runs[high]
        for each in runs[low : high + 1]:
            self._count(each, -1)
        pieces: list[Run] = []
        if head.first < run.first:
            pieces.append(Run(head.first, run.first - 1, *head[2:]))
        elif low > 0:
            # A neighbour that may have come to be in the same state.
            low -= 1
            pieces.append(runs[low])
            self._count(runs[low], -1)
        pieces.append(run)
        if tail.last > run.last:
            pieces.append(Run(run.last + 1, *tail[1:]))
        elif high + 1 < len(runs):
            high += 1
            pieces.append(runs[high])
            self._count(runs[high], -1)
        placed = pieces[:1]
        for piece in pieces[1:]:
            merged = _merged(placed[-1], piece)
            if merged is None:
                placed.append(piece)
            else:
                placed[-1] = merged
        runs[low : high + 1] = placed
        firsts[low : high + 1] = [piece.first for piece in placed]
        for piece in placed:
            self._count(piece, 1)

    def _count(self, run: Run, sign: int) -> None:
        if run.state is _AVAILABLE:
            self.available_count += sign * run.size
            if sign > 0 and run.first < self._available_from:
                self._available_from = run.first
        elif run.state is _WAITING:
            self.waiting_count += sign * run.size
        elif run.state is not _ACQUIRED and run.state is not _PENDING:
            self.final_count += sign * run.size


def _merged(left: Run, right: Run) -> Run | None:
    """Both as one run; None if they differ."""
    if left[2:] == right[2:]:
        return Run(left.first, right.last, *left[2:])
    if left.is_final and right.is_final:
        state = _ACKNOWLEDGED if left.state is right.state is _ACKNOWLEDGED else _ARCHIVED
        return Run(left.first, right.last, state, max(left.delivery_count, right.delivery_count))
    return None
