# One number an event, kept as small as it may be.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    MOST_CODES = 32    # values that are looked through where a row differs from the one before

cdef enum Kept:
    ALIKE    # one number for all rows
    CODED    # a byte a row
    DENSE    # a number a row


cdef struct Sparse:
    # A column that stays one number until a row differs from it: most files have one stream, no
    # pools and no metadata, and such a column costs nothing. Where there are a few numbers it is a
    # byte a row, else (and always that of times) the numbers themselves.
    Kept kept
    bint varied         # numbers are hardly ever alike
    uint8_t last        # the code that was put last
    uint64_t now        # and its number
    uint64_t constant
    size_t itemsize     # bytes of a number
    Buf b               # of CODED u8 a row, of DENSE u64 or u32
    Buf values          # u64: what the bytes stand for


cdef void sparse_init(Sparse* s, size_t itemsize, uint64_t constant, bint varied) noexcept nogil
cdef void sparse_free(Sparse* s) noexcept nogil
cdef void sparse_trim(Sparse* s) noexcept nogil
cdef int sparse_change(Sparse* s, uint64_t row, uint64_t v) noexcept nogil


cdef inline uint64_t sparse_at(const Sparse* s, uint64_t row) noexcept nogil:
    if s.kept == ALIKE:
        return s.constant
    if s.kept == CODED:
        return (<const uint64_t*> s.values.data)[(<const uint8_t*> s.b.data)[row]]
    if s.itemsize == 8:
        return (<const uint64_t*> s.b.data)[row]
    return (<const uint32_t*> s.b.data)[row]


cdef inline void sparse_write(Buf* b, uint64_t row, uint64_t v) noexcept nogil:
    if b.itemsize == 8:
        (<uint64_t*> b.data)[row] = v
    else:
        (<uint32_t*> b.data)[row] = <uint32_t> v


cdef inline int sparse_put(Sparse* s, uint64_t row, uint64_t v) noexcept nogil:
    # Writes row `row`, which must be the next one or the last one written. -1 when memory is out.
    if s.kept == ALIKE:
        if v == s.constant:
            return 0
    elif row < s.b.cap:
        if s.kept == DENSE:
            sparse_write(&s.b, row, v)
            s.b.len = row + 1
            return 0
        if v == s.now:
            (<uint8_t*> s.b.data)[row] = s.last
            s.b.len = row + 1
            return 0
    return sparse_change(s, row, v)
