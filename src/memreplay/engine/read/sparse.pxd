# A column of one number per event, stored as compactly as its values allow.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    MOST_CODES = 32    # maximum number of distinct values in a CODED column

cdef enum Kept:
    CONSTANT    # one value for all rows
    CODED    # one byte per row
    DENSE    # one number per row


cdef struct Sparse:
    # A column that is a single number until a row differs, so it costs nothing in the many files
    # with one stream, no pools and no metadata. With a few distinct values, it takes a byte per
    # row; otherwise, and always for times, it stores the numbers themselves.
    Kept kept
    bint varied         # values rarely repeat
    uint8_t last        # the last code written
    uint64_t now        # its value
    uint64_t constant
    size_t itemsize     # bytes per number
    Buf b               # CODED: u8 per row; DENSE: u64 or u32 per row
    Buf values          # u64: the value for each code


cdef void sparse_init(Sparse* s, size_t itemsize, uint64_t constant, bint varied) noexcept nogil
cdef void sparse_free(Sparse* s) noexcept nogil
cdef void sparse_trim(Sparse* s) noexcept nogil
cdef int sparse_change(Sparse* s, uint64_t row, uint64_t v) noexcept nogil


cdef inline uint64_t sparse_at(const Sparse* s, uint64_t row) noexcept nogil:
    if s.kept == CONSTANT:
        return s.constant
    if s.kept == CODED:
        return (<const uint64_t*> s.values.data)[(<const uint8_t*> s.b.data)[row]]
    if s.itemsize == 8:
        return (<const uint64_t*> s.b.data)[row]
    return (<const uint32_t*> s.b.data)[row]


cdef inline bint sparse_is(const Sparse* s, uint64_t v) noexcept nogil:
    # Whether all rows have value v.
    return s.kept == CONSTANT and s.constant == v


cdef inline void sparse_write(Buf* b, uint64_t row, uint64_t v) noexcept nogil:
    if b.itemsize == 8:
        (<uint64_t*> b.data)[row] = v
    else:
        (<uint32_t*> b.data)[row] = <uint32_t> v


cdef inline int sparse_put(Sparse* s, uint64_t row, uint64_t v) noexcept nogil:
    # Write row `row`, which must be the next row or the row that was written last. Returns -1 when
    # out of memory.
    if s.kept == CONSTANT:
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
