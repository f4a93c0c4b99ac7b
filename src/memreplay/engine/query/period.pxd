# Where a trace repeats itself: stacks that come once in each repetition, or memory that rises and
# falls.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef enum:
    LEAST_ROUNDS = 3     # repetitions that make a period


cdef struct Period:
    double score         # the product of the four numbers below, each 0 to 1
    double spread        # how much of a repetition lies between its members
    double steady        # how near memory comes back to where it was
    double height        # how much of memory's rise and fall is within a repetition
    double extent        # how much of the trace is in repetitions
    uint32_t members     # stacks (or sizes) that come exactly once in each repetition


cdef int find_period(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                     uint64_t seed, Buf* at, Period* out) noexcept nogil
cdef int find_waves(const Replay* r, const int64_t* usage, Buf* at, Period* out) noexcept nogil
cdef bint in_a_module(const Replay* r, uint32_t id, const uint32_t* members, uint32_t count) \
    noexcept nogil
