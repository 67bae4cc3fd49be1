"""Kafka's compression codecs.

Law: output is bounded before it is allocated, for a batch of 1 KiB may claim to hold 1 GiB.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, Protocol, TypeAlias, cast

import cramjam
import lz4.frame
from backports import zstd

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.records import InvalidRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

# No client is known to write more than one, and each further one costs a copy of all that follows it.
FRAMES_MAX: Final = 16

_GZIP = 31  # zlib's window bits for a gzip header and the largest window
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">I")


class Codec(IntEnum):
    """The codec's number in a batch's attributes; the lower-case name is the one in settings."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnsupportedCodec(CorruptBatch):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def __init__(self, codec: int) -> None:
        super().__init__(f"compression codec {codec} is not known")


class DecompressedTooLarge(CorruptBatch):
    """Kafka's clients answer this code by splitting the batch, which is what helps an honest one."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"batch decompresses to more than the limit of {bytes_max} bytes")


class _Decompressor(Protocol):
    """The shape that lz4 and zstd share: one object per frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level` is in the codec's own scale; snappy has none."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP)
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            # Kafka's Java reader knows independent blocks only.
            return cast("bytes", lz4.frame.compress(data, compression_level=level or 0, block_linked=False))
        case Codec.ZSTD:
            return zstd.compress(data, level)
        case _:
            raise UnsupportedCodec(codec)


def decompress(codec: int, data: Buffer, bytes_max: int) -> bytes:
    """More than `bytes_max` bytes, or bytes that are not what the codec writes, are refused.

    The checksum has already vouched for the bytes, so that a retry would not help: the code is not CORRUPT_MESSAGE.
    """
    try:
        match codec:
            case Codec.NONE:
                return _bounded(data, bytes_max)
            case Codec.GZIP:
                return _decompress_gzip(data, bytes_max)
            case Codec.SNAPPY:
                return _decompress_snappy(memoryview(data), bytes_max)
            case Codec.LZ4:
                create = cast("Callable[[], _Decompressor]", lz4.frame.LZ4FrameDecompressor)
                return _decompress_frames(create, data, bytes_max)
            case Codec.ZSTD:
                return _decompress_frames(zstd.ZstdDecompressor, data, bytes_max)
            case _:
                raise UnsupportedCodec(codec)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, zstd.ZstdError) as error:
        raise InvalidRecord(f"batch is not {Codec(codec).name.lower()}: {error}") from error


def _bounded(data: Buffer, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise DecompressedTooLarge(bytes_max)
    return bytes(data)


def _decompress_gzip(data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for _ in range(FRAMES_MAX):
        member = zlib.decompressobj(_GZIP)
        # One byte more than is allowed tells too much from just enough; zero would mean no limit.
        part = member.decompress(data, remaining + 1)
        remaining -= len(part)
        if remaining < 0:
            raise DecompressedTooLarge(bytes_max)
        if not member.eof:
            raise InvalidRecord("batch ends inside its gzip stream")
        parts.append(part)
        data = member.unused_data
        if not data:
            return b"".join(parts)
    raise InvalidRecord(f"batch has more than {FRAMES_MAX} gzip members")


def _decompress_frames(create: Callable[[], _Decompressor], data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for _ in range(FRAMES_MAX):
        frame = create()
        # lz4 allocates all that it is allowed to give, so a step is what such input commonly holds.
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


def _compress_snappy(data: memoryview) -> bytes:
    """xerial's framing, as the Java client writes it: every client reads that."""
    parts = [_XERIAL_HEADER]
    for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for block in _snappy_blocks(data):
        # The block names its size and the library allocates it: what it may claim is checked here.
        remaining -= cramjam.snappy.decompress_raw_len(block)
        if remaining < 0:
            raise DecompressedTooLarge(bytes_max)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
    return b"".join(parts)


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The Java client writes xerial's frame of blocks, librdkafka one bare block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield data
        return
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise InvalidRecord("batch ends inside its snappy header")
    while position < len(data):
        if len(data) - position < _BLOCK_LENGTH.size:
            raise InvalidRecord("batch ends inside a snappy block's length")
        length: int = _BLOCK_LENGTH.unpack_from(data, position)[0]
        position += _BLOCK_LENGTH.size
        if length > len(data) - position:
            raise InvalidRecord("batch ends inside a snappy block")
        yield data[position : position + length]
        position += length
