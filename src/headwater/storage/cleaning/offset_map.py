"""The latest offset of every key, in bounded memory, by which compaction decides what stays."""

from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 16
# A dictionary slot, the bytes object and the integer, measured on CPython and rounded up.
_BYTES_PER_KEY: Final = 224


class OffsetMap:
    __slots__ = ("_keys_max", "_offsets")

    def __init__(self, memory_bytes_max: int) -> None:
        self._keys_max = max(memory_bytes_max // _BYTES_PER_KEY, 1)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int, *, is_forced: bool = False) -> bool:
        """False: the map is full and the key is not in it."""
        digest = _digest(key)
        if len(self._offsets) >= self._keys_max and digest not in self._offsets and not is_forced:
            return False
        self._offsets[digest] = offset
        return True

    def is_latest(self, key: bytes, offset: int) -> bool:
        return offset >= self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    # A short key is its own digest; its length keeps it apart from all others.
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
