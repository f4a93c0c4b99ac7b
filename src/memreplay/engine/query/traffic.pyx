"""Sum up allocations and frees between two events, by group.

Everything freed in a range was either live before the range or allocated in the range. So this
takes time linear in the range and in the live set before it, however long the recording is.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_u32, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.base.wide cimport add_wide, wide_distance, wide_order, wide_sum
from memreplay.engine.query.keying cimport Keys, group_at, group_of_carried
from memreplay.engine.replay.lives cimport Lives, bytes_of, counts


cdef Flow* flow_of(Traffic* t, uint32_t group) noexcept nogil:
    # Return a group's Flow; NULL when out of memory.
    cdef uint32_t row
    if group == NONE32:
        return NULL
    while t.row_of_group.len <= group:
        if push_u32(&t.row_of_group, NONE32) < 0:
            return NULL
    row = (<const uint32_t*> t.row_of_group.data)[group]
    if row == NONE32:
        if push_zeroed(&t.groups) < 0:
            return NULL
        row = <uint32_t> (t.groups.len - 1)
        (<uint32_t*> t.row_of_group.data)[group] = row
        (<Flow*> t.groups.data)[row].name = (<const uint64_t*> t.keys.names.data)[group]
    return <Flow*> t.groups.data + row


cdef inline void count_before(Flow* f, uint64_t n, bint ends) noexcept nogil:
    f.before += 1
    add_wide(&f.before_bytes, n)
    if ends:
        f.went += 1
        add_wide(&f.went_bytes, n)


cdef inline void count_made(Flow* f, uint64_t n, bint ends) noexcept nogil:
    f.came += 1
    add_wide(&f.came_bytes, n)
    if ends:
        f.went += 1
        add_wide(&f.went_bytes, n)


cdef inline void add_flow(Flow* to, const Flow* f) noexcept nogil:
    to.before_bytes = wide_sum(to.before_bytes, f.before_bytes)
    to.came_bytes = wide_sum(to.came_bytes, f.came_bytes)
    to.went_bytes = wide_sum(to.went_bytes, f.went_bytes)
    to.before += f.before
    to.came += f.came
    to.went += f.went


cdef int by_change(const void* a, const void* b) noexcept nogil:
    # Largest change first, then most traffic, then name, so that the order is deterministic.
    cdef const Flow* x = <const Flow*> a
    cdef const Flow* y = <const Flow*> b
    cdef int order = wide_order(wide_distance(y.came_bytes, y.went_bytes),
                                wide_distance(x.came_bytes, x.went_bytes))
    if order == 0:
        order = wide_order(wide_sum(y.came_bytes, y.went_bytes),
                           wide_sum(x.came_bytes, x.went_bytes))
    if order:
        return order
    return (x.name > y.name) - (x.name < y.name)


cdef void leave_moved(Traffic* t) noexcept nogil:
    # Keep only the groups with traffic. Sum up these groups, and separately all others.
    cdef Flow* f = <Flow*> t.groups.data
    cdef uint64_t kept = 0
    cdef uint64_t i
    for i in range(t.groups.len):
        if f[i].came or f[i].went:
            add_flow(&t.moved, &f[i])
            f[kept] = f[i]
            kept += 1
        else:
            add_flow(&t.still, &f[i])
    t.groups.len = kept
    if kept:
        qsort(f, kept, sizeof(Flow), by_change)


cdef int traffic_init(Traffic* t, const Lives* l, Keys* keys, int64_t begin, int64_t end,
                      const uint32_t* allocs, uint64_t n_allocs, const uint32_t* blocks,
                      uint64_t n_blocks) noexcept nogil:
    # Returns OK or ERR_MEMORY. The range consists of the events after `begin` up to `end`; `allocs`
    # and `blocks` are live after `begin`. An allocation that is never freed has an end above all
    # event numbers.
    cdef const uint8_t* action = <const uint8_t*> l.replay.tables.action.data + l.replay.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef Flow* f
    cdef uint64_t i
    memset(t, 0, sizeof(Traffic))
    t.lives = l
    t.keys = keys
    buf_init(&t.row_of_group, 4)
    buf_init(&t.groups, sizeof(Flow))
    for i in range(n_allocs):
        f = flow_of(t, group_at(keys, allocs[i]))
        if f == NULL:
            return ERR_MEMORY
        count_before(f, <uint64_t> bytes_of(l, allocs[i]), <int64_t> l.end[allocs[i]] <= end)
    for i in range(n_blocks):
        f = flow_of(t, group_of_carried(keys, blocks[i]))
        if f == NULL:
            return ERR_MEMORY
        count_before(f, <uint64_t> carried_bytes[blocks[i]],
                     <int64_t> carried_end[blocks[i]] <= end)
    for i in range(<uint64_t> (begin + 1), <uint64_t> (end + 1)):
        if counts(l, action, i):
            f = flow_of(t, group_at(keys, i))
            if f == NULL:
                return ERR_MEMORY
            count_made(f, <uint64_t> bytes_of(l, i), <int64_t> l.end[i] <= end)
    leave_moved(t)
    return OK


cdef void traffic_free(Traffic* t) noexcept nogil:
    buf_free(&t.row_of_group)
    buf_free(&t.groups)
