# Blocks ordered by size, then address, and stored in chunks, so that the smallest fitting block is
# found in a few steps.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    CHUNK = 32       # entries


cdef struct Entry:
    uint64_t size, address
    uint32_t id


cdef struct Chunk:
    uint32_t n
    Entry entries[32]


cdef struct Chunks:
    # Storage that all sets in an allocator share.
    Buf chunks       # Chunk
    Buf spare        # u32, unused chunks


cdef struct Chunked:
    # A non-empty chunk and its last entry. Searches compare last entries to find the chunk.
    uint64_t size, address
    uint32_t id


cdef struct Ordered:
    Buf order        # Chunked
    uint64_t len


cdef struct Place:
    # The position of an entry, or the end.
    uint32_t at      # index into `order`, or its length for the end
    uint32_t entry


cdef void ordered_init(Ordered* s) noexcept nogil
cdef void ordered_free(Ordered* s) noexcept nogil
cdef void chunks_init(Chunks* c) noexcept nogil
cdef void chunks_free(Chunks* c) noexcept nogil
cdef int ordered_add(Ordered* s, Chunks* c, uint64_t size, uint64_t address,
                     uint32_t id) noexcept nogil
cdef int ordered_drop(Ordered* s, Chunks* c, uint64_t size, uint64_t address) noexcept nogil
cdef int ordered_drop_at(Ordered* s, Chunks* c, Place p) noexcept nogil
cdef Place ordered_from(const Ordered* s, const Chunks* c, uint64_t size,
                        uint64_t address) noexcept nogil


cdef inline Chunk* chunk_at(const Ordered* s, const Chunks* c, uint32_t at) noexcept nogil:
    return <Chunk*> c.chunks.data + (<const Chunked*> s.order.data)[at].id


cdef inline const Entry* ordered_entry(const Ordered* s, const Chunks* c,
                                       Place p) noexcept nogil:
    # NULL at the end.
    return &chunk_at(s, c, p.at).entries[p.entry] if p.at < s.order.len else NULL


cdef inline Place ordered_first(const Ordered* s) noexcept nogil:
    cdef Place p
    p.at = 0
    p.entry = 0
    return p


cdef inline void ordered_next(const Ordered* s, const Chunks* c, Place* p) noexcept nogil:
    p.entry += 1
    if p.entry == chunk_at(s, c, p.at).n:
        p.entry = 0
        p.at += 1


cdef inline bint ordered_before(const Ordered* s, const Chunks* c, Place* p) noexcept nogil:
    # Go back by one entry. Returns False at the first entry.
    if p.entry == 0:
        if p.at == 0:
            return False
        p.at -= 1
        p.entry = chunk_at(s, c, p.at).n
    p.entry -= 1
    return True
