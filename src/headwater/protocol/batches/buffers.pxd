from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from headwater.protocol.batches.memory cimport Bytes


# memcpy, because a view may begin at any address: it compiles to one load or store.
cdef inline int get_int32(Bytes source, Py_ssize_t index) noexcept:
    cdef int32_t value
    memcpy(&value, source + 4 * index, 4)
    return value


cdef inline long long get_int64(Bytes source, Py_ssize_t index) noexcept:
    cdef int64_t value
    memcpy(&value, source + 8 * index, 8)
    return value


cdef inline void put_int32(bytearray target, Py_ssize_t index, int32_t value) noexcept:
    memcpy(PyByteArray_AS_STRING(target) + 4 * index, &value, 4)


cdef inline void put_int64(bytearray target, Py_ssize_t index, int64_t value) noexcept:
    memcpy(PyByteArray_AS_STRING(target) + 8 * index, &value, 8)


cdef inline void copy(bytearray target, Py_ssize_t position, Bytes source, Py_ssize_t start, Py_ssize_t length) noexcept:
    memcpy(PyByteArray_AS_STRING(target) + position, source + start, <size_t>length)


cdef inline int resize(bytearray buffer, Py_ssize_t size) except -1:
    return PyByteArray_Resize(buffer, size)


cdef inline int increment(bytearray target, Py_ssize_t index) noexcept:
    cdef int32_t value
    memcpy(&value, PyByteArray_AS_STRING(target) + 4 * index, 4)
    put_int32(target, index, value + 1)
    return value
