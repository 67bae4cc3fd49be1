"""Defers Ctrl-C and SIGTERM to safe moments, for commands that must not lose count of what they have done."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Self


class Interruption:
    """Raises KeyboardInterrupt on Ctrl-C and SIGTERM. In a `deferred` block it is raised at the end of the block, or in
    an `allowed` block inside it.

    A second signal is never deferred: the command may be waiting for a broker or a pipe that no longer responds.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_deferred = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Generator[None]:
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self._raise_if_requested()

    @contextmanager
    def allowed(self) -> Generator[None]:
        """A part of a `deferred` block where an interruption loses nothing, such as a wait."""
        self._is_deferred = False
        try:
            self._raise_if_requested()
            yield
        finally:
            self._is_deferred = True

    def _raise_if_requested(self) -> None:
        if self.is_requested:
            raise KeyboardInterrupt

    def _interrupt(self, *_: object) -> None:
        is_first, self.is_requested = not self.is_requested, True
        if not (self._is_deferred and is_first):
            raise KeyboardInterrupt
