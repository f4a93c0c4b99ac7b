# The reader's input: a window, refilled from a Python source, and the loop around it.
from libc.stdint cimport uint8_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor

# Read until the window is used up (NEED_MORE), the input ends (DONE), or an error occurs.
ctypedef int (*Step)(void* reader) noexcept nogil


cdef class Intake:
    cdef uint8_t* data
    cdef size_t cap
    cdef object readinto
    # returns the next block once the first window is used up; may be None
    cdef object ahead
    cdef object block              # the block that holds the window; None if it's in `data`
    cdef object progress
    cdef bint begun
    # the error of a truncated source; treated as the end of the input
    cdef readonly object cut
    cdef readonly uint64_t consumed

    cdef int hold(self, Cursor* cur, size_t kept, size_t size) except -1
    cdef int refill(self, Cursor* cur, uint64_t need) except -1
    cdef int fill(self, Cursor* cur, size_t kept) except -1
    cdef int take(self, Cursor* cur, size_t kept, uint64_t need) except -1
    cdef int drive(self, void* reader, Step step, Cursor* cur, const uint64_t* need) except -1
