# Where a trace comes back to the same run of allocations.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef int find_recurrence(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                         bint any_memory, uint64_t seed, Buf* at, double* score) noexcept nogil
