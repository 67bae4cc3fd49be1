"""Numbers and bytes in Arrow's buffers. `buffers.pxd` is the same in C, for the compiled `columns` and `rows`.

Law: callers check every index and length before they call. Numbers have the machine's byte order, as in Arrow.
"""

import struct

_INT32 = struct.Struct("=i")
_INT64 = struct.Struct("=q")


def get_int32(source: bytes, index: int) -> int:
    return _INT32.unpack_from(source, 4 * index)[0]


def get_int64(source: bytes, index: int) -> int:
    return _INT64.unpack_from(source, 8 * index)[0]


def put_int32(target: bytearray, index: int, value: int) -> None:
    _INT32.pack_into(target, 4 * index, value)


def put_int64(target: bytearray, index: int, value: int) -> None:
    _INT64.pack_into(target, 8 * index, value)


def copy(target: bytearray, position: int, source: bytes, start: int, length: int) -> None:
    target[position : position + length] = source[start : start + length]


def resize(buffer: bytearray, size: int) -> None:
    """Added bytes are undefined until they are written: in C they are not cleared."""
    if size < len(buffer):
        del buffer[size:]
    else:
        buffer.extend(bytes(size - len(buffer)))


def increment(target: bytearray, index: int) -> int:
    """Increments a 32-bit number and returns its old value."""
    value = _INT32.unpack_from(target, 4 * index)[0]
    _INT32.pack_into(target, 4 * index, value + 1)
    return value
