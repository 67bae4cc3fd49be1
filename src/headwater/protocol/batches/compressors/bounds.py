"""Bounds for all codecs: output is bounded before it is allocated, and so is the number of frames."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.invalid_record import InvalidRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

# No client is known to write more than one frame, and each frame costs a copy of all bytes behind it.
FRAMES_MAX: Final = 16

# What is decompressed in one step where a batch is read in parts. The steps release the GIL; work on a part
# keeps it, for about 0.3 ms.
PART_BYTES: Final = 128 * 1024


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


class Compressor(Protocol):
    """Compresses what comes in parts."""

    def compress(self, data: Buffer, /) -> bytes: ...
    def flush(self) -> bytes: ...


def decompressed_parts(create: Callable[[], Decompressor], data: Buffer, bytes_max: int) -> Iterator[bytes]:
    """As `decompress_frames`, in parts of up to PART_BYTES."""
    view = memoryview(data)
    position, remaining = 0, bytes_max
    for _ in range(FRAMES_MAX):
        frame = create()
        while not frame.eof:
            given = b""
            if frame.needs_input:
                # Little at a time: what the library cannot use yet, it copies at each step.
                given = view[position : position + PART_BYTES]
                position += len(given)
                if not given:
                    raise InvalidRecord("batch ends inside its compressed frame")
            part = frame.decompress(given, PART_BYTES)
            remaining -= len(part)
            if remaining < 0:
                raise DecompressedTooLarge(bytes_max)
            if part:
                yield part
        position -= len(frame.unused_data or b"")
        if position == len(view):
            return
    raise InvalidRecord(f"batch has more than {FRAMES_MAX} compressed frames")


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
