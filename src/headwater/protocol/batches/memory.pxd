from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

ctypedef const unsigned char* Bytes


cdef inline bint compiled() noexcept:
    return True


# The caller's typed view keeps the buffer in place while it uses the pointer.
cdef inline Bytes borrow(const unsigned char[::1] payload) noexcept:
    return &payload[0]


cdef inline void paste(unsigned char* target, Py_ssize_t position, bytes source) noexcept:
    memcpy(target + position, PyBytes_AS_STRING(source), <size_t>PyBytes_GET_SIZE(source))
