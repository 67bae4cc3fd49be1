"""Exponential backoff with a deadline: how long to pause before a retry, and when to give up."""

from collections.abc import Callable

from headwater.client.errors import ClientError
from headwater.clock import Clock

FIRST_PAUSE_MS = 20
PAUSE_MS_MAX = 1_000


class Backoff:
    """Each pause is twice as long as the one before. After the deadline, `pause` raises the error it is given."""

    def __init__(self, timeout_ms: int, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._deadline_ms = clock.monotonic_ms() + timeout_ms
        self._pause_ms = FIRST_PAUSE_MS

    def pause(self, error: ClientError) -> None:
        remaining_ms = self._deadline_ms - self._clock.monotonic_ms()
        if remaining_ms <= 0:
            raise error
        self._sleep(min(self._pause_ms, remaining_ms) / 1000)
        self._pause_ms = min(self._pause_ms * 2, PAUSE_MS_MAX)
