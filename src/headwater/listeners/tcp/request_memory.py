"""The memory that requests in flight share. While it is used up, sockets are not read; nothing is refused."""

from collections import deque
from collections.abc import Callable


class RequestMemory:
    def __init__(self, bytes_max: int, reclaim: Callable[[], None]) -> None:
        """`reclaim` has connections give back buffers that hold no request."""
        self.bytes_max = bytes_max
        self._reclaim = reclaim
        self.used = 0
        self.waiting: deque[Callable[[], None]] = deque()
        # The one buffer that may grow beyond the limit, by at most one request. Otherwise half-read requests that wait
        # for each other's memory would deadlock.
        self._favoured: object | None = None

    def take(self, size: int, taker: object) -> bool:
        if self.used + size > self.bytes_max and self._favoured is not taker:
            if self._favoured is not None:
                return False
            self._favoured = taker
        self.used += size
        return True

    def give_back(self, size: int, taker: object) -> None:
        self.used -= size
        if self._favoured is taker:
            self._favoured = None
        if size and self.waiting:
            waiting, self.waiting = self.waiting, deque()
            for resume in waiting:
                resume()

    def is_scarce(self) -> bool:
        return self.used > self.bytes_max // 2

    def wait(self, resume: Callable[[], None]) -> None:
        self.waiting.append(resume)
        self._reclaim()
