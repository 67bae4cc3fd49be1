"""lz4 in its frame format."""

from collections.abc import Callable
from typing import cast

import lz4.frame

from headwater.protocol.batches.compressors.bounds import Buffer, Decompressor, decompress_frames

DAMAGE = RuntimeError

_create_decompressor = cast("Callable[[], Decompressor]", lz4.frame.LZ4FrameDecompressor)


def compress(data: Buffer, level: int | None) -> bytes:
    # Kafka's Java reader supports independent blocks only.
    return cast("bytes", lz4.frame.compress(data, compression_level=level or 0, block_linked=False))


def decompress(data: Buffer, bytes_max: int) -> bytes:
    return decompress_frames(_create_decompressor, data, bytes_max)
