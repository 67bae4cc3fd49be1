"""Large buffers that serve the same purpose one after another: fresh memory costs more than to fill it.

Law: a buffer is used again only when nobody holds a view of it any more, so whoever hands one out hands out a view.
"""

from typing import Final

KEPT_MAX: Final = 3
BYTES_MAX: Final = 16 * 1024 * 1024


class Buffers:
    """Keeps up to KEPT_MAX buffers: one is filled while the last is worked on and the one before it is on its way."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def get(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, which hold anything. It is the caller's from the first view on, and until
        then he may make it larger."""
        for buffer in self._kept:
            if len(buffer) >= size and _is_free(buffer):
                return buffer
        fresh = bytearray(size)
        if size <= BYTES_MAX:
            self._kept = [*self._kept[1 - KEPT_MAX :], fresh]
        return fresh


def _is_free(buffer: bytearray) -> bool:
    """Python refuses to change the size of what somebody has a view of."""
    try:
        # Smaller first: all would be copied to where there is room for one more.
        buffer.append(buffer.pop())
    except (BufferError, IndexError):
        return False
    return True
