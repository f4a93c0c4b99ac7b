"""Represent reserved memory over time as rectangles: address range × event range.

An address is reserved at a moment if the last event that touched it reserved it, as in reserve.pyx.
Here each segment event is processed once: its addresses are removed from the current ranges, which
may split these, and each removed part becomes a row. Addresses are represented by their index among
all bounds, so that a NumberSet can store where ranges start and find neighbours quickly.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.numberset cimport (
    NumberSet, numberset_add, numberset_drop, numberset_free, numberset_from, numberset_init,
    numberset_until
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_SEGMENT_ALLOC, A_SEGMENT_MAP
from memreplay.engine.replay.reserve cimport Region


cdef struct OpenRange:
    # The reserved range that begins at a bound.
    int64_t begin
    uint32_t end         # a bound
    uint32_t source


cdef struct Space:
    uint64_t* bounds
    uint64_t n
    OpenRange* ranges
    NumberSet begins     # bounds at which a reserved range begins
    Buf* out


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*> a)[0]
    cdef uint64_t y = (<const uint64_t*> b)[0]
    return (x > y) - (x < y)


cdef uint32_t bound_of(const Space* s, uint64_t address) noexcept nogil:
    cdef uint64_t lo = 0
    cdef uint64_t hi = s.n
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if s.bounds[mid] < address:
            lo = mid + 1
        else:
            hi = mid
    return <uint32_t> lo


cdef int open_space(Space* s, const Reserve* v, const uint64_t* address,
                    const int64_t* size) noexcept nogil:
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef const Region* region = <const Region*> v.regions.data
    cdef uint64_t items = v.events.len + v.regions.len
    cdef uint64_t i
    s.bounds = <uint64_t*> malloc((2 * items + 1) * sizeof(uint64_t))
    s.ranges = <OpenRange*> malloc((2 * items + 1) * sizeof(OpenRange))
    if s.bounds == NULL or s.ranges == NULL:
        return -1
    for i in range(v.regions.len):
        s.bounds[2 * i] = region[i].start
        s.bounds[2 * i + 1] = region[i].end
    for i in range(v.events.len):
        s.bounds[2 * (v.regions.len + i)] = address[events[i]]
        s.bounds[2 * (v.regions.len + i) + 1] = address[events[i]] + <uint64_t> size[events[i]]
    qsort(s.bounds, 2 * items, sizeof(uint64_t), by_address)
    for i in range(2 * items):
        if i == 0 or s.bounds[i] != s.bounds[i - 1]:
            s.bounds[s.n] = s.bounds[i]
            s.n += 1
    return numberset_init(&s.begins, s.n)


cdef inline void cut(Space* s, uint32_t left, uint32_t at) noexcept nogil:
    # Split the range that begins at `left` in two, at `at`.
    s.ranges[at] = s.ranges[left]
    s.ranges[left].end = at
    numberset_add(&s.begins, at)


cdef inline int emit(Space* s, uint32_t at, int64_t stop) noexcept nogil:
    cdef Reservation row
    memset(&row, 0, sizeof(Reservation))
    row.start = s.bounds[at]
    row.end = s.bounds[s.ranges[at].end]
    row.begin = s.ranges[at].begin
    row.stop = stop
    row.source = s.ranges[at].source
    return push_item(s.out, &row)


cdef int take(Space* s, uint32_t lo, uint32_t hi, int64_t event) noexcept nogil:
    # Release everything between these bounds.
    cdef uint32_t at = numberset_until(&s.begins, lo)
    if at != NONE32 and at < lo and s.ranges[at].end > lo:
        cut(s, at, lo)
    at = numberset_from(&s.begins, lo)
    while at != NONE32 and at < hi:
        if s.ranges[at].end > hi:
            cut(s, at, hi)
        if emit(s, at, event) < 0:
            return -1
        numberset_drop(&s.begins, at)
        at = numberset_from(&s.begins, at)
    return 0


cdef inline void bring(Space* s, uint32_t lo, uint32_t hi, int64_t event,
                       uint32_t source) noexcept nogil:
    s.ranges[lo].begin = event
    s.ranges[lo].end = hi
    s.ranges[lo].source = source
    numberset_add(&s.begins, lo)


cdef int play(Space* s, const Reserve* v, const Replay* r, const uint64_t* address,
              const int64_t* size) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef const Region* region = <const Region*> v.regions.data
    cdef uint32_t lo, hi, at
    cdef uint64_t i
    for i in range(v.regions.len):
        bring(s, bound_of(s, region[i].start), bound_of(s, region[i].end), -1, <uint32_t> i)
    for i in range(v.events.len):
        lo = bound_of(s, address[events[i]])
        hi = bound_of(s, address[events[i]] + <uint64_t> size[events[i]])
        if take(s, lo, hi, events[i]) < 0:
            return -1
        if action[events[i]] == A_SEGMENT_ALLOC or action[events[i]] == A_SEGMENT_MAP:
            bring(s, lo, hi, events[i], <uint32_t> (v.regions.len + i))
    at = numberset_from(&s.begins, 0)
    while at != NONE32:
        if emit(s, at, <int64_t> r.events) < 0:
            return -1
        at = numberset_from(&s.begins, <uint64_t> at + 1)
    return 0


cdef int reservations_find(const Reserve* v, const Replay* r, Buf* out) noexcept nogil:
    # Fill `out` (of Reservation), in no particular order.
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef Space s
    cdef int code = 0
    memset(&s, 0, sizeof(Space))
    s.out = out
    if v.events.len + v.regions.len:
        code = open_space(&s, v, address, size)
        if code == 0:
            code = play(&s, v, r, address, size)
    numberset_free(&s.begins)
    free(s.bounds)
    free(s.ranges)
    return OK if code == 0 else ERR_MEMORY
