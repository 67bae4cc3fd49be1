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
        self.is_wanted = False
        self._is_held = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Generator[None]:
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        self._raise_if_wanted()

    @contextmanager
    def let_in(self) -> Generator[None]:
        """A moment within `held` at which nothing is lost, such as a wait."""
        self._is_held = False
        try:
            self._raise_if_wanted()
            yield
        finally:
            self._is_held = True

    def _raise_if_wanted(self) -> None:
        if self.is_wanted:
            raise KeyboardInterrupt

    def _interrupt(self, *_: object) -> None:
        is_first, self.is_wanted = not self.is_wanted, True
        if not (self._is_held and is_first):
            raise KeyboardInterrupt
