"""Ordered sets of blocks: chunks of up to 32 entries, split when full."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove
from memreplay.engine.base.growbuf cimport buf_begin, buf_free, buf_init, push_u32, push_zeroed


cdef void ordered_init(Ordered* s) noexcept nogil:
    buf_init(&s.order, sizeof(Chunked))
    s.len = 0


cdef void ordered_free(Ordered* s) noexcept nogil:
    buf_free(&s.order)


cdef void chunks_init(Chunks* c) noexcept nogil:
    buf_init(&c.chunks, sizeof(Chunk))
    buf_init(&c.spare, 4)


cdef void chunks_free(Chunks* c) noexcept nogil:
    buf_free(&c.chunks)
    buf_free(&c.spare)


cdef inline bint precedes(uint64_t its_size, uint64_t its_address, uint64_t size,
                          uint64_t address) noexcept nogil:
    # Branchless, because the outcome can't be predicted.
    return (its_size < size) | ((its_size == size) & (its_address < address))


cdef Place ordered_from(const Ordered* s, const Chunks* c, uint64_t size,
                        uint64_t address) noexcept nogil:
    # Return the position of the first entry that isn't before this key.
    cdef const Chunked* order = <const Chunked*> s.order.data
    cdef uint32_t lo = 0
    cdef uint32_t n = <uint32_t> s.order.len
    cdef uint32_t half
    cdef const Entry* e
    cdef Place p
    while n > 0:
        half = n // 2
        if precedes(order[lo + half].size, order[lo + half].address, size, address):
            lo += half + 1
            n -= half + 1
        else:
            n = half
    p.at = lo
    p.entry = 0
    if lo == s.order.len:
        return p
    # The position is in this chunk, because the chunk's last entry isn't before the key.
    e = chunk_at(s, c, lo).entries
    n = chunk_at(s, c, lo).n
    lo = 0
    while n > 1:
        half = n // 2
        lo += half * precedes(e[lo + half - 1].size, e[lo + half - 1].address, size, address)
        n -= half
    p.entry = lo
    return p


cdef inline void note_last(Ordered* s, const Chunks* c, uint32_t at) noexcept nogil:
    cdef Chunked* its = <Chunked*> s.order.data + at
    cdef const Chunk* chunk = chunk_at(s, c, at)
    its.size = chunk.entries[chunk.n - 1].size
    its.address = chunk.entries[chunk.n - 1].address


cdef int new_chunk(Ordered* s, Chunks* c, uint32_t at) noexcept nogil:
    # Insert a new chunk at this position.
    cdef Chunked* order
    cdef uint32_t id
    if c.spare.len:
        c.spare.len -= 1
        id = (<uint32_t*> c.spare.data)[c.spare.len]
        (<Chunk*> c.chunks.data)[id].n = 0
    else:
        id = <uint32_t> c.chunks.len
        if push_zeroed(&c.chunks) < 0:
            return -1
    # Most pools have few free blocks, so start with room for two.
    if buf_begin(&s.order, 2) < 0 or push_zeroed(&s.order) < 0:
        return -1
    order = <Chunked*> s.order.data
    memmove(order + at + 1, order + at, (s.order.len - 1 - at) * sizeof(Chunked))
    order[at].id = id
    return 0


cdef int drop_chunk(Ordered* s, Chunks* c, uint32_t at) noexcept nogil:
    cdef Chunked* order = <Chunked*> s.order.data
    cdef uint32_t id = order[at].id
    memmove(order + at, order + at + 1, (s.order.len - 1 - at) * sizeof(Chunked))
    s.order.len -= 1
    return push_u32(&c.spare, id)


cdef int ordered_add(Ordered* s, Chunks* c, uint64_t size, uint64_t address,
                     uint32_t id) noexcept nogil:
    # Returns -1 when out of memory.
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
        note_last(s, c, p.at)
        note_last(s, c, p.at + 1)
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
    if p.entry == chunk.n - 1:
        note_last(s, c, p.at)
    return 0


cdef int ordered_drop(Ordered* s, Chunks* c, uint64_t size, uint64_t address) noexcept nogil:
    # Remove an existing entry. Returns -1 when out of memory.
    return ordered_drop_at(s, c, ordered_from(s, c, size, address))


cdef int ordered_drop_at(Ordered* s, Chunks* c, Place p) noexcept nogil:
    # Remove the entry at this place. Returns -1 when out of memory.
    cdef Chunk* chunk = chunk_at(s, c, p.at)
    cdef Chunk* other
    chunk.n -= 1
    s.len -= 1
    memmove(chunk.entries + p.entry, chunk.entries + p.entry + 1,
            (chunk.n - p.entry) * sizeof(Entry))
    if chunk.n == 0:
        return drop_chunk(s, c, p.at)
    # Merge sparse chunks, so that there are never many more chunks than necessary.
    if chunk.n <= CHUNK // 4 and p.at + 1 < s.order.len:
        other = chunk_at(s, c, p.at + 1)
        if other.n <= CHUNK // 4:
            memcpy(chunk.entries + chunk.n, other.entries, other.n * sizeof(Entry))
            chunk.n += other.n
            note_last(s, c, p.at)
            return drop_chunk(s, c, p.at + 1)
    if p.entry == chunk.n:
        note_last(s, c, p.at)
    return 0
