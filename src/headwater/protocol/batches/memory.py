"""The three operations that differ between the compiled `records` and the pure one; `memory.pxd` has them in C.

Law: callers check every position and length before they call.
"""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def compiled() -> bool:
    return False


def borrow(payload: Buffer) -> bytes:
    """The payload, to be indexed and sliced: in C a pointer into it, here a copy whose slices are bytes."""
    return bytes(payload)


def paste(target: bytearray, position: int, source: bytes) -> None:
    target[position : position + len(source)] = source
