"""When allocations that are made twice go, and come back: what checkpointing does to activations.

An allocation goes after the next one was made: it is that one's input, say. It comes back before
the last allocation that comes before its end: a gradient of it, say. So both lives are as short as
they can be.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item, push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.tables cimport A_ALLOC
from memreplay.engine.replay.held cimport NEVER_HELD, Held
from memreplay.engine.replay.lives cimport Lives, counts
from memreplay.engine.replay.replay cimport Replay


cdef int by_event(const void* a, const void* b) noexcept nogil:
    cdef const Move* x = <const Move*> a
    cdef const Move* y = <const Move*> b
    if x.at != y.at:
        return (x.at > y.at) - (x.at < y.at)
    return (x.owner > y.owner) - (x.owner < y.owner)


cdef uint64_t last_before(const uint32_t* allocs, uint64_t n, uint64_t event) noexcept nogil:
    # How many allocs come before an event.
    cdef uint64_t lo = 0
    cdef uint64_t hi = n
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if allocs[mid] < event:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef int find_moves(Edit* e, const Replay* r, const Held* held, Buf* allocs) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const uint32_t* let_go = <const uint32_t*> held.end.data
    cdef const uint32_t* at
    cdef uint64_t i, k, n
    cdef uint32_t end
    cdef Move m
    for i in range(r.events):
        if action[i] == A_ALLOC and push_u32(allocs, <uint32_t> i) < 0:
            return -1
    at = <const uint32_t*> allocs.data
    for k in range(allocs.len):
        i = at[k]
        if not counts(e.lives, action, i):
            continue
        end = let_go[i] if let_go[i] != NONE32 and let_go[i] != NEVER_HELD else match[i]
        n = last_before(at, allocs.len, end) if end != NONE32 else allocs.len
        # Another one has to come between the one that follows it and the last one before its end.
        if n < 2 or n - 1 < k + 2:
            continue
        m.owner = <uint32_t> i
        m.at = at[k + 1]
        if push_item(&e.gone, &m) < 0:
            return -1
        if end == NONE32:
            continue
        m.at = at[n - 1]
        if push_item(&e.back, &m) < 0:
            return -1
    if e.back.len:
        qsort(e.back.data, e.back.len, sizeof(Move), by_event)
    return 0


cdef int edit_init(Edit* e, const Lives* lives, double factor, bint twice, const Replay* r,
                   const Held* held) noexcept nogil:
    # -1 when memory is out. `lives` NULL: nothing is changed.
    cdef Buf allocs
    cdef int code = 0
    memset(e, 0, sizeof(Edit))
    e.lives = lives
    e.factor = factor
    e.twice = twice
    buf_init(&e.gone, sizeof(Move))
    buf_init(&e.back, sizeof(Move))
    buf_init(&allocs, 4)
    if lives != NULL and twice:
        code = find_moves(e, r, held, &allocs)
    buf_free(&allocs)
    return code


cdef void edit_free(Edit* e) noexcept nogil:
    buf_free(&e.gone)
    buf_free(&e.back)
