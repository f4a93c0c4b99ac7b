"""Find when recomputed allocations are freed and allocated again, as checkpointing does.

An allocation is freed once the next allocation (e.g. the output computed from it) has been made.
It's made again just before the last allocation (e.g. its gradient) that precedes its end. This
keeps both lifetimes as short as possible.

After a failed request, the error frees allocations that nothing uses again. An allocation whose end
follows a failed request, without another allocation in between, isn't made again.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item, push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.tables cimport A_ALLOC, A_OOM
from memreplay.engine.replay.held cimport NEVER_HELD, Held
from memreplay.engine.replay.lives cimport Lives, counts
from memreplay.engine.replay.replay cimport Replay


cdef int by_event(const void* a, const void* b) noexcept nogil:
    cdef const Move* x = <const Move*> a
    cdef const Move* y = <const Move*> b
    if x.at != y.at:
        return (x.at > y.at) - (x.at < y.at)
    if x.makes != y.makes:
        return x.makes - y.makes
    return (x.owner > y.owner) - (x.owner < y.owner)


cdef uint64_t count_before(const uint32_t* events, uint64_t n, uint64_t event) noexcept nogil:
    # Return how many of these events, which are sorted, precede an event.
    cdef uint64_t lo = 0
    cdef uint64_t hi = n
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if events[mid] < event:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef bint failed_between(const Buf* ooms, uint32_t first, uint32_t last) noexcept nogil:
    cdef const uint32_t* at = <const uint32_t*> ooms.data
    return count_before(at, ooms.len, last) > count_before(at, ooms.len, first)


cdef int find_moves(Edit* e, const Replay* r, const Held* held, Buf* allocs,
                    Buf* ooms) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const uint32_t* freed_at = <const uint32_t*> held.end.data
    cdef const uint32_t* at
    cdef uint64_t i, k, n
    cdef uint32_t end
    cdef bint again
    cdef Move m
    for i in range(r.events):
        if action[i] == A_ALLOC and push_u32(allocs, <uint32_t> i) < 0:
            return -1
        if action[i] == A_OOM and push_u32(ooms, <uint32_t> i) < 0:
            return -1
    at = <const uint32_t*> allocs.data
    for k in range(allocs.len):
        i = at[k]
        if not counts(e.lives, action, i):
            continue
        end = freed_at[i] if freed_at[i] != NONE32 and freed_at[i] != NEVER_HELD else match[i]
        n = count_before(at, allocs.len, end) if end != NONE32 else allocs.len
        if n < k + 2:
            continue
        again = end != NONE32 and not failed_between(ooms, at[n - 1], end)
        # To come back, another allocation must lie between the next allocation and the last one
        # before this one's end.
        if again and n < k + 3:
            continue
        m.owner = <uint32_t> i
        m.at = at[k + 1] + 1
        m.makes = False
        if push_item(&e.moves, &m) < 0:
            return -1
        if not again:
            continue
        m.at = at[n - 1]
        m.makes = True
        if push_item(&e.moves, &m) < 0:
            return -1
    if e.moves.len:
        qsort(e.moves.data, e.moves.len, sizeof(Move), by_event)
    return 0


cdef int edit_init(Edit* e, const Lives* lives, double factor, bint twice, const Replay* r,
                   const Held* held) noexcept nogil:
    # Returns -1 when out of memory. If `lives` is NULL, nothing is changed.
    cdef Buf allocs, ooms
    cdef int code = 0
    memset(e, 0, sizeof(Edit))
    e.lives = lives
    e.factor = factor
    e.twice = twice
    buf_init(&e.moves, sizeof(Move))
    buf_init(&e.added, sizeof(Addition))
    buf_init(&allocs, 4)
    buf_init(&ooms, 4)
    if lives != NULL and twice:
        code = find_moves(e, r, held, &allocs, &ooms)
    buf_free(&allocs)
    buf_free(&ooms)
    return code


cdef int edit_columns(Edit* e, const Columns* columns) noexcept nogil:
    # Add a change that is given as columns. Returns -1 when out of memory.
    cdef uint64_t i
    e.sizes = columns.sizes
    for i in range(columns.moves_count):
        if push_item(&e.moves, &columns.moves[i]) < 0:
            return -1
    for i in range(columns.added_count):
        if push_item(&e.added, &columns.added[i]) < 0:
            return -1
    return 0


cdef void edit_free(Edit* e) noexcept nogil:
    buf_free(&e.moves)
    buf_free(&e.added)
