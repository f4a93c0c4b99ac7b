# Find where a trace repeats the same run of allocations.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef struct Rounds:
    Buf begins           # u32: each round's first event
    double score         # 0 to 1

cdef int find_recurrence(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                         uint64_t seed, Rounds* found, Rounds* any_memory) noexcept nogil
