"""Remembered positions of batches in a segment, so that most reads need neither an index nor a batch header.

It has the newest batches, for consumers at the tail, and where reads ended, for consumers that read on from there.
"""

from bisect import bisect_left, bisect_right
from typing import Final

_TAIL_BATCHES: Final = 64
_ENDS_MAX: Final = 64


class PositionCache:
    __slots__ = ("_ends", "_last_end", "_tail_offsets", "_tail_positions")

    def __init__(self) -> None:
        # Last offsets and positions of the newest batches, without gaps.
        self._tail_offsets: list[int] = []
        self._tail_positions: list[int] = []
        # Positions at which reads ended, by the first offset of the batch there; and the latest of these.
        self._ends: dict[int, int] = {}
        self._last_end = (-1, -1)

    def note_batch(self, last_offset: int, position: int) -> None:
        """Adds the newest batch."""
        offsets = self._tail_offsets
        offsets.append(last_offset)
        self._tail_positions.append(position)
        if len(offsets) > 2 * _TAIL_BATCHES:
            del offsets[:_TAIL_BATCHES]
            del self._tail_positions[:_TAIL_BATCHES]

    def note_end(self, position: int, base_offset: int) -> None:
        """A read ends at `position`, where the batch with that first offset begins."""
        if len(self._ends) == _ENDS_MAX:
            self._ends.clear()
        self._ends[base_offset] = position
        self._last_end = position, base_offset

    def forget(self) -> None:
        self._tail_offsets.clear()
        self._tail_positions.clear()
        self._ends.clear()
        self._last_end = (-1, -1)

    def locate(self, offset: int) -> int | None:
        """The position of the first batch whose last offset is at or after `offset`."""
        tail = self._tail_offsets
        if tail and offset <= tail[-1] and (offset > tail[0] or self._tail_positions[0] == 0):
            return self._tail_positions[bisect_left(tail, offset)]
        return self._ends.get(offset)

    def start_before(self, position: int) -> int | None:
        """The position of the last batch that begins at or before `position`."""
        tail = self._tail_positions
        return tail[bisect_right(tail, position) - 1] if tail and position >= tail[0] else None

    def end_offset_at(self, position: int) -> int | None:
        """The offset after the last batch that begins before `position`."""
        if position == self._last_end[0]:
            return self._last_end[1]
        tail = self._tail_positions
        return self._tail_offsets[bisect_left(tail, position) - 1] + 1 if tail and position > tail[0] else None
