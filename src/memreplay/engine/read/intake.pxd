# The input on its way to a reader: a window, refilled from a Python source, and the loop around it.
from libc.stdint cimport uint8_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor

# Reads on until the window is used up (NEED_MORE), the input ends (DONE), or an error.
ctypedef int (*Step)(void* reader) noexcept nogil


cdef class Intake:
    cdef uint8_t* data
    cdef size_t cap
    cdef object readinto
    cdef object ahead              # gives whole blocks, once the first window is used up; or None
    cdef object block              # the one that the window lies in; None: it is in data
    cdef object progress
    cdef bint begun
    cdef readonly object cut       # the error of a source that is cut off: it is taken for its end
    cdef readonly uint64_t consumed

    cdef int hold(self, Cursor* cur, size_t kept, size_t size) except -1
    cdef int refill(self, Cursor* cur, uint64_t need) except -1
    cdef int fill(self, Cursor* cur, size_t kept) except -1
    cdef int take(self, Cursor* cur, size_t kept, uint64_t need) except -1
    cdef int drive(self, void* reader, Step step, Cursor* cur, const uint64_t* need) except -1
