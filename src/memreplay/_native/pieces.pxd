# A measure's series a piece at a time, in the memory of one piece and of where allocations end.
from libc.stdint cimport int64_t, uint64_t
from memreplay._native.growbuf cimport Buf
from memreplay._native.lives cimport Lives


cdef struct Pieces:
    const Lives* lives
    uint64_t rows       # events a piece
    uint64_t at         # the next piece begins with this event
    uint64_t running    # bytes after the event before it
    Buf first           # u64 a piece, and one more: where in `ending` what ends in it begins
    Buf ending          # u32 what ends: an event, or n + i for the baseline's block i


cdef int pieces_init(Pieces* p, const Lives* l, uint64_t rows) noexcept nogil
cdef void pieces_free(Pieces* p) noexcept nogil
cdef uint64_t pieces_next(Pieces* p, int64_t* out) noexcept nogil
