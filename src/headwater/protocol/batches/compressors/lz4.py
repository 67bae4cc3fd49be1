"""lz4 in its frame format."""

from collections.abc import Callable, Iterator
from typing import cast

import lz4.frame

from headwater.protocol.batches.compressors.bounds import (
    Buffer,
    Compressor,
    Decompressor,
    decompress_frames,
    decompressed_parts,
)

DAMAGE = RuntimeError

_create_decompressor = cast("Callable[[], Decompressor]", lz4.frame.LZ4FrameDecompressor)


def compress(data: Buffer, level: int | None) -> bytes:
    # Kafka's Java reader supports independent blocks only.
    return cast("bytes", lz4.frame.compress(data, compression_level=level or 0, block_linked=False))


class _Compressor:
    def __init__(self, level: int | None) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor(compression_level=level or 0, block_linked=False)
        self._begun = cast("bytes", self._frame.begin())

    def compress(self, data: Buffer) -> bytes:
        begun, self._begun = self._begun, b""
        return begun + cast("bytes", self._frame.compress(data))

    def flush(self) -> bytes:
        return self._begun + cast("bytes", self._frame.flush())


def compressor(level: int | None) -> Compressor:
    return _Compressor(level)


def decompress(data: Buffer, bytes_max: int) -> bytes:
    return decompress_frames(_create_decompressor, data, bytes_max)


def decompress_in_parts(data: Buffer, bytes_max: int) -> Iterator[bytes]:
    return decompressed_parts(_create_decompressor, data, bytes_max)
