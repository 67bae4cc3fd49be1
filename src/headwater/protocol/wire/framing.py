"""Length-prefixed frames from a byte stream, sans I/O: receive into `space()`, then take `next_frame()`.

A frame is a slice of the connection's one buffer, valid until `space()` is called again. The buffer grows with the
bytes that have arrived, never with the size that a frame announces.
"""

from struct import Struct
from typing import Protocol

from headwater.errors import ProtocolError

SIZE_PREFIX_BYTES = 4
# A busy connection keeps a buffer of up to this size between frames, so that bulk data arrives in few, large reads. It
# keeps a larger one for as long as its frames need it: allocating memory for each frame costs more than filling it.
RETAINED_BYTES_MAX = 1 << 20
# The first two bytes of a client that speaks TLS: a handshake record of version 3.x (RFC 8446, 5.1).
_TLS_HANDSHAKE = 0x1603

_read_size = Struct(">i").unpack_from


class Memory(Protocol):
    """A memory budget that all connections share. Buffers take from it what they hold beyond their idle size.

    Frames take memory as their bytes arrive, so all of them could be half read when the budget is used up. To rule out
    that deadlock, one `taker` at a time may exceed the limit and finish its frame.
    """

    def take(self, size: int, taker: object) -> bool: ...

    def give_back(self, size: int, taker: object) -> None: ...

    def is_scarce(self) -> bool: ...


class FrameReader:
    __slots__ = (
        "_buffer",
        "_end",
        "_idle_bytes",
        "_memory",
        "_start",
        "_taken",
        "_was_filled",
        "frame_bytes_max",
        "frame_count",
    )

    def __init__(self, memory: Memory, *, frame_bytes_max: int, idle_bytes: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.frame_count = 0
        self._memory = memory
        self._idle_bytes = idle_bytes
        self._buffer = bytearray(idle_bytes)
        self._start = 0
        self._end = 0
        self._taken = 0
        self._was_filled = False

    @property
    def partial_bytes(self) -> int:
        """Bytes that have arrived of a frame that is not complete yet."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    def space(self) -> memoryview | None:
        """Where to receive the next bytes; None while the memory budget has no room for the frame that has begun."""
        if self._start == self._end:
            self._rewind()
            if not self._was_filled:
                return memoryview(self._buffer)
        if self._was_filled:
            self._widen()
        wanted = self._wanted_bytes()
        if self._start + wanted > len(self._buffer):
            self._move_to_front()
            if wanted > len(self._buffer) and not self._make_room(wanted):
                return None
        if wanted > RETAINED_BYTES_MAX // 4:
            # Stop at the end of a large frame: the next one then begins at the front, and nothing has to be moved.
            # Small frames are read together: that saves more than it costs to move the last, incomplete one.
            return memoryview(self._buffer)[self._end : self._start + wanted]
        return memoryview(self._buffer)[self._end :]

    def received(self, count: int) -> None:
        self._end += count
        self._was_filled = self._end == len(self._buffer)

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size prefix, or None until more bytes arrive."""
        start = self._start
        available = self._end - start
        if available < SIZE_PREFIX_BYTES:
            return None
        (size,) = _read_size(self._buffer, start)
        if size < 0 or size > self.frame_bytes_max:
            if size >> 16 == _TLS_HANDSHAKE:
                raise ProtocolError("the client speaks TLS, this port does not (security.protocol of the client)")
            raise ProtocolError(
                f"a request announces {size} bytes; at most {self.frame_bytes_max} are accepted "
                "(setting socket.request.max.bytes; of clients that have still to authenticate "
                "headwater.socket.request.max.bytes.unauthenticated)"
            )
        if available < SIZE_PREFIX_BYTES + size:
            return None
        self._start = start + SIZE_PREFIX_BYTES + size
        self.frame_count += 1
        return memoryview(self._buffer)[start + SIZE_PREFIX_BYTES : self._start]

    def relax(self) -> None:
        """Gives memory back. To be called when the connection has been quiet for a while."""
        if self._start == self._end and len(self._buffer) > self._idle_bytes:
            self._replace(self._idle_bytes)
            self._give_back()

    def close(self) -> None:
        self._start = self._end = 0
        self._replace(0)
        self._give_back()

    def _wanted_bytes(self) -> int:
        """Size of the frame that has begun, as far as it is known. `next_frame` has refused any that is too large."""
        if self._end - self._start < SIZE_PREFIX_BYTES:
            return SIZE_PREFIX_BYTES
        return SIZE_PREFIX_BYTES + int(_read_size(self._buffer, self._start)[0])

    def _rewind(self) -> None:
        filled = self._end
        self._start = self._end = 0
        if self._taken and (len(self._buffer) > max(RETAINED_BYTES_MAX, 2 * filled) or self._memory.is_scarce()):
            self._replace(self._idle_bytes)
            self._give_back()

    def _widen(self) -> None:
        """Doubles a buffer that the last read has filled: larger reads cost fewer system calls, and batches that arrive
        together are written together."""
        self._was_filled = False
        if len(self._buffer) < RETAINED_BYTES_MAX and not self._memory.is_scarce():
            self._grow(len(self._buffer) * 2)

    def _move_to_front(self) -> None:
        held = self._end - self._start
        buffer = memoryview(self._buffer)
        buffer[:held] = buffer[self._start : self._end]
        self._start, self._end = 0, held

    def _make_room(self, wanted: int) -> bool:
        """Takes memory as the bytes arrive, so that a frame which only announces its size costs nothing."""
        if self._end < len(self._buffer):
            return True
        # A power of two, so that the buffer also fits other frames of about this size.
        return self._grow(min(1 << (wanted - 1).bit_length(), len(self._buffer) * 2))

    def _grow(self, capacity: int) -> bool:
        missing = capacity - self._idle_bytes - self._taken
        if missing > 0:
            if not self._memory.take(missing, self):
                return False
            self._taken += missing
        self._replace(capacity)
        return True

    def _replace(self, capacity: int) -> None:
        buffer = bytearray(capacity)
        held = self._end - self._start
        buffer[:held] = memoryview(self._buffer)[self._start : self._end]
        self._buffer = buffer
        self._start, self._end = 0, held

    def _give_back(self) -> None:
        self._memory.give_back(self._taken, self)
        self._taken = 0
