# C types for columns.py, which stays plain Python. Names and their order are those in the source.

cimport cython

from headwater.protocol.batches cimport buffers
from headwater.protocol.batches cimport memory
from headwater.protocol.batches.memory cimport Bytes

cdef long long _BASE_MAX, _DELTA_MAX, _INT32_MAX, _MICROSECONDS, _MILLISECONDS_MAX
cdef Py_ssize_t _RECORD_SIZE_MIN, _INT32_SIZE, _INT64_SIZE, _ROOM_MIN, _BAD


@cython.final
cdef class _BytesBuilder:
    cdef object reused
    cdef bytearray data
    cdef bytearray offsets
    cdef bytearray validity
    cdef Py_ssize_t data_room, row_room, row_count, size, null_count
    cdef Py_ssize_t marked_row_count, marked_size, marked_null_count

    cdef void clear(self)
    cdef void mark(self) noexcept
    @cython.locals(row=Py_ssize_t)
    cdef void rewind(self) noexcept
    cdef int push(self, Bytes source, Py_ssize_t start, Py_ssize_t length) except -1
    cdef int push_list(self, Py_ssize_t length) except -1
    @cython.locals(row=Py_ssize_t)
    cdef int _push_null(self) except -1
    cdef int _push_size(self, Py_ssize_t length) except -1
    cdef Py_ssize_t byte_count(self) noexcept
    cdef object take_validity(self)
    cdef object take_offsets(self)
    cdef object take(self)


@cython.final
cdef class ColumnBuilder:
    cdef bint _has_key, _has_value, _has_offset, _has_timestamp, _has_headers
    cdef Py_ssize_t _bytes_max, _number_room, _received, _row_count
    cdef _BytesBuilder _keys, _values, _lists, _header_keys, _header_values
    cdef bytearray _offsets
    cdef bytearray _timestamps

    @cython.locals(is_append_time=bint, append_time=cython.longlong, row_count=Py_ssize_t, added=Py_ssize_t, is_sound=bint)
    cpdef Py_ssize_t append(
        self, const unsigned char[::1] payload, Py_ssize_t count, long long base_offset, long long base_timestamp,
        append_time_ms, long long first_offset, long long end_offset,
    ) except -1

    @cython.locals(lists=_BytesBuilder)
    cpdef object take(self)

    cdef void _clear(self)

    @cython.locals(builder=_BytesBuilder)
    cdef int _mark(self) except -1

    @cython.locals(builder=_BytesBuilder)
    cdef int _rewind(self, Py_ssize_t row_count) except -1

    cdef int _reserve(self, Py_ssize_t row_count) except -1

    @cython.locals(
        data=Bytes, size=Py_ssize_t, position=Py_ssize_t, end=Py_ssize_t, length=cython.longlong,
        timestamp_delta=cython.longlong, offset_delta=cython.longlong, offset=cython.longlong,
        timestamp=cython.longlong, key_at=Py_ssize_t, key_length=cython.longlong, value_at=Py_ssize_t,
        value_length=cython.longlong, headers_at=Py_ssize_t, header_count=cython.longlong,
    )
    cdef bint _fill(
        self, const unsigned char[::1] payload, Py_ssize_t count, long long base_offset, long long base_timestamp,
        bint is_append_time, long long append_time, long long first_offset, long long end_offset,
    ) except -1

    @cython.locals(keys=_BytesBuilder, values=_BytesBuilder, length=cython.longlong, shown=bytes)
    cdef int _push_headers(self, Bytes data, Py_ssize_t position, Py_ssize_t end, long long count) except -1


cdef long long _in_microseconds(long long milliseconds) noexcept

@cython.locals(shift=cython.int, byte=cython.ulonglong, value=cython.ulonglong)
cdef (long long, Py_ssize_t) _varint(Bytes data, Py_ssize_t position, Py_ssize_t end, int width) noexcept

@cython.locals(length=cython.longlong)
cdef (long long, Py_ssize_t) _length(Bytes data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(length=cython.longlong)
cdef Py_ssize_t _skip_headers(Bytes data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept

@cython.locals(end=Py_ssize_t)
cdef bint _is_ascii(Bytes data, Py_ssize_t position, Py_ssize_t length) noexcept
