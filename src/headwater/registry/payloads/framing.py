"""What serializers put in front of a payload: which schema it follows and, in Protobuf, which message of it.

Confluent's format: a magic byte, then the id of the schema (0, four bytes) or its GUID (1, sixteen bytes). Behind that,
in Protobuf alone, where the message stands in its file: the indexes of the messages around it and its own.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headwater.registry.errors import InvalidPayload

_ID, _GUID = 0, 1
_ID_BYTES, _GUID_BYTES = 5, 17
# Messages are not nested deeper (headwater.schemas.depth.max), and no file has more of them.
INDEXES_MAX: Final = 64
_INDEX_MAX: Final = 100_000
_VARINT_BYTES_MAX = 5
FIRST_MESSAGE: Final = (0,)


class Framed(NamedTuple):
    """A payload, and the schema that it says it follows: by its id, or by its GUID."""

    schema_id: int | None
    guid: str | None
    payload: memoryview


def read(data: bytes | memoryview) -> Framed:
    """Raises InvalidPayload."""
    view = memoryview(data)
    magic = view[0] if view else -1
    if magic == _ID and len(view) >= _ID_BYTES:
        return Framed(int.from_bytes(view[1:_ID_BYTES], "big"), None, view[_ID_BYTES:])
    if magic == _GUID and len(view) >= _GUID_BYTES:
        return Framed(None, str(UUID(bytes=bytes(view[1:_GUID_BYTES]))), view[_GUID_BYTES:])
    if magic in (_ID, _GUID):
        raise InvalidPayload("", "the schema's id in front is cut off")
    raise InvalidPayload("", "there is no schema's id in front (magic byte 0)")


def read_indexes(payload: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Protobuf: where the message stands in its file, and the message itself. Raises InvalidPayload."""
    count, position = _read_index(payload, 0)
    if count == 0:
        return FIRST_MESSAGE, payload[position:]
    if not 0 < count <= INDEXES_MAX:
        raise InvalidPayload("", f"a message's place has {count} indexes, at most {INDEXES_MAX}")
    indexes: list[int] = []
    for _ in range(count):
        index, position = _read_index(payload, position)
        if not 0 <= index <= _INDEX_MAX:
            raise InvalidPayload("", f"there is no message {index}")
        indexes.append(index)
    return tuple(indexes), payload[position:]


def prefix(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """What goes in front of a payload; `indexes` in Protobuf alone."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    if indexes is None:
        return head
    # The usual message has a short form.
    if tuple(indexes) == FIRST_MESSAGE:
        return head + b"\0"
    return head + b"".join(map(_written_index, (len(indexes), *indexes)))


def _read_index(data: memoryview, position: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + count + 1
    raise InvalidPayload("", "the indexes of the message are cut off")


def _written_index(index: int) -> bytes:
    # Zigzag; an index is never negative.
    number = index << 1
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
