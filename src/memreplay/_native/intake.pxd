# The input on its way to a reader: a window, refilled from a Python source, and the loop around it.
from libc.stdint cimport uint8_t, uint64_t
from memreplay._native.cursor cimport Cursor

# Reads on until the window is used up (NEED_MORE), the input ends (DONE), or an error.
ctypedef int (*Step)(void* reader) noexcept nogil


cdef class Intake:
    cdef uint8_t* data
    cdef size_t cap
    cdef object readinto
    cdef object progress
    cdef bint salvage              # take a source that is cut off for one that ends
    cdef readonly object cut       # the source's error, then
    cdef readonly uint64_t consumed

    cdef int refill(self, Cursor* cur, uint64_t need) except -1
    cdef int drive(self, void* reader, Step step, Cursor* cur, const uint64_t* need) except -1
