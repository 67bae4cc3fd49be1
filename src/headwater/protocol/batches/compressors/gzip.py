"""gzip, by zlib."""

import zlib

from headwater.protocol.batches.compressors.bounds import FRAMES_MAX, Buffer, DecompressedTooLarge
from headwater.protocol.batches.records import InvalidRecord

DAMAGE = zlib.error

_GZIP = 31  # zlib's window bits for a gzip header and the largest window


def compress(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP)


def decompress(data: Buffer, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    remaining = bytes_max
    for _ in range(FRAMES_MAX):
        member = zlib.decompressobj(_GZIP)
        # One byte more than allowed: it tells too much from just enough, and zlib takes 0 for no limit.
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
