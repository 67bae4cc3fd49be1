"""snappy, in xerial's framing or as one bare block."""

import struct
from collections.abc import Iterator

import cramjam

from headwater.protocol.batches.compressors.bounds import PART_BYTES, Buffer, Compressor, DecompressedTooLarge
from headwater.protocol.batches.records import InvalidRecord

DAMAGE = cramjam.DecompressionError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">I")


def compress(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001 (snappy has none)
    """Writes xerial's framing, as the Java client does: every client can read it."""
    return b"".join([_XERIAL_HEADER, *_compressed_blocks(memoryview(data))])


def _compressed_blocks(view: memoryview) -> Iterator[bytes]:
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        yield _BLOCK_LENGTH.pack(len(block))
        yield block


class _Compressor:
    def __init__(self) -> None:
        self._begun = _XERIAL_HEADER
        # Less than a block.
        self._kept = b""

    def compress(self, data: Buffer) -> bytes:
        view = memoryview(self._kept + data if self._kept else data)
        end = len(view) - len(view) % _XERIAL_BLOCK_BYTES
        begun, self._begun, self._kept = self._begun, b"", bytes(view[end:])
        return b"".join([begun, *_compressed_blocks(view[:end])])

    def flush(self) -> bytes:
        return b"".join([self._begun, *_compressed_blocks(memoryview(self._kept))])


def compressor(level: int | None) -> Compressor:  # noqa: ARG001 (snappy has none)
    return _Compressor()


def decompress(data: Buffer, bytes_max: int) -> bytes:
    return b"".join([bytes(part) for part in _decompressed_blocks(data, bytes_max)])


def decompress_in_parts(data: Buffer, bytes_max: int) -> Iterator[memoryview]:
    """The library knows whole blocks only, and a block may be a whole batch."""
    for block in _decompressed_blocks(data, bytes_max):
        view = memoryview(block)
        for position in range(0, len(view), PART_BYTES):
            yield view[position : position + PART_BYTES]


def _decompressed_blocks(data: Buffer, bytes_max: int) -> Iterator[cramjam.Buffer]:
    remaining = bytes_max
    for block in _blocks(memoryview(data)):
        # The library allocates the size that the block claims, so the claim is checked first.
        remaining -= cramjam.snappy.decompress_raw_len(block)
        if remaining < 0:
            raise DecompressedTooLarge(bytes_max)
        yield cramjam.snappy.decompress_raw(block)


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
