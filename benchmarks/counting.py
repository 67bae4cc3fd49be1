"""The cost of a piece of work, counted instead of timed: the same on every machine, however busy it is.

Instructions are those of Python's bytecode, in the thread that does the work; what runs in C counts as one. Allocations
are blocks of memory that are still there when the work is done and its result is kept.
"""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Instructions:
    """Counts instructions between `begin` and `end`, in the calling thread and in functions called in between."""

    def __init__(self) -> None:
        self.count = 0

    def begin(self) -> None:
        self.count = 0
        sys.settrace(self._enter)

    def end(self) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:  # noqa: ARG002
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:  # noqa: ARG002
        if event == "opcode":
            self.count += 1
        return self._step


def instructions(work: Callable[[], object], times: int = 5) -> int:
    """The minimum over several runs, because the first may compile or import modules."""
    counter = Instructions()
    counts: list[int] = []
    for _ in range(times):
        counter.begin()
        work()
        counter.end()
        counts.append(counter.count)
    return min(counts)


def allocations(work: Callable[[], object], times: int = 5) -> int:
    """The minimum over several runs."""
    counts: list[int] = []
    for _ in range(times):
        gc.collect()
        gc.disable()
        try:
            before = sys.getallocatedblocks()
            kept = work()
            counts.append(sys.getallocatedblocks() - before)
        finally:
            gc.enable()
        del kept
    return min(counts)
