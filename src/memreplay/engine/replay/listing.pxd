# List a live set's allocations, largest first.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives

cdef struct Listed:
    int64_t bytes
    uint32_t index     # an alloc event, or a carried-over block if `carried`
    uint32_t end       # the event that ended the allocation, or NONE32
    bint carried


cdef int list_largest(const Lives* l, const Buf* allocs, const Buf* carried, uint64_t most,
                      Buf* out) noexcept nogil
