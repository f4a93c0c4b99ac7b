# Series of measures a piece at a time, in the memory of one piece and of where allocations end.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.lives cimport Lives


cdef struct Pieces:
    # Of all measures in which the same allocations end at the same events, whatever their bytes.
    uint64_t rows       # events a piece
    uint64_t at         # the next piece begins with this event
    Buf first           # u64 a piece, and one more: where in `ending` what ends in it begins
    Buf ending          # u32 what ends: an event, or n + i for the carried block i


cdef int pieces_init(Pieces* p, const Lives* l, uint64_t rows) noexcept nogil
cdef void pieces_free(Pieces* p) noexcept nogil
cdef bint end_alike(const Lives* l, const Lives* other) noexcept nogil
cdef uint64_t piece_rows(const Pieces* p, const Lives* l) noexcept nogil
cdef void piece_of(const Pieces* p, const Lives* l, uint64_t* running, int64_t* out) noexcept nogil
