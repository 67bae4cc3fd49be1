"""A set of offsets, kept as runs: what is redriven is mostly contiguous, and may be a million letters."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class OffsetRuns:
    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        # Sorted, and with gaps between them.
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        # The runs that overlap the new one or touch it become one with it.
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset <= self._lasts[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))


def runs_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs = OffsetRuns()
    for offset in offsets:
        runs.add(offset, offset)
    return list(runs)
