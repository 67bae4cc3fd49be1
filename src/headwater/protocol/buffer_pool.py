"""Large buffers that are used again and again: allocating fresh memory costs more than filling it.

Law: a buffer is used again only when nobody holds a view of it, so its user must hand out views, never the buffer.
"""

from typing import Final

KEPT_MAX: Final = 3
BYTES_MAX: Final = 16 * 1024 * 1024


class BufferPool:
    """Keeps up to KEPT_MAX buffers: one is filled while the last is decoded and the one before it is on its way."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def get(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with arbitrary contents. The pool may give it to others until the caller
        takes a view of it; until then the caller may also enlarge it."""
        for buffer in self._kept:
            if len(buffer) >= size and _is_free(buffer):
                return buffer
        fresh = bytearray(size)
        if size <= BYTES_MAX:
            self._kept = [*self._kept[1 - KEPT_MAX :], fresh]
        return fresh


def _is_free(buffer: bytearray) -> bool:
    """Python refuses to resize a bytearray while there is a view of it."""
    try:
        # Shrinks before it grows: growing first might copy the whole buffer to a larger allocation.
        buffer.append(buffer.pop())
    except (BufferError, IndexError):
        return False
    return True
