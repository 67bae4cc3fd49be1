"""Protobuf's wire format: the fields of a message as they lie in it."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from headwater.registry.errors import InvalidPayload

_VARINT_BYTES_MAX = 10


class WireType(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    GROUP = 3
    GROUP_END = 4
    FIXED32 = 5


class WireField(NamedTuple):
    tag: int
    type: WireType
    # The number of a varint, the content of everything else.
    value: int | memoryview


_FIXED_SIZES = {WireType.FIXED64: 8, WireType.FIXED32: 4}


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number, and the position behind it."""
    number = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(data):
            raise InvalidPayload("", "a number is cut off")
        byte = data[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, position + index + 1
    raise InvalidPayload("", "a number has more than 64 bits")


def fields(data: memoryview) -> Iterator[WireField]:
    position = 0
    while position < len(data):
        key, position = read_varint(data, position)
        tag, number = key >> 3, key & 7
        if not 1 <= tag < 1 << 29:
            raise InvalidPayload("", f"there is no field number {tag}")
        try:
            wire_type = WireType(number)
        except ValueError:
            raise InvalidPayload(str(tag), f"there is no wire type {number}") from None
        if wire_type is WireType.VARINT:
            value, position = read_varint(data, position)
            yield WireField(tag, wire_type, value)
            continue
        if wire_type is WireType.GROUP:
            end, behind = _group_end(data, position, tag)
            yield WireField(tag, wire_type, data[position:end])
            position = behind
            continue
        if wire_type is WireType.BYTES:
            size, position = read_varint(data, position)
        elif wire_type is WireType.GROUP_END:
            raise InvalidPayload(str(tag), "a group ends that has not begun")
        else:
            size = _FIXED_SIZES[wire_type]
        if size > len(data) - position:
            raise InvalidPayload(str(tag), "the field is cut off")
        yield WireField(tag, wire_type, data[position : position + size])
        position += size


def _group_end(data: memoryview, position: int, tag: int) -> tuple[int, int]:
    """Where a group ends, and the position behind its end."""
    # A list, not recursion: groups nest as deeply as there are bytes.
    open_tags = [tag]
    while position < len(data):
        begin = position
        key, position = read_varint(data, position)
        inner, number = key >> 3, key & 7
        if number == WireType.GROUP:
            open_tags.append(inner)
        elif number == WireType.GROUP_END:
            if open_tags.pop() != inner:
                break
            if not open_tags:
                return begin, position
        elif number == WireType.VARINT:
            _, position = read_varint(data, position)
        elif number == WireType.BYTES:
            size, position = read_varint(data, position)
            position += size
        elif number in _FIXED_SIZES:
            position += _FIXED_SIZES[WireType(number)]
        else:
            break
    raise InvalidPayload(str(tag), "a group does not end")


def varint(number: int) -> bytes:
    # Negative numbers have 64 bits.
    number &= 0xFFFF_FFFF_FFFF_FFFF
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def number_field(tag: int, number: int) -> bytes:
    return varint(tag << 3) + varint(number)


def bytes_field(tag: int, content: bytes) -> bytes:
    return varint(tag << 3 | WireType.BYTES) + varint(len(content)) + content


def text_field(tag: int, text: str) -> bytes:
    return bytes_field(tag, text.encode("utf-8", "surrogatepass"))
