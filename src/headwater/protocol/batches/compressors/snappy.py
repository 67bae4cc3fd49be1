"""snappy, in xerial's framing or as one bare block."""

import struct
from collections.abc import Iterator

import cramjam

from headwater.protocol.batches.compressors.bounds import Buffer, DecompressedTooLarge
from headwater.protocol.batches.records import InvalidRecord

DAMAGE = cramjam.DecompressionError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">I")


def compress(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001 (snappy has none)
    """Writes xerial's framing, as the Java client does: every client can read it."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def decompress(data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for block in _blocks(memoryview(data)):
        # The library allocates the size that the block claims, so the claim is checked first.
        remaining -= cramjam.snappy.decompress_raw_len(block)
        if remaining < 0:
            raise DecompressedTooLarge(bytes_max)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
    return b"".join(parts)


def _blocks(data: memoryview) -> Iterator[memoryview]:
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
