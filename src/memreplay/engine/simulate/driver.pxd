# The driver, which hands out addresses for segments.
#
# A driver that reuses addresses takes the smallest gap that is large enough, and the lowest one on
# a tie. Otherwise, or if there's no such gap, it takes fresh addresses above all others.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.simulate.ordered cimport Chunks, Ordered

cdef enum:
    PAGE = 2 << 20       # granularity of addresses


cdef struct Span:
    uint64_t address, size
    uint32_t prev, next  # NONE32 at the ends
    bint free


cdef struct Driver:
    Buf spans            # Span
    Buf spare            # u32, unused spans
    uint32_t last        # the span at the highest addresses
    uint64_t fresh       # addresses from here on were never used
    bint reuses
    Ordered gaps
    Chunks chunks


cdef int driver_init(Driver* d, uint64_t base, bint reuses) noexcept nogil
cdef void driver_free(Driver* d) noexcept nogil
cdef uint32_t driver_take(Driver* d, uint64_t size) noexcept nogil
cdef int driver_give(Driver* d, uint32_t span) noexcept nogil
cdef uint32_t driver_place(Driver* d, uint64_t address, uint64_t size) noexcept nogil


cdef inline Span* span_of(const Driver* d, uint32_t i) noexcept nogil:
    return <Span*> d.spans.data + i
