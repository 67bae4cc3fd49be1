"""Unsigned varints and tagged fields, the building blocks of Kafka's flexible versions.

A read past the end raises IndexError, and other malformed bytes raise ValueError. The reader of the message turns both
into a ProtocolError with the name of the message.
"""

from typing import TypeAlias

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview


def read_unsigned_varint(buffer: ReadableBuffer, position: int) -> tuple[int, int]:
    """The value at `position`, and the position after it."""
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return continue_unsigned_varint(buffer, position + 1, first)


def continue_unsigned_varint(buffer: ReadableBuffer, position: int, first: int) -> tuple[int, int]:
    """Reads on after `first`, which has its high bit set; readers unpack that byte along with the fields before it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, position
    raise ValueError("a varint exceeds 32 bits")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tagged_fields(buffer: ReadableBuffer, position: int, count: int) -> int:
    """The position after `count` unknown tagged fields."""
    limit = len(buffer)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > limit:
            raise ValueError("a tagged field runs past the end")
    return position
