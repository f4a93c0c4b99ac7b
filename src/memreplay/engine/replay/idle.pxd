# Check whether later events contradict the existence of initially empty segments.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.reserve cimport Reserve
from memreplay.engine.replay.sizes cimport Rules
from memreplay.engine.read.tables cimport Tables

cdef extern from *:
    const uint32_t NOT_IDLE "0xFFFFFFFFu"
    const uint32_t UNRANKED "0xFFFFFFFEu"   # idle, but different rules apply to this kind


cdef struct IdleRegion:
    # A segment of the default pool that is completely free until its first allocation.
    uint64_t stream
    uint64_t size
    uint64_t address
    uint32_t region      # index into reserve.regions
    uint32_t next        # for each row, the first idle row from there on
    bint small


cdef struct Idle:
    const Rules* rules
    Buf rows             # IdleRegion, by class (small, stream), then size and address
    Buf state            # u32 per region: its row, or UNRANKED or NOT_IDLE
    uint64_t left        # rows still idle
    uint64_t least       # size of the smallest row
    # Allocations that took a larger block or a new segment although an idle segment fit better
    uint64_t passed_over
    # idle segments whose size is exactly what their first allocation would have required
    uint64_t fitting
    uint64_t recorded    # `fitting` segments that were created while recording


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
