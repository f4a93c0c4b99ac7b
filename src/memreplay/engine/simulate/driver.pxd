# The driver's side: addresses for segments. Where it reuses them, the smallest gap that is large
# enough, of equal ones the lowest; else addresses that nobody had, above all others.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.simulate.ordered cimport Chunks, Ordered

cdef enum:
    PAGE = 2 << 20       # what addresses are handed out by


cdef struct Span:
    uint64_t address, size
    uint32_t prev, next  # NONE32 at the ends
    bint free


cdef struct Driver:
    Buf spans            # Span
    Buf spare            # u32: of those, which are not in use
    uint32_t last        # the span with the highest addresses
    uint64_t fresh       # from here on nobody had any
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
