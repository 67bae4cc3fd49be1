"""The three things that the compiled `records` does in C and the pure one in Python; `memory.pxd` holds the C side.

Law: a caller has checked every position and length before it calls.
"""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def compiled() -> bool:
    return False


def borrow(payload: Buffer) -> bytes:
    """The payload as something to index and slice: a pointer into it in C, here a copy whose slices are bytes."""
    return bytes(payload)


def paste(target: bytearray, position: int, source: bytes) -> None:
    target[position : position + len(source)] = source
