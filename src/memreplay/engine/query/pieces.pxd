# Compute series of measures in parts. Only one part and the ends of allocations are in memory.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives


cdef struct Pieces:
    # Shared by measures with the same allocations and ends, even if their bytes differ.
    uint64_t rows       # events per part
    uint64_t at         # first event of the next part
    # u64 per part, plus one at the end: the index in `ending` of the part's first end
    Buf first
    # u32 per end: the alloc event of the allocation, or n + i for carried-over block i
    Buf ending


cdef int pieces_init(Pieces* p, const Lives* l, uint64_t rows) noexcept nogil
cdef void pieces_free(Pieces* p) noexcept nogil
cdef bint end_alike(const Lives* l, const Lives* other) noexcept nogil
cdef uint64_t piece_rows(const Pieces* p, const Lives* l) noexcept nogil
cdef void piece_of(const Pieces* p, const Lives* l, uint64_t* running, int64_t* out) noexcept nogil
