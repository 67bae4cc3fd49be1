"""Ctrl-C and SIGTERM at chosen moments only, for commands that would lose count of what they have done."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Self


class Interruption:
    """Ends a command with KeyboardInterrupt, except where it is held: there at the end of that, or where it is let in.

    Asked a second time it does not wait: whoever the command waits for may have stopped to answer.
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
        """A moment within `held` at which nothing is lost, such as a wait."""
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
