# C types for rows.py, which stays plain Python. Names and their order are those in the source.

cimport cython

from headwater.protocol.batches cimport buffers
from headwater.protocol.batches cimport memory
from headwater.protocol.batches.memory cimport Bytes

cdef Py_ssize_t _INT32_SIZE, _INT64_SIZE, _ROOM_MIN, _NULL
cdef long long _MICROSECONDS
cdef unsigned int _WORD, _SEED, _MULTIPLIER


@cython.locals(
    row_count=Py_ssize_t, row=Py_ssize_t, partition=Py_ssize_t, chosen=Bytes, given=Bytes, sizes=Bytes,
    is_selection=bint, counts=bytearray, places=bytearray, order=bytearray, start=Py_ssize_t, size=Py_ssize_t,
    place=Py_ssize_t, groups=list,
)
cpdef tuple group_rows(
    const unsigned char[::1] partitions, Py_ssize_t partition_count, const unsigned char[::1] selection=*
)


@cython.final
cdef class RowEncoder:
    cdef Py_ssize_t _row_count
    cdef _Strings _keys, _values, _lists, _header_keys, _header_values
    cdef _Times _times

    @cython.locals(
        chosen=Bytes, count=Py_ssize_t, partitions=bytearray, keys=_Strings, position=Py_ssize_t, row=Py_ssize_t,
        at=Py_ssize_t, length=Py_ssize_t, partition=Py_ssize_t,
    )
    cdef bytearray _partition_rows(
        self, Py_ssize_t partition_count, Py_ssize_t keyless, const unsigned char[::1] selection, bint is_all
    )

    @cython.locals(
        chosen=Bytes, row=Py_ssize_t, base_timestamp=cython.longlong, max_timestamp=cython.longlong, room=Py_ssize_t,
        out=bytearray, written=Py_ssize_t, index=Py_ssize_t, timestamp=cython.longlong, key_at=Py_ssize_t,
        key_length=Py_ssize_t, value_at=Py_ssize_t, value_length=Py_ssize_t, first_header=Py_ssize_t,
        header_count=Py_ssize_t, body=Py_ssize_t, needed=Py_ssize_t,
    )
    cdef object _encode_rows(
        self, long long timestamp_ms, Py_ssize_t bytes_max, const unsigned char[::1] selection, bint is_all,
        Py_ssize_t start, Py_ssize_t stop, Py_ssize_t reserve,
    )

    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _row(self, Bytes chosen, Py_ssize_t position) except -1

    @cython.locals(size=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, key_length=Py_ssize_t, value_length=Py_ssize_t)
    cdef Py_ssize_t _headers_size(self, Py_ssize_t first, Py_ssize_t count) except -1

    @cython.locals(index=Py_ssize_t, at=Py_ssize_t, length=Py_ssize_t)
    cdef Py_ssize_t _write_headers(self, bytearray out, Py_ssize_t written, Py_ssize_t first, Py_ssize_t count) noexcept


@cython.final
cdef class _Strings:
    cdef bint is_absent, has_nulls
    cdef Py_ssize_t start
    cdef long long end
    cdef const unsigned char[::1] bits_view, offsets_view, data_view
    cdef Bytes bits, offsets, data

    @cython.locals(stop=Py_ssize_t, index=Py_ssize_t, offset=cython.longlong, previous=cython.longlong, is_sound=bint)
    cdef int _check(self, Py_ssize_t row_count, str name, bint is_list) except -1

    @cython.locals(index=Py_ssize_t, at=Py_ssize_t)
    cdef (Py_ssize_t, Py_ssize_t) find(self, Py_ssize_t row) noexcept


@cython.final
cdef class _Times:
    cdef bint is_absent, has_nulls
    cdef Py_ssize_t start
    cdef const unsigned char[::1] bits_view, data_view
    cdef Bytes bits, data

    @cython.locals(stop=Py_ssize_t)
    cdef int _check(self, Py_ssize_t row_count) except -1

    @cython.locals(index=Py_ssize_t, microseconds=cython.longlong, milliseconds=cython.longlong)
    cdef long long find(self, Py_ssize_t row, long long default_ms) noexcept


@cython.locals(end=Py_ssize_t, result=cython.uint, word=cython.uint)
cdef unsigned int _murmur2(Bytes data, Py_ssize_t position, Py_ssize_t length) noexcept

@cython.locals(word=cython.uint, index=Py_ssize_t, byte=cython.uint)
cdef unsigned int _little_endian(Bytes data, Py_ssize_t position, Py_ssize_t size) noexcept

@cython.locals(magnitude=cython.ulonglong)
cdef unsigned long long _zigzag(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong, size=Py_ssize_t)
cdef Py_ssize_t _varint_size(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong)
cdef Py_ssize_t _write_varint(bytearray out, Py_ssize_t position, long long value) noexcept

cdef Py_ssize_t _field_size(Py_ssize_t length) noexcept

cdef Py_ssize_t _write_field(bytearray out, Py_ssize_t position, Bytes data, Py_ssize_t at, Py_ssize_t length) noexcept
