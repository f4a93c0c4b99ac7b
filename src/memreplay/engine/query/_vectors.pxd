# Vectors: columns of integers that Python computes with.
from memreplay.engine.query.vectors cimport Totals, View


cdef class Vector:
    cdef object owner
    cdef View v
    cdef Py_ssize_t[1] shape
    cdef Py_ssize_t[1] strides

    cdef Totals totals(self)


cdef Vector as_vector(object source)
