"""A measure's series a piece at a time.

The whole series is eight bytes an event; what is kept here is four bytes an allocation that ends:
allocations sorted (by counting) into the pieces in which they end. Sums are of unsigned numbers, as
in `lives`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay._native.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay._native.hashmap cimport NONE32
from memreplay._native.lives cimport NEVER, counts, lives_start
from memreplay._native.status cimport ERR_MEMORY, OK


cdef int pieces_init(Pieces* p, const Lives* l, uint64_t rows) noexcept nogil:
    # OK or ERR_MEMORY. `l` must stay as it is while pieces are made; `rows` is above 0.
    cdef const uint8_t* action = <const uint8_t*> l.replay.tables.action.data + l.replay.first
    cdef const uint32_t* base_end = <const uint32_t*> l.base_end.data
    cdef uint64_t n = l.replay.events
    cdef uint64_t pieces = (n + rows - 1) // rows
    cdef uint64_t total = 0
    cdef uint64_t i, here
    cdef uint64_t* first
    cdef uint32_t* ending
    p.lives = l
    p.rows = rows
    p.at = 0
    p.running = <uint64_t> lives_start(l)
    buf_init(&p.first, 8)
    buf_init(&p.ending, 4)
    if buf_reserve(&p.first, pieces + 1) < 0:
        return ERR_MEMORY
    first = <uint64_t*> p.first.data
    memset(first, 0, (pieces + 1) * sizeof(uint64_t))
    for i in range(n):
        if counts(l, action, i) and l.end[i] != NONE32:
            first[l.end[i] // rows] += 1
    for i in range(l.base_end.len):
        if base_end[i] < NEVER:
            first[base_end[i] // rows] += 1
    # Of counts make ends; filling from behind makes of ends beginnings.
    for i in range(pieces):
        total += first[i]
        first[i] = total
    first[pieces] = total
    if buf_reserve(&p.ending, total) < 0:
        return ERR_MEMORY
    ending = <uint32_t*> p.ending.data
    for i in range(n):
        if counts(l, action, i) and l.end[i] != NONE32:
            here = l.end[i] // rows
            first[here] -= 1
            ending[first[here]] = <uint32_t> i
    for i in range(l.base_end.len):
        if base_end[i] < NEVER:
            here = base_end[i] // rows
            first[here] -= 1
            ending[first[here]] = <uint32_t> (n + i)
    p.first.len = pieces + 1
    p.ending.len = total
    return OK


cdef void pieces_free(Pieces* p) noexcept nogil:
    buf_free(&p.first)
    buf_free(&p.ending)


cdef uint64_t pieces_next(Pieces* p, int64_t* out) noexcept nogil:
    # Bytes after each event of the next piece; how many they are, 0 after the last.
    cdef const Lives* lives = p.lives
    cdef const uint8_t* action = (<const uint8_t*> lives.replay.tables.action.data
                                  + lives.replay.first)
    cdef const uint64_t* first = <const uint64_t*> p.first.data + p.at // p.rows
    cdef const uint32_t* ending = <const uint32_t*> p.ending.data
    cdef uint64_t n = lives.replay.events
    cdef uint64_t count = min(p.rows, n - p.at)
    cdef uint64_t* change = <uint64_t*> out
    cdef uint64_t i, k
    if count == 0:
        return 0
    memset(out, 0, count * sizeof(int64_t))
    for i in range(first[0], first[1]):
        k = ending[i]
        if k < n:
            change[lives.end[k] - p.at] -= <uint64_t> lives.bytes[k]
        else:
            change[(<const uint32_t*> lives.base_end.data)[k - n] - p.at] -= <uint64_t> (
                <const int64_t*> lives.base_bytes.data)[k - n]
    for i in range(count):
        if counts(lives, action, p.at + i):
            p.running += <uint64_t> lives.bytes[p.at + i]
        p.running += change[i]
        out[i] = <int64_t> p.running
    p.at += count
    return count
