# Look up interned ids that may be absent or empty.
from libc.stdint cimport int64_t, uint8_t, uint32_t
from memreplay.engine.base.hashmap cimport Spans, span_at, spans_len


cdef inline const uint8_t* interned(const Spans* spans, uint32_t id, size_t* n) noexcept nogil:
    # Return an id's bytes and store their number in `n`: 0 for NONE32 and unknown ids.
    n[0] = 0
    if id >= spans_len(spans):
        return b""
    return span_at(spans, id, n)


cdef inline const uint32_t* interned_ids(const Spans* stacks, uint32_t id,
                                         size_t* n) noexcept nogil:
    # Return a stack's frame ids and store their number in `n`.
    cdef const uint8_t* p = interned(stacks, id, n)
    n[0] //= sizeof(uint32_t)
    return <const uint32_t*> p if n[0] else NULL


cdef inline const int64_t* interned_pair(const Spans* pairs, uint32_t id) noexcept nogil:
    # Return the two numbers that a pool id stands for, or NULL.
    cdef size_t n = 0
    cdef const uint8_t* p = interned(pairs, id, &n)
    return <const int64_t*> p if n == 2 * sizeof(int64_t) else NULL
