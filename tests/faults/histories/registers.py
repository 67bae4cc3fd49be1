"""The committed offset of a group and partition is a register: which values may a read in a given interval return?

Sound rather than complete: a value is ruled out only if no order of the operations explains it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.histories.recording import Operation

NOTHING = -1


class Access(NamedTuple):
    """A write that may have taken effect, or a read that was answered."""

    begun_ns: float
    ended_ns: float
    value: int
    operation: Operation


class Register:
    def __init__(self, writes: Sequence[Access], reads: Sequence[Access] = ()) -> None:
        nothing = Operation("nobody", 0, "nothing", -math.inf, -math.inf, "ok")
        self.writes = [Access(-math.inf, -math.inf, NOTHING, nothing), *writes]
        # Reads in order, each with the earliest write that it can have read from.
        self._seen: list[tuple[Access, float]] = []
        for read in sorted(reads, key=lambda each: each.ended_ns):
            sources = [
                each.begun_ns for each in self.possible(read.begun_ns, read.ended_ns) if each.value == read.value
            ]
            self._seen.append((read, min(sources, default=-math.inf)))

    def possible(self, begun_ns: float, ended_ns: float) -> Sequence[Access]:
        """The writes whose value a read in this interval may return."""
        # A write is overwritten if it ended before the start of another write that was known (answered, or read) before
        # this read.
        barrier_ns = max(
            [write.begun_ns for write in self.writes if write.ended_ns < begun_ns]
            + [source_ns for read, source_ns in self._seen if read.ended_ns < begun_ns]
        )
        return [write for write in self.writes if write.begun_ns < ended_ns and write.ended_ns >= barrier_ns]
