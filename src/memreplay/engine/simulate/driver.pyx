"""Hand out addresses as a driver might. Only their order matters to the allocator."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_u32, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.simulate.ordered cimport (
    Entry, chunks_free, chunks_init, ordered_add, ordered_drop, ordered_entry, ordered_free,
    ordered_from, ordered_init
)


cdef extern from *:
    const uint64_t ENOUGH "(UINT64_C(1) << 62)"   # fresh addresses


cdef int driver_init(Driver* d, uint64_t base, bint reuses) noexcept nogil:
    memset(d, 0, sizeof(Driver))
    buf_init(&d.spans, sizeof(Span))
    buf_init(&d.spare, 4)
    ordered_init(&d.gaps)
    chunks_init(&d.chunks)
    d.last = NONE32
    d.fresh = base
    d.reuses = reuses
    return 0


cdef void driver_free(Driver* d) noexcept nogil:
    buf_free(&d.spans)
    buf_free(&d.spare)
    ordered_free(&d.gaps)
    chunks_free(&d.chunks)


cdef uint32_t new_span(Driver* d, uint64_t address, uint64_t size, uint32_t after) noexcept nogil:
    # Create a used span after another span (NONE32: at the front). Returns NONE32 when out of
    # memory.
    cdef uint32_t i
    cdef Span* s
    if d.spare.len:
        d.spare.len -= 1
        i = (<uint32_t*> d.spare.data)[d.spare.len]
    else:
        i = <uint32_t> d.spans.len
        if push_zeroed(&d.spans) < 0:
            return NONE32
    s = span_of(d, i)
    s.address = address
    s.size = size
    s.free = False
    s.prev = after
    s.next = span_of(d, after).next if after != NONE32 else NONE32
    if after != NONE32:
        span_of(d, after).next = i
    if s.next != NONE32:
        span_of(d, s.next).prev = i
    else:
        d.last = i
    return i


cdef int free_span(Driver* d, uint32_t i) noexcept nogil:
    span_of(d, i).free = True
    return ordered_add(&d.gaps, &d.chunks, span_of(d, i).size, span_of(d, i).address, i)


cdef uint32_t driver_take(Driver* d, uint64_t size) noexcept nogil:
    # NONE32 when out of memory.
    cdef const Entry* gap
    cdef uint32_t i, rest
    size = (size + PAGE - 1) // PAGE * PAGE
    gap = NULL
    if d.reuses or d.fresh > ENOUGH - min(size, ENOUGH):
        gap = ordered_entry(&d.gaps, &d.chunks, ordered_from(&d.gaps, &d.chunks, size, 0))
    if gap == NULL:
        i = new_span(d, d.fresh, size, d.last)
        d.fresh += size
        return i
    i = gap.id
    if ordered_drop(&d.gaps, &d.chunks, gap.size, gap.address) < 0:
        return NONE32
    span_of(d, i).free = False
    if span_of(d, i).size > size:
        rest = new_span(d, span_of(d, i).address + size, span_of(d, i).size - size, i)
        if rest == NONE32 or free_span(d, rest) < 0:
            return NONE32
        span_of(d, i).size = size
    return i


cdef int join(Driver* d, uint32_t left, uint32_t right) noexcept nogil:
    # Join two adjacent free spans that aren't in `gaps`.
    cdef Span* s = span_of(d, left)
    s.size += span_of(d, right).size
    s.next = span_of(d, right).next
    if s.next != NONE32:
        span_of(d, s.next).prev = left
    else:
        d.last = left
    return push_u32(&d.spare, right)


cdef int driver_give(Driver* d, uint32_t span) noexcept nogil:
    # Returns -1 when out of memory.
    cdef uint32_t other = span_of(d, span).next
    if other != NONE32 and span_of(d, other).free:
        if (ordered_drop(&d.gaps, &d.chunks, span_of(d, other).size,
                         span_of(d, other).address) < 0 or join(d, span, other) < 0):
            return -1
    other = span_of(d, span).prev
    if other != NONE32 and span_of(d, other).free:
        if (ordered_drop(&d.gaps, &d.chunks, span_of(d, other).size,
                         span_of(d, other).address) < 0 or join(d, other, span) < 0):
            return -1
        span = other
    return free_span(d, span)


cdef uint32_t driver_place(Driver* d, uint64_t address, uint64_t size) noexcept nogil:
    # Place an initial segment. Must be called in ascending address order. Returns NONE32 when out
    # of memory.
    cdef uint32_t gap
    if d.last == NONE32:
        d.fresh = address
    if address > d.fresh:
        gap = new_span(d, d.fresh, address - d.fresh, d.last)
        if gap == NONE32 or free_span(d, gap) < 0:
            return NONE32
    d.fresh = address + size
    return new_span(d, address, size, d.last)
