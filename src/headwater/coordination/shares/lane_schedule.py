"""Which lane of a queue is served next: weighted fair queuing by deficit round robin, the most urgent lane first.

Pure and volatile: it decides about order alone, and a restart begins with a new round.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.protocol.batches.directives import PRIORITIES

LANES: Final = range(PRIORITIES)


class LaneLimits(NamedTuple):
    """The settings that decide about lanes."""

    # How many records each lane gives in a round (headwater.share.priority.weights).
    weights: Sequence[int] = (50, 25, 15, 7, 3)
    # A lane that waits for so long is served next (headwater.share.priority.boost.ms).
    boost_ms: int = 30_000
    # With so many ranges of records in different states, records are given in the order of the log
    # (headwater.share.priority.ranges.max).
    ranges_max: int = 20_000


class Choice(NamedTuple):
    lane: int
    # How many of its records may be given before the next choice.
    records_max: int
    # Whether the lane is served because it waited for too long.
    is_boost: bool = False


class LaneSchedule:
    """Records are given in rounds. A round gives each lane credit for as many records as its weight says, and ends when
    no lane that has records has credit left. Of those that have both, the most urgent lane is next: a record that comes
    into an empty lane need not wait for a turn. Credit is not saved up for the next round."""

    __slots__ = ("_credits", "_waiting_since_ms")

    def __init__(self) -> None:
        self._credits = [0 for _ in LANES]
        # Since when each lane has records and gives none; None if it is empty.
        self._waiting_since_ms: list[int | None] = [None for _ in LANES]

    def observe(self, has_records: Sequence[bool], now_ms: int) -> None:
        """Which lanes have records. Their waiting counts from here on: nobody asked before."""
        for lane in LANES:
            if not has_records[lane]:
                self._waiting_since_ms[lane] = None
            elif self._waiting_since_ms[lane] is None:
                self._waiting_since_ms[lane] = now_ms

    def choose(self, has_records: Sequence[bool], limits: LaneLimits, now_ms: int) -> Choice:
        """One of the lanes that have records."""
        starving = self._starving(has_records, limits, now_ms)
        if starving is not None:
            return Choice(starving, 1, is_boost=True)
        assert any(has_records), "there is a lane to choose"
        while True:
            for lane in LANES:
                if has_records[lane] and self._credits[lane] > 0:
                    return Choice(lane, self._credits[lane])
            for lane in LANES:
                # What a lane gave out of turn is debt, of less than a round.
                self._credits[lane] = limits.weights[lane] + min(self._credits[lane], 0)

    def _starving(self, has_records: Sequence[bool], limits: LaneLimits, now_ms: int) -> int | None:
        """The lane that has waited for longest, if that is too long."""
        longest: int | None = None
        since_ms = now_ms - limits.boost_ms
        for lane in LANES:
            waiting_since_ms = self._waiting_since_ms[lane]
            if has_records[lane] and waiting_since_ms is not None and waiting_since_ms <= since_ms:
                longest, since_ms = lane, waiting_since_ms - 1
        return longest

    def served(self, lane: int, count: int, limits: LaneLimits, now_ms: int) -> None:
        """The lane gave records."""
        self._credits[lane] = max(self._credits[lane] - count, 1 - limits.weights[lane])
        self._waiting_since_ms[lane] = now_ms
