# Columns: numbers in native memory that Python reads through the buffer protocol.
from memreplay.engine.base.growbuf cimport Buf


cdef class Column:
    cdef object owner
    cdef const void* data
    cdef bytes fmt
    cdef Py_ssize_t[1] shape
    cdef Py_ssize_t[1] strides
    cdef Py_ssize_t itemsize


cdef Column column(object owner, const void* data, size_t n, bytes fmt, size_t stride=*)
cdef Column field_column(object owner, const Buf* rows, size_t n, str table, str field)

cdef class Owned:
    cdef Buf buf

cdef Owned owned(size_t itemsize)
