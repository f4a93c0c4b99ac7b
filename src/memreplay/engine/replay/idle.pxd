# Segments of the start in which nothing was live: whether what came later speaks against them.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.reserve cimport Reserve
from memreplay.engine.replay.sizes cimport Rules
from memreplay.engine.read.tables cimport Tables

cdef extern from *:
    const uint32_t NOT_IDLE "0xFFFFFFFFu"
    const uint32_t UNRANKED "0xFFFFFFFEu"   # idle, but of a kind that other rules hold for


cdef struct IdleRegion:
    # A segment of the default pool that is free as a whole until something is allocated in it.
    uint64_t stream
    uint64_t size
    uint64_t address
    uint32_t region      # index in reserve.regions
    uint32_t next        # the first row from this one on that is idle still
    bint small


cdef struct Idle:
    const Rules* rules
    Buf rows             # IdleRegion, by class (small, stream), then size and address
    Buf state            # u32 a region: its row, UNRANKED or NOT_IDLE
    uint64_t left        # rows that are idle still
    uint64_t least       # the size of the smallest of all rows
    uint64_t passed      # allocations that took or made more, though one was there that fits better
    uint64_t fitting     # those whose first allocation is one that would have made them
    uint64_t recorded    # of them, those that were made while a recording was on


cdef void idle_init(Idle* d) noexcept nogil
cdef void idle_free(Idle* d) noexcept nogil
cdef int idle_take(Idle* d, const Tables* t, const Reserve* v, const Rules* rules,
                   const Buf* empty) noexcept nogil
cdef void idle_end(Idle* d, uint32_t region) noexcept nogil
cdef void idle_check(Idle* d, uint64_t stream, uint64_t size, uint64_t address,
                     uint64_t room) noexcept nogil
cdef void idle_use(Idle* d, uint32_t region, const Reserve* v, uint64_t address,
                   uint64_t size) noexcept nogil
cdef bint is_default_pool(const Tables* t, uint32_t pool) noexcept nogil
cdef bint is_user_pool(const Tables* t, uint32_t pool) noexcept nogil
