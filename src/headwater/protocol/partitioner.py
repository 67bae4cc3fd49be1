"""The partition of a key, computed as the Java client does, so that all producers of a topic agree."""

import struct

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """The hash of Kafka's Java client, as an unsigned number."""
    size = len(key)
    tail = size & 3
    result = _SEED ^ size
    for word in struct.unpack_from(f"<{size >> 2}I", key):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER
        result = (result * _MULTIPLIER ^ word) & _MASK
    if tail:
        result = (result ^ int.from_bytes(key[-tail:], "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
