# What came and went between two events, by group.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.wide cimport Wide
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.lives cimport Lives


cdef struct Flow:
    # Of a group. No sum wraps, whatever sizes a file has.
    Wide before_bytes      # live before the range
    Wide came_bytes        # allocated in it
    Wide went_bytes        # ended in it
    uint64_t before, came, went    # the same in allocations
    uint64_t name          # of the group, as in keying.Keys


cdef struct Traffic:
    const Lives* lives
    Keys* keys
    Buf row_of_group       # u32: the row in `groups`, or NONE32
    Buf groups             # Flow: those to which anything came, or from which anything went
    Flow moved             # all of these
    Flow still             # all others


cdef int traffic_init(Traffic* t, const Lives* l, Keys* keys, int64_t begin, int64_t end,
                      const uint32_t* allocs, uint64_t n_allocs, const uint32_t* blocks,
                      uint64_t n_blocks) noexcept nogil
cdef void traffic_free(Traffic* t) noexcept nogil
