"""A limit on how often something may happen. Pure: the caller says what time it is."""


class TokenBucket:
    """Holds up to one second's worth of tokens."""

    __slots__ = ("_filled_ms", "_tokens", "per_second")

    def __init__(self, per_second: int, now_ms: int) -> None:
        self.per_second = per_second
        self._tokens = float(per_second)
        self._filled_ms = now_ms

    def take(self, now_ms: int) -> bool:
        """Whether it may happen once more."""
        elapsed_ms, self._filled_ms = now_ms - self._filled_ms, now_ms
        self._tokens = min(self._tokens + elapsed_ms * self.per_second / 1000, self.per_second)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
