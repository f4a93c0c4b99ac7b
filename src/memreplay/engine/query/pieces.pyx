"""Compute series of measures in parts.

A whole series takes eight bytes per event. Parts need only four bytes per freed allocation; a
counting sort assigns each allocation to the part in which it ends. Sums are unsigned, as in
`lives`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.replay.lives cimport NEVER, bytes_of, counts
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef int pieces_init(Pieces* p, const Lives* l, uint64_t rows) noexcept nogil:
    # Returns OK or ERR_MEMORY. `rows` must be positive.
    cdef const uint8_t* action = <const uint8_t*> l.replay.tables.action.data + l.replay.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef uint64_t n = l.replay.events
    cdef uint64_t pieces = (n + rows - 1) // rows
    cdef uint64_t total = 0
    cdef uint64_t i, here
    cdef uint64_t* first
    cdef uint32_t* ending
    p.rows = rows
    p.at = 0
    buf_init(&p.first, 8)
    buf_init(&p.ending, 4)
    if buf_reserve(&p.first, pieces + 1) < 0:
        return ERR_MEMORY
    first = <uint64_t*> p.first.data
    memset(first, 0, (pieces + 1) * sizeof(uint64_t))
    for i in range(n):
        if counts(l, action, i) and l.end[i] != NONE32:
            first[l.end[i] // rows] += 1
    for i in range(l.carried_end.len):
        if carried_end[i] < NEVER:
            first[carried_end[i] // rows] += 1
    # Turn the counts into end positions; filling each part from its end turns these into start
    # positions.
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
    for i in range(l.carried_end.len):
        if carried_end[i] < NEVER:
            here = carried_end[i] // rows
            first[here] -= 1
            ending[first[here]] = <uint32_t> (n + i)
    p.first.len = pieces + 1
    p.ending.len = total
    return OK


cdef void pieces_free(Pieces* p) noexcept nogil:
    buf_free(&p.first)
    buf_free(&p.ending)


cdef inline bint alike(const Buf* b, const Buf* other) noexcept nogil:
    return b.len == other.len and (
        b.len == 0 or memcmp(b.data, other.data, b.len * b.itemsize) == 0)


cdef bint end_alike(const Lives* l, const Lives* other) noexcept nogil:
    # Whether both measures have the same allocations with the same ends.
    return (l.replay == other.replay and l.end == other.end
            and alike(&l.carried_end, &other.carried_end) and alike(&l.keep, &other.keep))


cdef uint64_t piece_rows(const Pieces* p, const Lives* l) noexcept nogil:
    # Return the number of events in the next part; 0 after the last part.
    return min(p.rows, l.replay.events - p.at)


cdef void piece_of(const Pieces* p, const Lives* l, uint64_t* running, int64_t* out) noexcept nogil:
    # Store a measure's bytes after each event of the next part; `running` has the bytes before the
    # part.
    cdef const uint8_t* action = <const uint8_t*> l.replay.tables.action.data + l.replay.first
    cdef const uint64_t* first = <const uint64_t*> p.first.data + p.at // p.rows
    cdef const uint32_t* ending = <const uint32_t*> p.ending.data
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint64_t n = l.replay.events
    cdef uint64_t count = piece_rows(p, l)
    cdef uint64_t* change = <uint64_t*> out
    cdef uint64_t i, k
    if count == 0:
        return
    memset(out, 0, count * sizeof(int64_t))
    for i in range(first[0], first[1]):
        k = ending[i]
        if k < n:
            change[l.end[k] - p.at] -= <uint64_t> bytes_of(l, k)
        else:
            change[carried_end[k - n] - p.at] -= <uint64_t> carried_bytes[k - n]
    for i in range(count):
        if counts(l, action, p.at + i):
            running[0] += <uint64_t> bytes_of(l, p.at + i)
        running[0] += change[i]
        out[i] = <int64_t> running[0]
