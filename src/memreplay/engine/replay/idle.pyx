"""Check initially empty segments against the allocator's rules.

Such a segment seems to exist from the start only because it has no `segment_alloc`. If that event
was lost or skipped, the segment was created later, and earlier allocations may show this. The
allocator takes the smallest free block that is large enough (on a tie, the lowest address), and
calls the driver only if there is none (docs/allocator.md). So a request that should have used the
segment but didn't proves that the segment didn't exist yet. Segments whose size is exactly what
their first allocation would have required prove nothing either way, so they are only counted.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.base.hashmap cimport NONE32, span_at
from memreplay.engine.replay.reserve cimport LARGE_HANDLE, Region
from memreplay.engine.replay.sizes cimport (
    LARGE_REQUEST, SMALL_LIMIT, SMALL_SEGMENT, max_split
)


cdef void idle_init(Idle* d) noexcept nogil:
    memset(d, 0, sizeof(Idle))
    buf_init(&d.rows, sizeof(IdleRegion))
    buf_init(&d.state, 4)


cdef void idle_free(Idle* d) noexcept nogil:
    buf_free(&d.rows)
    buf_free(&d.state)


cdef bint has_numbers(const Tables* t, uint32_t pool, int64_t* key) noexcept nogil:
    cdef size_t n = 0
    cdef const void* p
    if pool == NONE32:
        return False
    p = span_at(&t.pairs, pool, &n)
    if n != 2 * sizeof(int64_t):
        return False
    memcpy(key, p, n)
    return True


cdef bint is_default_pool(const Tables* t, uint32_t pool) noexcept nogil:
    cdef int64_t[2] key
    return has_numbers(t, pool, key) and key[0] == 0 and key[1] == 0


cdef bint is_user_pool(const Tables* t, uint32_t pool) noexcept nogil:
    cdef int64_t[2] key
    return has_numbers(t, pool, key) and key[0] == 0 and key[1] != 0


cdef inline int order(uint64_t x, uint64_t y) noexcept nogil:
    return (x > y) - (x < y)


cdef int compare(bint small, uint64_t stream, uint64_t size, uint64_t address,
                 const IdleRegion* b) noexcept nogil:
    if small != b.small:
        return 1 if small else -1
    if stream != b.stream:
        return order(stream, b.stream)
    return order(size, b.size) if size != b.size else order(address, b.address)


cdef int by_class(const void* x, const void* y) noexcept nogil:
    cdef const IdleRegion* a = <const IdleRegion*> x
    return compare(a.small, a.stream, a.size, a.address, <const IdleRegion*> y)


cdef int idle_take(Idle* d, const Tables* t, const Reserve* v, const Rules* rules,
                   const Buf* empty) noexcept nogil:
    # Add the regions in which nothing was live at the start (u32 in `empty`).
    cdef const Region* regions = <const Region*> v.regions.data
    cdef const Region* g
    cdef IdleRegion row
    cdef IdleRegion* rows
    cdef uint32_t* state
    cdef uint32_t region
    cdef uint64_t i
    d.rules = rules
    if buf_reserve(&d.state, v.regions.len) < 0:
        return -1
    d.state.len = v.regions.len
    state = <uint32_t*> d.state.data
    for i in range(v.regions.len):
        state[i] = NOT_IDLE
    for i in range(empty.len):
        region = (<const uint32_t*> empty.data)[i]
        state[region] = UNRANKED
        g = &regions[region]
        # The free memory before a mapped range affects how much an expandable segment maps.
        d.fitting += g.expandable
        d.recorded += g.expandable and g.recorded
        # Blocks of at least max_split_size only serve requests of at least that size.
        if (g.expandable or rules.expandable or g.end - g.start >= max_split(rules)
                or not is_default_pool(t, g.pool)):
            continue
        memset(&row, 0, sizeof(IdleRegion))
        row.stream = g.stream
        row.size = g.end - g.start
        row.address = g.start
        row.region = region
        row.small = g.small
        if push_item(&d.rows, &row) < 0:
            return -1
    d.left = empty.len
    rows = <IdleRegion*> d.rows.data
    if d.rows.len:
        qsort(rows, d.rows.len, sizeof(IdleRegion), by_class)
    d.least = SMALL_SEGMENT
    for i in range(d.rows.len):
        rows[i].next = <uint32_t> i
        state[rows[i].region] = <uint32_t> i
    return 0


cdef inline uint32_t state_of(const Idle* d, uint32_t region) noexcept nogil:
    return (<const uint32_t*> d.state.data)[region] if region < d.state.len else NOT_IDLE


cdef void idle_end(Idle* d, uint32_t region) noexcept nogil:
    # The region is no longer idle.
    cdef uint32_t row = state_of(d, region)
    if row == NOT_IDLE:
        return
    (<uint32_t*> d.state.data)[region] = NOT_IDLE
    if row != UNRANKED:
        (<IdleRegion*> d.rows.data)[row].next = row + 1
    d.left -= 1


cdef inline uint32_t idle_from(Idle* d, uint32_t row) noexcept nogil:
    # Return the first idle row from this row on, or the number of rows.
    cdef IdleRegion* rows = <IdleRegion*> d.rows.data
    while row < d.rows.len and rows[row].next != row:
        if rows[row].next < d.rows.len:
            rows[row].next = rows[rows[row].next].next
        row = rows[row].next
    return row


cdef void idle_check(Idle* d, uint64_t stream, uint64_t size, uint64_t address,
                     uint64_t room) noexcept nogil:
    # Check a request of this (rounded) size that got the free block of `room` bytes at `address`.
    cdef const IdleRegion* rows = <const IdleRegion*> d.rows.data
    cdef bint small = size <= SMALL_LIMIT
    cdef uint64_t lo = 0
    cdef uint64_t hi = d.rows.len
    cdef uint64_t mid
    cdef uint32_t at
    if size >= max_split(d.rules):
        return
    while lo < hi:
        mid = (lo + hi) // 2
        if compare(small, stream, size, 0, &rows[mid]) > 0:
            lo = mid + 1
        else:
            hi = mid
    at = idle_from(d, <uint32_t> lo)
    if at >= d.rows.len or rows[at].small != small or rows[at].stream != stream:
        return
    d.passed_over += compare(small, stream, room, address, &rows[at]) > 0


cdef void idle_use(Idle* d, uint32_t region, const Reserve* v, uint64_t address,
                   uint64_t size) noexcept nogil:
    # Note that a request of this size got its block in the region.
    cdef const Region* g
    cdef uint64_t made = SMALL_SEGMENT
    if state_of(d, region) == NOT_IDLE:
        return
    idle_end(d, region)
    g = <const Region*> v.regions.data + region
    if size > SMALL_LIMIT:
        made = LARGE_HANDLE
    if size >= LARGE_REQUEST:
        made = (size + SMALL_SEGMENT - 1) // SMALL_SEGMENT * SMALL_SEGMENT
    if not g.expandable and address == g.start and g.end - g.start == made:
        d.fitting += 1
        d.recorded += g.recorded
