"""Allocation statistics in linear time: sizes, lifetimes, temporaries, groups.

A lifetime lasts from the alloc event to the event that ends it. In microseconds, it's the
difference between the latest times up to these two events, so it's never negative.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_u32, push_zeroed
from memreplay.engine.base.bits cimport clz64
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.query.keying cimport Keys, group_at, size_class
from memreplay.engine.replay.lives cimport NEVER, bytes_of, counts
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.series cimport series_highest_so_far
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.base.wide cimport add_wide, wide_double, wide_order, wide_sum
from memreplay.engine.read.sparse cimport DENSE
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_SEGMENT_ALLOC, A_SEGMENT_MAP, ABSENT_TIME
)


cdef enum Value:
    # The quantity whose median to compute.
    OF_SIZES = 0
    OF_EVENTS = 1
    OF_US = 2


cdef inline int decade(uint64_t n) noexcept nogil:
    cdef uint64_t above = 1
    cdef int k = 0
    while k < DECADES - 1 and n >= above:
        above *= 10
        k += 1
    return k


cdef inline void add_to(ChurnClass* of, uint64_t n) noexcept nogil:
    add_wide(&of.bytes, n)
    of.count += 1


# ---- preparation

cdef int look_ahead(Churn* c) noexcept nogil:
    # For each event, compute the number of allocations and the latest time up to this event.
    cdef const Replay* r = c.lives.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t i
    cdef uint32_t made = 0
    c.made = <uint32_t*> malloc((r.events + 1) * sizeof(uint32_t))
    if c.made == NULL:
        return ERR_MEMORY
    for i in range(r.events):
        made += action[i] == A_ALLOC
        c.made[i] = made
    if r.tables.time.kept != DENSE:
        c.first_time = <int64_t> r.tables.time.constant
        c.last_time = c.first_time
        c.timed = r.events > 0 and c.first_time != ABSENT_TIME
        return OK
    c.clock = <int64_t*> malloc((r.events + 1) * sizeof(int64_t))
    if c.clock == NULL:
        return ERR_MEMORY
    series_highest_so_far(<const int64_t*> r.tables.time.b.data + r.first, r.events, c.clock)
    for i in range(r.events):
        if c.clock[i] != ABSENT_TIME:
            c.timed = True
            c.first_time = c.clock[i]
            c.last_time = c.clock[r.events - 1]
            break
    return OK


cdef inline bint is_timed(const Churn* c, uint64_t event) noexcept nogil:
    return c.timed if c.clock == NULL else c.clock[event] != ABSENT_TIME


cdef inline uint64_t lasted_us(const Churn* c, uint64_t alloc, uint64_t end) noexcept nogil:
    # Unsigned, because the difference may exceed int64.
    return 0 if c.clock == NULL else <uint64_t> c.clock[end] - <uint64_t> c.clock[alloc]


# ---- groups

cdef int open_row(Churn* c, uint32_t group) noexcept nogil:
    # Add a row for a new group.
    while c.row_of_group.len <= group:
        if push_u32(&c.row_of_group, NONE32) < 0:
            return ERR_MEMORY
    if push_zeroed(&c.groups) < 0:
        return ERR_MEMORY
    (<uint32_t*> c.row_of_group.data)[group] = <uint32_t> c.groups.len - 1
    (<ChurnSum*> c.groups.data + c.groups.len - 1).name = (
        <const uint64_t*> c.keys.names.data)[group]
    return OK


cdef inline ChurnSum* sum_of(Churn* c, uint64_t event) noexcept nogil:
    # Return the ChurnSum for an alloc's group; NULL when out of memory.
    cdef uint32_t group = group_at(c.keys, event)
    if (group >= c.row_of_group.len
            or (<const uint32_t*> c.row_of_group.data)[group] == NONE32):
        if group == NONE32 or open_row(c, group) != OK:
            return NULL
    return <ChurnSum*> c.groups.data + (<const uint32_t*> c.row_of_group.data)[group]


cdef inline void sum_ended(Churn* c, ChurnSum* g, uint64_t alloc, uint64_t end,
                           uint64_t n) noexcept nogil:
    cdef uint64_t us
    g.lifetime_events += end - alloc
    add_to(&c.events[decade(end - alloc)], n)
    # The difference is the number of allocations between this alloc and its end.
    if c.made[end - 1] - c.made[alloc] <= c.threshold:
        g.temporary_count += 1
        add_wide(&g.temporary_bytes, n)
    if not is_timed(c, alloc):
        add_to(&c.untimed, n)
        return
    us = lasted_us(c, alloc, end)
    g.timed_count += 1
    add_wide(&g.lifetime_us, us)
    add_to(&c.us[decade(us)], n)


cdef int sum_allocations(Churn* c) noexcept nogil:
    cdef const Lives* lives = c.lives
    cdef const Replay* r = lives.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef bint grown = False     # since the last allocation
    cdef ChurnSum* g
    cdef uint64_t i, n
    for i in range(r.events):
        if action[i] != A_ALLOC:
            grown |= action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP
            continue
        if counts(lives, action, i):
            n = <uint64_t> bytes_of(lives, i)
            g = sum_of(c, i)
            if g == NULL:
                return ERR_MEMORY
            g.count += 1
            add_wide(&g.bytes, n)
            c.grown += grown
            add_to(&c.sizes[size_class(bytes_of(lives, i))], n)
            c.min_bytes = min(c.min_bytes, n)
            c.max_bytes = max(c.max_bytes, n)
            if lives.end[i] == NONE32:
                g.live_count += 1
                add_wide(&g.live_bytes, n)
            else:
                sum_ended(c, g, i, lives.end[i], n)
        grown = False
    return OK


cdef void sum_groups(Churn* c) noexcept nogil:
    cdef const ChurnSum* g = <const ChurnSum*> c.groups.data
    cdef ChurnSum* all_ = &c.whole
    cdef uint64_t i
    for i in range(c.groups.len):
        all_.bytes = wide_sum(all_.bytes, g[i].bytes)
        all_.temporary_bytes = wide_sum(all_.temporary_bytes, g[i].temporary_bytes)
        all_.live_bytes = wide_sum(all_.live_bytes, g[i].live_bytes)
        all_.lifetime_us = wide_sum(all_.lifetime_us, g[i].lifetime_us)
        all_.lifetime_events += g[i].lifetime_events
        all_.count += g[i].count
        all_.temporary_count += g[i].temporary_count
        all_.live_count += g[i].live_count
        all_.timed_count += g[i].timed_count


cdef void sum_carried(Churn* c) noexcept nogil:
    cdef const uint32_t* end = <const uint32_t*> c.lives.carried_end.data
    cdef const int64_t* n_bytes = <const int64_t*> c.lives.carried_bytes.data
    cdef uint64_t i
    for i in range(c.lives.carried_end.len):
        if end[i] == NEVER:
            continue
        add_to(&c.carried, <uint64_t> n_bytes[i])
        if end[i] != NONE32:
            add_to(&c.carried_freed, <uint64_t> n_bytes[i])


# ---- medians

cdef uint64_t smallest(uint64_t* values, uint64_t n, uint64_t k) noexcept nogil:
    # Return the k-th smallest of n > k values, counting from 0. This is a radix select from the
    # highest byte, so no input order makes it slow. Reorders the values.
    cdef uint64_t in_bin[256]
    cdef uint64_t any_ = 0
    cdef uint64_t i, kept, found
    cdef int shift
    for i in range(n):
        any_ |= values[i]
    shift = (63 - clz64(any_ | 1)) // 8 * 8
    while True:
        memset(in_bin, 0, sizeof(in_bin))
        for i in range(n):
            in_bin[(values[i] >> shift) & 255] += 1
        found = 0
        while k >= in_bin[found]:
            k -= in_bin[found]
            found += 1
        kept = 0
        for i in range(n):
            if (values[i] >> shift) & 255 == found:
                values[kept] = values[i]
                kept += 1
        if shift == 0:
            return values[0]
        n = kept
        shift -= 8


cdef uint64_t median_of(const Churn* c, Value what, uint64_t* values) noexcept nogil:
    # Return the lower median of the values; 0 if there are none.
    cdef const Lives* lives = c.lives
    cdef const Replay* r = lives.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t n = 0
    cdef uint64_t i
    for i in range(r.events):
        if not counts(lives, action, i):
            continue
        if what == OF_SIZES:
            values[n] = <uint64_t> bytes_of(lives, i)
        elif lives.end[i] == NONE32 or (what == OF_US and not is_timed(c, i)):
            continue
        elif what == OF_EVENTS:
            values[n] = lives.end[i] - i
        else:
            values[n] = lasted_us(c, i, lives.end[i])
        n += 1
    return smallest(values, n, (n - 1) // 2) if n else 0


cdef int find_medians(Churn* c) noexcept nogil:
    cdef uint64_t* values = <uint64_t*> malloc((c.whole.count + 1) * sizeof(uint64_t))
    if values == NULL:
        return ERR_MEMORY
    c.median_bytes = median_of(c, OF_SIZES, values)
    c.median_events = median_of(c, OF_EVENTS, values)
    c.median_us = median_of(c, OF_US, values)
    free(values)
    return OK


# ---- sort orders for groups; ties are broken by bytes, then count, then name

cdef int by_bytes(const void* a, const void* b) noexcept nogil:
    cdef const ChurnSum* x = <const ChurnSum*> a
    cdef const ChurnSum* y = <const ChurnSum*> b
    cdef int order = wide_order(y.bytes, x.bytes)
    if order:
        return order
    if x.count != y.count:
        return -1 if x.count > y.count else 1
    return (x.name > y.name) - (x.name < y.name)


cdef int by_count(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const ChurnSum*> a).count
    cdef uint64_t y = (<const ChurnSum*> b).count
    return (x < y) - (x > y) if x != y else by_bytes(a, b)


cdef int by_temporary(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const ChurnSum*> a).temporary_count
    cdef uint64_t y = (<const ChurnSum*> b).temporary_count
    return (x < y) - (x > y) if x != y else by_bytes(a, b)


cdef inline double mean_of(double sum_, uint64_t n) noexcept nogil:
    return sum_ / <double> n if n else -1


cdef inline double mean_us(const ChurnSum* g) noexcept nogil:
    return mean_of(wide_double(g.lifetime_us), g.timed_count)


cdef int by_mean_us(const void* a, const void* b) noexcept nogil:
    # Groups without freed allocations sort last.
    cdef double x = mean_us(<const ChurnSum*> a)
    cdef double y = mean_us(<const ChurnSum*> b)
    return (x < y) - (x > y) if x != y else by_bytes(a, b)


cdef int by_mean_events(const void* a, const void* b) noexcept nogil:
    cdef const ChurnSum* g = <const ChurnSum*> a
    cdef const ChurnSum* h = <const ChurnSum*> b
    cdef double x = mean_of(g.lifetime_events, g.count - g.live_count)
    cdef double y = mean_of(h.lifetime_events, h.count - h.live_count)
    return (x < y) - (x > y) if x != y else by_bytes(a, b)


cdef void sort_groups(Churn* c, int sort) noexcept nogil:
    if c.groups.len == 0:
        return
    if sort == SORT_COUNT:
        qsort(c.groups.data, c.groups.len, sizeof(ChurnSum), by_count)
    elif sort == SORT_TEMPORARY:
        qsort(c.groups.data, c.groups.len, sizeof(ChurnSum), by_temporary)
    elif sort == SORT_LIFETIME and c.timed:
        qsort(c.groups.data, c.groups.len, sizeof(ChurnSum), by_mean_us)
    elif sort == SORT_LIFETIME:
        qsort(c.groups.data, c.groups.len, sizeof(ChurnSum), by_mean_events)
    else:
        qsort(c.groups.data, c.groups.len, sizeof(ChurnSum), by_bytes)


# ---- entry points

cdef int churn_init(Churn* c, const Lives* l, Keys* keys, uint64_t threshold,
                    int sort) noexcept nogil:
    # Returns OK or ERR_MEMORY; call churn_free() in both cases.
    memset(c, 0, sizeof(Churn))
    buf_init(&c.groups, sizeof(ChurnSum))
    buf_init(&c.row_of_group, 4)
    c.lives = l
    c.keys = keys
    c.threshold = threshold
    c.min_bytes = <uint64_t> -1
    if look_ahead(c) != OK or sum_allocations(c) != OK:
        return ERR_MEMORY
    sum_groups(c)
    sum_carried(c)
    if c.whole.count == 0:
        c.min_bytes = 0
    sort_groups(c, sort)
    return find_medians(c)


cdef void churn_free(Churn* c) noexcept nogil:
    free(c.made)
    free(c.clock)
    c.made = NULL
    c.clock = NULL
    buf_free(&c.groups)
    buf_free(&c.row_of_group)
