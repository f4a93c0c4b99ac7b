# Group allocations and segments by pool or stream, and sum up a measure for each group.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.slim cimport Slim, slim_at
from memreplay.engine.replay.lives cimport Lives

cdef enum:
    UNKNOWN_CLASS = 0


cdef struct Classes:
    Buf keys         # u64 per class: the pool's pair id, or the stream; unused for class 0
    Slim of_event    # per event: the class of an alloc or segment event, else 0
    Buf of_carried   # u32 per carried-over block
    Buf of_region    # u32 per initial region


cdef struct ClassSum:
    int64_t start, peak, final
    int64_t peak_at     # -1 is the start
    int64_t then        # bytes after the chosen event
    uint64_t live       # allocations and carried-over blocks
    uint64_t live_then  # number of both after the chosen event
    uint64_t blocks     # total number (for reserved memory: of segment events and regions)


cdef struct Only:
    # A filter: one class of a Classes for the same replay.
    const Classes* classes
    uint32_t wanted


cdef inline bint has_event(const Only* only, size_t n_only, uint64_t event) noexcept nogil:
    cdef size_t i
    for i in range(n_only):
        if slim_at(&only[i].classes.of_event, event) != only[i].wanted:
            return False
    return True


cdef inline bint has_region(const Only* only, size_t n_only, uint64_t region) noexcept nogil:
    cdef size_t i
    for i in range(n_only):
        if (<const uint32_t*> only[i].classes.of_region.data)[region] != only[i].wanted:
            return False
    return True


cdef void classes_init(Classes* c) noexcept nogil
cdef void classes_free(Classes* c) noexcept nogil
cdef int classes_of_pools(Classes* c, const Arena* a) noexcept nogil
cdef int classes_of_streams(Classes* c, const Arena* a, uint64_t seed) noexcept nogil
cdef int sum_lives(const Classes* c, const Lives* l, int64_t event, Buf* out) noexcept nogil
cdef int sum_listed(const Classes* c, const Lives* l, const uint32_t* allocs, uint64_t n_allocs,
                    const uint32_t* blocks, uint64_t n_blocks, Buf* out) noexcept nogil
cdef int sum_reserved(const Classes* c, const Arena* a, const Only* only, size_t n_only,
                      int64_t event, Buf* out) noexcept nogil
cdef int64_t reserved_of(const Arena* a, const Only* only, size_t n_only,
                         int64_t* out) noexcept nogil
