# An index that finds the live set at any event. A query takes time proportional to its result.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives

cdef enum:
    LEAF = 64      # events per leaf, scanned linearly


cdef struct Moments:
    const Lives* lives
    # u32 per node: the latest end of the allocations below it (0: none); node i has children 2 i
    # and 2 i + 1
    Buf tree
    uint64_t width     # number of leaves, a power of two: leaf j is node width + j
    Buf blocks     # u32: carried-over blocks that count, latest end first


cdef int moments_init(Moments* m, const Lives* l) noexcept nogil
cdef void moments_free(Moments* m) noexcept nogil
cdef int moments_live(const Moments* m, int64_t event, Buf* allocs, Buf* carried) noexcept nogil
