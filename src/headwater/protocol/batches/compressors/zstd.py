"""Zstandard."""

from collections.abc import Iterator

from backports import zstd

from headwater.protocol.batches.compressors.bounds import Buffer, Compressor, decompress_frames, decompressed_parts

DAMAGE = zstd.ZstdError


def compress(data: Buffer, level: int | None) -> bytes:
    return zstd.compress(data, level)


def compressor(level: int | None) -> Compressor:
    return zstd.ZstdCompressor(level=level)


def decompress(data: Buffer, bytes_max: int) -> bytes:
    return decompress_frames(zstd.ZstdDecompressor, data, bytes_max)


def decompress_in_parts(data: Buffer, bytes_max: int) -> Iterator[bytes]:
    return decompressed_parts(zstd.ZstdDecompressor, data, bytes_max)
