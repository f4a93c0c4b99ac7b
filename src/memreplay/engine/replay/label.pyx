"""Choose the frame that a stack is attributed to.

This is the innermost frame with the lowest rank, or the outermost one if that rank is for autograd
nodes or operators. Rank 0 is the user's code and rank 1 the libraries that it calls. Higher ranks
are plumbing; the higher the rank, the less informative. The caller passes the ranks, one byte per
string id.
"""

from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.base.hashmap cimport NONE32, span_at
from memreplay.engine.read.tables cimport FrameKey


cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil:
    # Return the frame's id; NONE32 for the empty stack.
    cdef size_t n = 0
    cdef size_t i
    cdef const uint32_t* ids = <const uint32_t*> span_at(&r.tables.stacks, stack, &n)
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t best = NONE32
    cdef int best_rank = 256
    cdef int rank
    for i in range(n // 4):
        rank = file_rank[frames[ids[i]].file]
        if rank > CODE:
            rank = function_rank[frames[ids[i]].name]
        if rank < best_rank or (rank == best_rank and (rank == NODE or rank == OPERATOR)):
            best_rank = rank
            best = ids[i]
            if rank == 0:
                break
    return best
