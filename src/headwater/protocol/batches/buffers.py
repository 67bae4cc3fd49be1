"""Numbers and bytes inside Arrow's buffers, done in C by the compiled `columns` and `rows`; `buffers.pxd` is that side.

Law: a caller has checked every index and length before it calls. Numbers are in the machine's order, as Arrow's are.
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
    """Bytes that are added hold anything until they are written: in C they are not cleared."""
    if size < len(buffer):
        del buffer[size:]
    else:
        buffer.extend(bytes(size - len(buffer)))


def increment(target: bytearray, index: int) -> int:
    """Counts up a 32-bit number, and gives what it was before."""
    value = _INT32.unpack_from(target, 4 * index)[0]
    _INT32.pack_into(target, 4 * index, value + 1)
    return value
