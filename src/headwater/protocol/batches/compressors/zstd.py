"""Zstandard."""

from backports import zstd

from headwater.protocol.batches.compressors.bounds import Buffer, decompress_frames

DAMAGE = zstd.ZstdError


def compress(data: Buffer, level: int | None) -> bytes:
    return zstd.compress(data, level)


def decompress(data: Buffer, bytes_max: int) -> bytes:
    return decompress_frames(zstd.ZstdDecompressor, data, bytes_max)
