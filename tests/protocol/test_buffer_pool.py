"""Buffers are reused only when no view of them is left."""

import ctypes

from headwater.protocol import buffer_pool
from headwater.protocol.buffer_pool import BufferPool


def test_a_buffer_without_views_is_reused() -> None:
    buffers = BufferPool()
    with memoryview(buffers.get(1000)) as view:
        first = view.obj
    assert buffers.get(1000) is first
    assert buffers.get(10) is first
    assert len(buffers.get(10)) == 1000


def test_checking_a_buffer_for_views_does_not_move_it() -> None:
    buffers = BufferPool()

    def address() -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(buffers.get(1 << 20)))

    first = address()
    # If the buffer moved, another allocation would be at its address.
    others = [(address(), bytearray(1 << 20)) for _ in range(3)]
    assert {place for place, _ in others} == {first}


def test_a_buffer_with_a_view_of_a_slice_is_not_reused() -> None:
    buffers = BufferPool()
    seen = memoryview(buffers.get(1000))[100:][:50]
    seen[:] = b"x" * 50
    other = buffers.get(1000)
    other[:] = b"y" * 1000
    assert other is not seen.obj
    assert seen == b"x" * 50


def test_a_greater_size_gets_a_fresh_buffer() -> None:
    buffers = BufferPool()
    small = buffers.get(10)
    assert buffers.get(11) is not small
    assert buffers.get(10) is small


def test_only_a_few_buffers_are_kept_and_none_that_is_huge() -> None:
    buffers = BufferPool()
    huge = buffers.get(buffer_pool.BYTES_MAX + 1)
    given = [memoryview(buffers.get(10)) for _ in range(buffer_pool.KEPT_MAX + 1)]
    firsts = [view.obj for view in given]
    del given
    found = {id(memoryview(buffers.get(10)).obj) for _ in range(10)}
    assert id(firsts[0]) not in found
    assert buffers.get(buffer_pool.BYTES_MAX + 1) is not huge
