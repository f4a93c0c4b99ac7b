# Declares Keys for other Python interfaces.
from libc.stdint cimport int64_t
from memreplay.engine.query cimport keying as _keying
from memreplay.engine.read.column cimport Column
from memreplay.engine.replay._timeline cimport Measure, Replay

cdef class Keys:
    cdef _keying.Keys k
    cdef readonly Replay replay
    cdef readonly tuple of     # the Keys that this object was derived from
    cdef tuple owners          # keep alive the bytes that `k` points to

    cdef Column _numbers(self, const int64_t[::1] rows, bint are_events)

cdef int check_replay(Measure measure, Keys keys) except -1
