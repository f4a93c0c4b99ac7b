"""Python interface for finding repeated numbers. Contains no algorithms."""

from libc.stdint cimport uint32_t, uint64_t
from memreplay._core cimport new_seed
from memreplay.engine.query cimport recurring as _recurring
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport OK


def rows_back(numbers) -> Column:
    """Return each number's distance in rows (u32) from its previous occurrence.

    A first occurrence has 0. `numbers` are u64.
    """
    cdef const uint64_t[::1] given = numbers
    cdef uint64_t n = given.shape[0]
    cdef uint64_t seed = new_seed()
    cdef Owned out = owned(4)
    cdef int code = OK
    if n >= NONE32:
        raise ValueError("too many numbers for a column")
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    if n:
        with nogil:
            code = _recurring.rows_back(&given[0], n, seed, <uint32_t*> out.buf.data)
    if code != OK:
        raise MemoryError
    return column(out, out.buf.data, n, b"I")
