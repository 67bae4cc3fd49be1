# C types for records.py, which stays plain Python. Names and their order are those in the source.

cimport cython

from headwater.protocol.batches cimport memory
from headwater.protocol.batches.memory cimport Bytes

cdef long long _DELTA_MAX, _BASE_MAX, _INT32_MAX, _NO_TIMESTAMP
cdef Py_ssize_t _RECORD_SIZE_MIN
cdef Py_ssize_t _CUT_OFF, _VARINT_TOO_LONG, _RECORD_LENGTH, _TIMESTAMP_DELTA, _OFFSET_DELTA
cdef Py_ssize_t _FIELD_LENGTH, _HEADER_COUNT, _HEADER_KEY, _LENGTH_MISMATCH

ctypedef (Py_ssize_t, long long, long long, Py_ssize_t, long long, Py_ssize_t, long long, Py_ssize_t, long long) Walk


@cython.final
@cython.no_gc
cdef class Record:
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly tuple headers


@cython.locals(
    data=Bytes, end=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, record=Record, append_time=cython.longlong,
    timestamp_delta=cython.longlong, offset_delta=cython.longlong, key_at=Py_ssize_t, key_length=cython.longlong,
    value_at=Py_ssize_t, value_length=cython.longlong, headers_at=Py_ssize_t, header_count=cython.longlong,
)
cpdef list decode(
    const unsigned char[::1] payload, Py_ssize_t count, long long base_offset, long long base_timestamp,
    log_append_time_ms=*,
)

@cython.locals(
    data=Bytes, end=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, expected=cython.longlong,
    timestamp=cython.longlong, timestamp_found=cython.longlong,
    timestamp_delta=cython.longlong, offset_delta=cython.longlong, key_at=Py_ssize_t, key_length=cython.longlong,
    value_at=Py_ssize_t, value_length=cython.longlong, headers_at=Py_ssize_t, header_count=cython.longlong,
)
cdef long long _validate(
    const unsigned char[::1] payload, Py_ssize_t count, bint keys_required, bint sparse, long long base_timestamp,
    long long timestamp_min, long long timestamp_max,
) except? -2

@cython.locals(
    data=Bytes, end=Py_ssize_t, position=Py_ssize_t, body=Py_ssize_t, length=cython.longlong,
    timestamp=cython.longlong, timestamp_found=cython.longlong,
    timestamp_delta=cython.longlong, offset_delta=cython.longlong, key_length=cython.longlong,
)
cpdef tuple validate_part(
    const unsigned char[::1] payload, Py_ssize_t index, Py_ssize_t count, bint is_last, bint keys_required,
    long long base_timestamp, long long timestamp_min, long long timestamp_max, list refused,
)

@cython.locals(
    data=Bytes, end=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, timestamp=cython.longlong, refused=list,
    timestamp_delta=cython.longlong, key_length=cython.longlong,
)
cpdef object refuse(
    const unsigned char[::1] payload, Py_ssize_t count, bint keys_required, long long base_timestamp,
    long long timestamp_min, long long timestamp_max, Py_ssize_t refused_max,
)

@cython.locals(
    measured=list, blocks=list, record=Record, block=bytes, size=Py_ssize_t, body=Py_ssize_t, out=bytearray,
    target="unsigned char*", position=Py_ssize_t, index=Py_ssize_t,
)
cpdef bytearray encode(records, long long base_offset, long long base_timestamp, Py_ssize_t reserve=*)

@cython.locals(shift=cython.int, byte=cython.ulonglong, value=cython.ulonglong)
cdef (long long, Py_ssize_t) _varint(Bytes data, Py_ssize_t position, Py_ssize_t end, int width) noexcept

@cython.locals(length=cython.longlong)
cdef (long long, Py_ssize_t) _length(Bytes data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(
    length=cython.longlong, timestamp_delta=cython.longlong, offset_delta=cython.longlong, key_length=cython.longlong,
    key_at=Py_ssize_t, value_length=cython.longlong, value_at=Py_ssize_t, header_count=cython.longlong, headers_at=Py_ssize_t,
)
cdef Walk _walk(Bytes data, Py_ssize_t position, Py_ssize_t end) noexcept

cdef Walk _failed(Py_ssize_t fault) noexcept

@cython.locals(length=cython.longlong, index=cython.longlong)
cdef Py_ssize_t _skip_headers(Bytes data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept

@cython.locals(length=cython.longlong, index=cython.longlong, headers=list)
cdef tuple _decode_headers(Bytes data, Py_ssize_t position, Py_ssize_t end, long long count)

@cython.locals(fields=list, out=bytearray, target="unsigned char*", size=Py_ssize_t, position=Py_ssize_t, field=bytes)
cdef bytes _encode_headers(tuple headers)

@cython.locals(magnitude=cython.ulonglong)
cdef unsigned long long _zigzag(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong, size=Py_ssize_t)
cdef Py_ssize_t _varint_size(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong)
cdef Py_ssize_t _write_varint(unsigned char* target, Py_ssize_t position, long long value) noexcept

cdef Py_ssize_t _field_size(bytes field) noexcept

cdef Py_ssize_t _write_field(unsigned char* target, Py_ssize_t position, bytes field) noexcept

cdef Py_ssize_t _body_size(Record record, bytes block, long long base_offset, long long base_timestamp) noexcept

cdef int _check_claims(Py_ssize_t size, Py_ssize_t count, long long base_offset, long long base_timestamp) except -1

cdef int _check_encodable(long long offset, long long timestamp, long long base_offset) except -1

cdef int _check_consumed(Py_ssize_t position, Py_ssize_t end) except -1
