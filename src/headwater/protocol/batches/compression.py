"""Kafka's compression codecs.

Law: output is bounded before it is allocated, because a batch of 1 KiB may claim to hold 1 GiB.
"""

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.compressors.bounds import (
    FRAMES_MAX,
    PART_BYTES,
    Buffer,
    Compressor,
    DecompressedTooLarge,
)
from headwater.protocol.batches.records import InvalidRecord

__all__ = [
    "FRAMES_MAX",
    "PART_BYTES",
    "Buffer",
    "Codec",
    "Compressor",
    "DecompressedTooLarge",
    "UnsupportedCodec",
    "compress",
    "compressor",
    "decompress",
    "decompress_in_parts",
]


class Codec(IntEnum):
    """The codec's number in a batch's attributes. Its name in lower case is that in settings, and of its module."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnsupportedCodec(CorruptBatch):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def __init__(self, codec: int) -> None:
        super().__init__(f"compression codec {codec} is not known")


class _Library(Protocol):
    @property
    def DAMAGE(self) -> type[Exception]: ...  # noqa: N802
    def compress(self, data: Buffer, level: int | None) -> bytes: ...
    def decompress(self, data: Buffer, bytes_max: int) -> bytes: ...
    def compressor(self, level: int | None) -> Compressor: ...
    def decompress_in_parts(self, data: Buffer, bytes_max: int) -> Iterator[Buffer]: ...


@cache
def _library(codec: int) -> _Library:
    if codec not in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        raise UnsupportedCodec(codec)
    return cast("_Library", import_module(f"headwater.protocol.batches.compressors.{Codec(codec).name.lower()}"))


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level` is in the codec's own scale; snappy has none."""
    return bytes(data) if codec == Codec.NONE else _library(codec).compress(data, level)


def decompress(codec: int, data: Buffer, bytes_max: int) -> bytes:
    """Refuses output of more than `bytes_max` bytes, and input that the codec cannot have written.

    The checksum of the input was right, so a retry would not help: the error code is not CORRUPT_MESSAGE.
    """
    if not codec:
        if len(data) > bytes_max:
            raise DecompressedTooLarge(bytes_max)
        return bytes(data)
    library = _library(codec)
    try:
        return library.decompress(data, bytes_max)
    except library.DAMAGE as error:
        raise InvalidRecord(f"batch is not {Codec(codec).name.lower()}: {error}") from error


def compressor(codec: int, level: int | None = None) -> Compressor:
    """As `compress`, for data that comes in parts. Not for `Codec.NONE`."""
    return _library(codec).compressor(level)


def decompress_in_parts(codec: int, data: Buffer, bytes_max: int) -> Iterator[Buffer]:
    """As `decompress`, in parts of up to PART_BYTES, each of which is valid until the next."""
    if codec == Codec.NONE:
        view = memoryview(data)
        if len(view) > bytes_max:
            raise DecompressedTooLarge(bytes_max)
        for position in range(0, len(view), PART_BYTES):
            yield view[position : position + PART_BYTES]
        return
    library = _library(codec)
    try:
        yield from library.decompress_in_parts(data, bytes_max)
    except library.DAMAGE as error:
        raise InvalidRecord(f"batch is not {Codec(codec).name.lower()}: {error}") from error
