"""The slow path for a sparse column: a row that differs from the previous row, or a full buffer."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve, buf_trim


cdef void sparse_init(Sparse* s, size_t itemsize, uint64_t constant, bint varied) noexcept nogil:
    memset(s, 0, sizeof(Sparse))
    buf_init(&s.b, itemsize if varied else 1)
    buf_init(&s.values, 8)
    s.kept = CONSTANT
    s.itemsize = itemsize
    s.constant = constant
    s.varied = varied


cdef void sparse_free(Sparse* s) noexcept nogil:
    buf_free(&s.b)
    buf_free(&s.values)


cdef void sparse_trim(Sparse* s) noexcept nogil:
    buf_trim(&s.b)


cdef int widen(Sparse* s, uint64_t rows) noexcept nogil:
    cdef Buf wide
    cdef uint64_t i
    buf_init(&wide, s.itemsize)
    if buf_reserve(&wide, rows + 1) < 0:
        return -1
    for i in range(rows):
        sparse_write(&wide, i, sparse_at(s, i))
    wide.len = rows
    buf_free(&s.b)
    s.b = wide
    s.kept = DENSE
    return 0


cdef int begin(Sparse* s, uint64_t row) noexcept nogil:
    # Row `row` is the first row with another value.
    if s.varied:
        return widen(s, row)
    if buf_reserve(&s.b, row + 1) < 0 or buf_reserve(&s.values, MOST_CODES) < 0:
        return -1
    memset(s.b.data, 0, row)
    s.b.len = row
    (<uint64_t*> s.values.data)[0] = s.constant
    s.values.len = 1
    s.kept = CODED
    return 0


cdef bint code(Sparse* s, uint64_t v) noexcept nogil:
    # Find or add the code for a value and store it in `last`. False if there are too many codes.
    cdef uint64_t* values = <uint64_t*> s.values.data
    cdef size_t i = 0
    while i < s.values.len and values[i] != v:
        i += 1
    if i == MOST_CODES:
        return False
    if i == s.values.len:
        values[i] = v
        s.values.len += 1
    s.last = <uint8_t> i
    s.now = v
    return True


cdef int sparse_change(Sparse* s, uint64_t row, uint64_t v) noexcept nogil:
    # The slow path of `sparse_put`.
    if s.kept == CONSTANT:
        if row == 0:
            s.constant = v
            return 0
        if begin(s, row) < 0:
            return -1
    if s.kept == CODED and not code(s, v) and widen(s, row) < 0:
        return -1
    if row >= s.b.cap and buf_reserve(&s.b, row + 1 - s.b.len) < 0:
        return -1
    if s.kept == CODED:
        (<uint8_t*> s.b.data)[row] = s.last
    else:
        sparse_write(&s.b, row, v)
    s.b.len = row + 1
    return 0
