# Sum up allocations and frees between two events, by group.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.wide cimport Wide
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.lives cimport Lives


cdef struct Flow:
    # A group's totals. Sums can't wrap, whatever the file contains.
    Wide before_bytes      # allocations that are live before the range
    Wide came_bytes        # allocated in it
    Wide went_bytes        # freed in it
    uint64_t before, came, went    # number of allocations
    uint64_t name          # the group's name, as in keying.Keys


cdef struct Traffic:
    const Lives* lives
    Keys* keys
    Buf row_of_group       # u32: row in `groups`, or NONE32
    Buf groups             # Flow: groups with allocations or frees
    Flow moved             # sum over these
    Flow still             # sum over all other groups


cdef int traffic_init(Traffic* t, const Lives* l, Keys* keys, int64_t begin, int64_t end,
                      const uint32_t* allocs, uint64_t n_allocs, const uint32_t* blocks,
                      uint64_t n_blocks) noexcept nogil
cdef void traffic_free(Traffic* t) noexcept nogil
