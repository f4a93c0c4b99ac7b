"""Drop frames from stacks, and merge stacks that become equal."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, span_at, spans_free, spans_init, spans_intern, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport Tables


cdef void stripped_free(Stripped* s) noexcept nogil:
    spans_free(&s.stacks)
    buf_free(&s.ids)


cdef int strip_stack(Stripped* s, const uint32_t* frames, size_t n, const uint8_t* drop,
                     Buf* left) noexcept nogil:
    cdef uint32_t id
    cdef size_t i
    left.len = 0
    if drop != NULL:
        for i in range(n):
            if not drop[frames[i]] and push_u32(left, frames[i]) < 0:
                return -1
        if left.len == 0 and n and push_u32(left, frames[0]) < 0:
            return -1
    id = spans_intern(&s.stacks, left.data, left.len * 4)
    return -1 if id == NONE32 else push_u32(&s.ids, id)


cdef int stripped_init(Stripped* s, const Tables* t, const uint8_t* drop,
                       uint64_t seed) noexcept nogil:
    # `drop` has one byte per frame; NULL drops all frames. Returns OK or ERR_MEMORY.
    cdef Buf left
    cdef size_t n = 0
    cdef uint32_t i
    cdef const uint32_t* frames
    cdef int code = 0
    memset(s, 0, sizeof(Stripped))
    buf_init(&s.ids, 4)
    buf_init(&left, 4)
    # The empty stack is number 0 here, too.
    if spans_init(&s.stacks, seed) < 0 or spans_intern(&s.stacks, left.data, 0) != 0:
        return ERR_MEMORY
    for i in range(spans_len(&t.stacks)):
        frames = <const uint32_t*> span_at(&t.stacks, i, &n)
        code = strip_stack(s, frames, n // 4, drop, &left)
        if code < 0:
            break
    buf_free(&left)
    return OK if code == 0 else ERR_MEMORY
