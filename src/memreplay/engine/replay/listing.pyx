"""List a live set's allocations, largest first, then oldest first."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.replay.lives cimport Lives, bytes_of
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef int larger_first(const void* a, const void* b) noexcept nogil:
    cdef const Listed* x = <const Listed*> a
    cdef const Listed* y = <const Listed*> b
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    if x.carried != y.carried:
        return -1 if x.carried else 1
    return (x.index > y.index) - (x.index < y.index)


cdef int list_largest(const Lives* l, const Buf* allocs, const Buf* carried, uint64_t most,
                      Buf* out) noexcept nogil:
    # Fill `out` (of Listed) with the largest of these allocations and carried-over blocks, at most
    # `most` (0: all).
    cdef const uint32_t* rows = <const uint32_t*> allocs.data
    cdef const uint32_t* blocks = <const uint32_t*> carried.data
    cdef uint64_t n = allocs.len + carried.len
    cdef Listed* found
    cdef uint64_t i
    if buf_reserve(out, n) < 0:
        return ERR_MEMORY
    found = <Listed*> out.data
    for i in range(allocs.len):
        found[i].bytes = bytes_of(l, rows[i])
        found[i].index = rows[i]
        found[i].end = l.end[rows[i]]
        found[i].carried = False
    for i in range(carried.len):
        found[allocs.len + i].bytes = (<const int64_t*> l.carried_bytes.data)[blocks[i]]
        found[allocs.len + i].index = blocks[i]
        found[allocs.len + i].end = (<const uint32_t*> l.carried_end.data)[blocks[i]]
        found[allocs.len + i].carried = True
    if n:
        qsort(found, n, sizeof(Listed), larger_first)
    out.len = min(most, n) if most else n
    return OK
