"""Check carried-over blocks, and compare requested with reserved bytes.

A lost event usually corrupts the start: a block whose `alloc` is missing seems live from the start.
Such a block is in memory that wasn't reserved yet or inside another block, or more memory is
requested than reserved. The first segment event that touches a block's address is found as in
reserve.pyx: blocks (by address) are cells, and an event paints the cells that aren't painted yet.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.replay.lives cimport (
    Lives, bytes_of, lives_free, lives_init, lives_requested, lives_start
)
from memreplay.engine.replay.replay cimport Double
from memreplay.engine.replay.reserve cimport Region
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_SEGMENT_ALLOC, A_SEGMENT_MAP, Carried,
    SegmentEvent,
)

cdef extern from *:
    const uint32_t AFTER_ALL "0xFFFFFFFEu"   # a segment event after the range


cdef struct CarriedSpan:
    # A carried-over block.
    uint64_t address, stop
    uint32_t end        # the event that freed the block, or NONE32
    uint32_t first      # first segment event that touches its address, AFTER_ALL or NONE32
    uint32_t next       # the first untouched block from this block on
    bint grows          # whether that event reserves memory


cdef int by_place(const void* x, const void* y) noexcept nogil:
    cdef uint64_t p = (<const CarriedSpan*> x).address
    cdef uint64_t q = (<const CarriedSpan*> y).address
    return (p > q) - (p < q)


cdef inline uint64_t lowest_from(const CarriedSpan* b, uint64_t n, uint64_t address) noexcept nogil:
    cdef uint64_t lo = 0
    cdef uint64_t hi = n
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if b[mid].address < address:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef inline uint32_t untouched(CarriedSpan* b, uint32_t at) noexcept nogil:
    while b[at].next != at:
        b[at].next = b[b[at].next].next
        at = b[at].next
    return at


cdef void touch(CarriedSpan* b, uint64_t n, uint8_t action, uint64_t address, int64_t size,
                uint32_t event) noexcept nogil:
    cdef uint64_t stop = lowest_from(b, n, address + <uint64_t> size)
    cdef uint32_t at = untouched(b, <uint32_t> lowest_from(b, n, address))
    while at < stop:
        b[at].first = event
        b[at].grows = action == A_SEGMENT_ALLOC or action == A_SEGMENT_MAP
        b[at].next = at + 1
        at = untouched(b, at)


cdef void touch_all(CarriedSpan* b, uint64_t n, const Replay* r, const Reserve* v) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef const SegmentEvent* late
    cdef uint64_t i
    for i in range(v.events.len):
        touch(b, n, action[events[i]], address[events[i]], size[events[i]], events[i])
    if r.window == NULL:
        return
    late = <const SegmentEvent*> r.window.segment_events.data
    for i in range(r.window.segment_events.len):
        if late[i].size > 0 and late[i].address + <uint64_t> late[i].size > late[i].address:
            touch(b, n, <uint8_t> late[i].action, late[i].address, late[i].size, AFTER_ALL)


cdef void judge(Soundness* s, const CarriedSpan* b, uint64_t n, const Reserve* v) noexcept nogil:
    cdef const Region* g = <const Region*> v.regions.data
    cdef uint64_t at = 0
    cdef uint64_t reach = 0
    cdef uint64_t i
    cdef bint inside
    for i in range(n):
        s.overlaps += i > 0 and b[i].address < reach
        reach = b[i].stop if b[i].stop > reach else reach
        while at < v.regions.len and g[at].end <= b[i].address:
            at += 1
        inside = at < v.regions.len and g[at].start <= b[i].address and b[i].stop <= g[at].end
        if b[i].first == NONE32 or (b[i].first == AFTER_ALL and not b[i].grows):
            s.outside += not inside
        elif b[i].end > b[i].first or (b[i].first == AFTER_ALL and b[i].end == NONE32):
            # NONE32 (never freed) is larger than every event.
            s.impossible += 1
        else:
            s.outside += not inside


cdef int check_start(Soundness* s, const Replay* r, const Reserve* v) noexcept nogil:
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t n = r.carried.len
    cdef uint64_t i
    cdef CarriedSpan* b
    if n == 0:
        return 0
    b = <CarriedSpan*> malloc((n + 1) * sizeof(CarriedSpan))
    if b == NULL:
        return -1
    for i in range(n):
        b[i].address = carried[i].address
        b[i].stop = carried[i].address + <uint64_t> (carried[i].size if carried[i].size > 0 else 1)
        if b[i].stop < b[i].address:
            b[i].stop = <uint64_t> -1
        b[i].end = carried[i].end
        b[i].first = NONE32
        b[i].grows = False
    qsort(b, n, sizeof(CarriedSpan), by_place)
    for i in range(n + 1):
        b[i].next = <uint32_t> i
    touch_all(b, n, r, v)
    judge(s, b, n, v)
    free(b)
    return 0


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    # Sums computed from a forged file may wrap.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t> (<uint64_t> a - <uint64_t> b)


cdef struct Ends:
    # A pass's position in the list of allocations that end.
    uint64_t doubles, carried


cdef inline int64_t ended(const Lives* l, Ends* e, uint64_t i, uint8_t action) noexcept nogil:
    # Return the number of bytes that end at event i. Must be called for the events in order.
    cdef const Replay* r = l.replay
    cdef const Double* doubles = <const Double*> r.doubles.data
    cdef const Double* carried = <const Double*> r.ends.data
    cdef uint32_t began
    cdef uint64_t sum = 0
    if action == A_FREE_COMPLETED:
        began = (<const uint32_t*> r.match.data)[i]
        if began != NONE32:
            sum = <uint64_t> bytes_of(l, began)
    else:
        while e.doubles < r.doubles.len and doubles[e.doubles].at == i:
            sum += <uint64_t> bytes_of(l, doubles[e.doubles].closed)
            e.doubles += 1
    while e.carried < r.ends.len and carried[e.carried].at == i:
        sum += <uint64_t> (<const int64_t*> l.carried_bytes.data)[carried[e.carried].closed]
        e.carried += 1
    return <int64_t> sum


cdef inline bint grows(uint8_t action) noexcept nogil:
    return action == A_SEGMENT_ALLOC or action == A_SEGMENT_MAP


cdef void compare(Soundness* s, const Lives* l, const Reserve* v) noexcept nogil:
    # Compare requested bytes (`l`) with reserved bytes after each event.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef int64_t spare = minus(v.start_bytes, r.carried_bytes)
    cdef Ends e
    cdef uint64_t at = 0
    cdef uint64_t i
    memset(&e, 0, sizeof(e))
    s.short_at = -1
    s.short_events = spare < 0
    for i in range(r.events):
        if action[i] == A_ALLOC:
            spare = plus(minus(spare, size[i]), ended(l, &e, i, A_ALLOC))
        elif action[i] == A_FREE_COMPLETED:
            spare = plus(spare, ended(l, &e, i, A_FREE_COMPLETED))
            continue
        elif action[i] == A_FREE_REQUESTED:
            s.waiting += (i + 1 == r.events or action[i + 1] != A_FREE_COMPLETED
                          or address[i + 1] != address[i])
            continue
        elif at < v.events.len and events[at] == i:
            at += 1
            spare = plus(spare, size[i]) if grows(action[i]) else minus(spare, size[i])
        if spare < 0:
            if s.short_events == 0:
                s.short_at = <int64_t> i
            s.short_events += 1


cdef void fit_find(Fit* f, const Lives* requested, const Lives* active,
                   const Reserve* v) noexcept nogil:
    # Compare two measures of the same allocations (from alloc to free_completed) with each other
    # and with reserved bytes.
    cdef const Replay* r = requested.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef int64_t low = lives_start(requested)
    cdef int64_t used = lives_start(active)
    cdef int64_t high = v.start_bytes
    cdef Ends of_low, of_used
    cdef uint64_t at = 0
    cdef int64_t i = -1
    memset(&of_low, 0, sizeof(Ends))
    memset(&of_used, 0, sizeof(Ends))
    f.below_at = f.above_at = FITS
    while True:
        if used < low and f.below_at == FITS:
            f.below_at = i
        if used > high and f.above_at == FITS:
            f.above_at = i
        i += 1
        if <uint64_t> i >= r.events:
            return
        if action[i] == A_ALLOC or action[i] == A_FREE_COMPLETED:
            if action[i] == A_ALLOC:
                low = plus(low, bytes_of(requested, i))
                used = plus(used, bytes_of(active, i))
            low = minus(low, ended(requested, &of_low, i, action[i]))
            used = minus(used, ended(active, &of_used, i, action[i]))
        elif at < v.events.len and events[at] == <uint64_t> i:
            at += 1
            high = plus(high, size[i]) if grows(action[i]) else minus(high, size[i])


cdef int soundness_init(Soundness* s, const Replay* r, const Reserve* v) noexcept nogil:
    cdef Lives requested
    cdef int code
    memset(s, 0, sizeof(Soundness))
    lives_init(&requested)
    code = lives_requested(&requested, r)
    if code == OK and check_start(s, r, v) < 0:
        code = ERR_MEMORY
    if code == OK:
        compare(s, &requested, v)
    lives_free(&requested)
    return OK if code == OK else fail(&s.status, ERR_MEMORY, "blocks")
