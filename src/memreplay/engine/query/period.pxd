# Find where a trace repeats itself: by stacks that occur once per repetition, or by memory usage.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef enum:
    LEAST_ROUNDS = 3     # fewest repetitions of a period


cdef struct Period:
    double score         # product of the next four fields, each from 0 to 1
    double spread        # share of a repetition that lies between its members
    double steady        # how closely memory returns to its previous level
    double height        # share of memory's total range that one repetition covers
    double extent        # share of the trace that the repetitions cover
    uint32_t members     # stacks (or sizes) that occur exactly once in each repetition


cdef int find_period(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                     uint64_t seed, Buf* at, Period* out) noexcept nogil
cdef int find_waves(const Replay* r, const int64_t* usage, Buf* at, Period* out) noexcept nogil
cdef bint in_a_module(const Replay* r, uint32_t id, const uint32_t* members, uint32_t count) \
    noexcept nogil
