"""gzip, by zlib."""

import zlib
from collections.abc import Iterator

from headwater.protocol.batches.compressors.bounds import (
    FRAMES_MAX,
    Buffer,
    Compressor,
    DecompressedTooLarge,
    decompressed_parts,
)
from headwater.protocol.batches.records import InvalidRecord

DAMAGE = zlib.error

_GZIP = 31  # zlib's window bits for a gzip header and the largest window


def compress(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP)


def compressor(level: int | None) -> Compressor:
    return zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP)


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


def decompress_in_parts(data: Buffer, bytes_max: int) -> Iterator[bytes]:
    return decompressed_parts(_Member, data, bytes_max)


class _Member:
    """One member of a gzip file, with the interface of the other libraries."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_GZIP)
        self._was_filled = False

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        # zlib may keep output back when it has filled what it was given, also after it took all of the input.
        return not self._zlib.unconsumed_tail and not self._was_filled

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: Buffer, max_length: int) -> bytes:
        part = self._zlib.decompress(data or self._zlib.unconsumed_tail, max_length)
        self._was_filled = len(part) == max_length
        return part
