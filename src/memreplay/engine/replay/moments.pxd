# Live sets at any event, many times: each in the time of its answer.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives

cdef enum:
    LEAF = 32      # allocations that are looked at one by one


cdef struct Moments:
    const Lives* lives
    Buf rows       # u32: the allocs that count, by event
    Buf ends       # u32: where each of them ends, NONE32 for never
    Buf tree       # u32: the latest end below each node; node i has the children 2 i and 2 i + 1
    uint64_t width     # leaves of the tree, a power of two: leaf j is node width + j
    Buf blocks     # u32: the carried blocks that count, by end, the latest first


cdef int moments_init(Moments* m, const Lives* l) noexcept nogil
cdef void moments_free(Moments* m) noexcept nogil
cdef int moments_live(const Moments* m, int64_t event, Buf* allocs, Buf* carried) noexcept nogil
