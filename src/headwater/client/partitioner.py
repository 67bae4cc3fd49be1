"""Which partition a record goes to: by its key as the Java client does it, else one partition at a time in turn."""

import struct

_INT32 = struct.Struct("<I")
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """The hash of Kafka's Java client, as an unsigned number."""
    size = len(key)
    tail = size & 3
    result = _SEED ^ size
    with memoryview(key)[: size - tail] as words:
        for (word,) in _INT32.iter_unpack(words):
            word = word * _MULTIPLIER & _MASK
            word = (word ^ word >> 24) * _MULTIPLIER & _MASK
            result = result * _MULTIPLIER & _MASK ^ word
    if tail:
        result = (result ^ int.from_bytes(key[-tail:], "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
