"""The memory that requests in flight may take together. Where it is used up, sockets wait; nothing is refused."""

from collections import deque
from collections.abc import Callable


class RequestMemory:
    def __init__(self, bytes_max: int, reclaim: Callable[[], None]) -> None:
        """`reclaim` has buffers that are kept between requests, but hold none, given back."""
        self.bytes_max = bytes_max
        self._reclaim = reclaim
        self.used = 0
        self.waiting: deque[Callable[[], None]] = deque()
        # Who may go on beyond the limit, by at most one request: if all waited for each other, none would be finished.
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
