# What an id stands for that may be absent: the empty span, where span_at reads past the table.
from libc.stdint cimport int64_t, uint8_t, uint32_t
from memreplay.engine.base.hashmap cimport Spans, span_at, spans_len


cdef inline const uint8_t* interned(const Spans* spans, uint32_t id, size_t* n) noexcept nogil:
    # The bytes of an id, and how many; none of NONE32, and of any id that was never given.
    n[0] = 0
    if id >= spans_len(spans):
        return b""
    return span_at(spans, id, n)


cdef inline const uint32_t* interned_ids(const Spans* stacks, uint32_t id,
                                         size_t* n) noexcept nogil:
    # The frame ids of a stack, and how many.
    cdef const uint8_t* p = interned(stacks, id, n)
    n[0] //= sizeof(uint32_t)
    return <const uint32_t*> p if n[0] else NULL


cdef inline const int64_t* interned_pair(const Spans* pairs, uint32_t id) noexcept nogil:
    # The two numbers of a pool; NULL where there is none.
    cdef size_t n = 0
    cdef const uint8_t* p = interned(pairs, id, &n)
    return <const int64_t*> p if n == 2 * sizeof(int64_t) else NULL
