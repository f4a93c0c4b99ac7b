"""Ordered sets of blocks: chunks of up to 64, each split when it is full."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_u32, push_zeroed


cdef void chunks_init(Chunks* c) noexcept nogil:
    buf_init(&c.chunks, sizeof(Chunk))
    buf_init(&c.spare, 4)


cdef void chunks_free(Chunks* c) noexcept nogil:
    buf_free(&c.chunks)
    buf_free(&c.spare)


cdef inline bint precedes(const Entry* e, uint64_t size, uint64_t address) noexcept nogil:
    return e.size < size or (e.size == size and e.address < address)


cdef Place ordered_from(const Ordered* s, const Chunks* c, uint64_t size,
                        uint64_t address) noexcept nogil:
    # The first entry that does not come before this one.
    cdef uint32_t lo = 0
    cdef uint32_t hi = <uint32_t> s.order.len
    cdef uint32_t mid
    cdef const Chunk* chunk
    cdef Place p
    while lo < hi:
        mid = (lo + hi) // 2
        chunk = chunk_at(s, c, mid)
        if precedes(&chunk.entries[chunk.n - 1], size, address):
            lo = mid + 1
        else:
            hi = mid
    p.at = lo
    p.entry = 0
    if lo == s.order.len:
        return p
    chunk = chunk_at(s, c, lo)
    lo = 0
    hi = chunk.n - 1
    while lo < hi:
        mid = (lo + hi) // 2
        if precedes(&chunk.entries[mid], size, address):
            lo = mid + 1
        else:
            hi = mid
    p.entry = lo
    return p


cdef int new_chunk(Ordered* s, Chunks* c, uint32_t at) noexcept nogil:
    # An empty one at this place.
    cdef uint32_t* order
    cdef uint32_t id
    if c.spare.len:
        c.spare.len -= 1
        id = (<uint32_t*> c.spare.data)[c.spare.len]
        (<Chunk*> c.chunks.data)[id].n = 0
    else:
        id = <uint32_t> c.chunks.len
        if push_zeroed(&c.chunks) < 0:
            return -1
    if push_u32(&s.order, id) < 0:
        return -1
    order = <uint32_t*> s.order.data
    memmove(order + at + 1, order + at, (s.order.len - 1 - at) * sizeof(uint32_t))
    order[at] = id
    return 0


cdef int drop_chunk(Ordered* s, Chunks* c, uint32_t at) noexcept nogil:
    cdef uint32_t* order = <uint32_t*> s.order.data
    cdef uint32_t id = order[at]
    memmove(order + at, order + at + 1, (s.order.len - 1 - at) * sizeof(uint32_t))
    s.order.len -= 1
    return push_u32(&c.spare, id)


cdef int ordered_add(Ordered* s, Chunks* c, uint64_t size, uint64_t address,
                     uint32_t id) noexcept nogil:
    # -1 when memory is out.
    cdef Place p = ordered_from(s, c, size, address)
    cdef Chunk* chunk
    cdef Chunk* half
    if p.at == s.order.len:
        if p.at == 0:
            if new_chunk(s, c, 0) < 0:
                return -1
        else:
            p.at -= 1
            p.entry = chunk_at(s, c, p.at).n
    if chunk_at(s, c, p.at).n == CHUNK:
        if new_chunk(s, c, p.at + 1) < 0:
            return -1
        chunk = chunk_at(s, c, p.at)
        half = chunk_at(s, c, p.at + 1)
        memcpy(half.entries, chunk.entries + CHUNK // 2, CHUNK // 2 * sizeof(Entry))
        half.n = CHUNK // 2
        chunk.n = CHUNK // 2
        if p.entry > CHUNK // 2:
            p.at += 1
            p.entry -= CHUNK // 2
    chunk = chunk_at(s, c, p.at)
    memmove(chunk.entries + p.entry + 1, chunk.entries + p.entry,
            (chunk.n - p.entry) * sizeof(Entry))
    chunk.entries[p.entry].size = size
    chunk.entries[p.entry].address = address
    chunk.entries[p.entry].id = id
    chunk.n += 1
    s.len += 1
    return 0


cdef int ordered_drop(Ordered* s, Chunks* c, uint64_t size, uint64_t address) noexcept nogil:
    # An entry that is there. -1 when memory is out.
    cdef Place p = ordered_from(s, c, size, address)
    cdef Chunk* chunk = chunk_at(s, c, p.at)
    cdef Chunk* other
    chunk.n -= 1
    s.len -= 1
    memmove(chunk.entries + p.entry, chunk.entries + p.entry + 1,
            (chunk.n - p.entry) * sizeof(Entry))
    if chunk.n == 0:
        return drop_chunk(s, c, p.at)
    # Chunks that hold little are joined, so that there are never many more than are needed.
    if chunk.n <= CHUNK // 4 and p.at + 1 < s.order.len:
        other = chunk_at(s, c, p.at + 1)
        if other.n <= CHUNK // 4:
            memcpy(chunk.entries + chunk.n, other.entries, other.n * sizeof(Entry))
            chunk.n += other.n
            return drop_chunk(s, c, p.at + 1)
    return 0
