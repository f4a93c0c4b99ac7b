# Live sets at any event, many times: each in the time of its answer.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives

cdef enum:
    LEAF = 64      # events that are looked at one by one


cdef struct Moments:
    const Lives* lives
    # u32: the latest end of what begins below each node (0: nothing does); node i has the children
    # 2 i and 2 i + 1
    Buf tree
    uint64_t width     # leaves of the tree, a power of two: leaf j is node width + j
    Buf blocks     # u32: the carried blocks that count, by end, the latest first


cdef int moments_init(Moments* m, const Lives* l) noexcept nogil
cdef void moments_free(Moments* m) noexcept nogil
cdef int moments_live(const Moments* m, int64_t event, Buf* allocs, Buf* carried) noexcept nogil
