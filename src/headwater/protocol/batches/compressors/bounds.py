"""Bounds for all codecs: output is bounded before it is allocated, and so is the number of frames."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.records import InvalidRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

# No client is known to write more than one frame, and each frame costs a copy of all bytes behind it.
FRAMES_MAX: Final = 16


class DecompressedTooLarge(CorruptBatch):
    """On this code Kafka's clients split the batch, which is the remedy where a batch is too large."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"batch decompresses to more than the limit of {bytes_max} bytes")


class Decompressor(Protocol):
    """The interface of lz4 and zstd: one object per frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


def decompress_frames(create: Callable[[], Decompressor], data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for _ in range(FRAMES_MAX):
        frame = create()
        # lz4 allocates all that it may return, so each step allows for a common compression ratio only.
        step = 8 * len(data) + 65536
        while not frame.eof:
            part = frame.decompress(data, min(step, remaining + 1))
            remaining -= len(part)
            if remaining < 0:
                raise DecompressedTooLarge(bytes_max)
            parts.append(part)
            if frame.needs_input and not frame.eof:
                raise InvalidRecord("batch ends inside its compressed frame")
            data = b""
        data = frame.unused_data or b""
        if not data:
            return b"".join(parts)
    raise InvalidRecord(f"batch has more than {FRAMES_MAX} compressed frames")
