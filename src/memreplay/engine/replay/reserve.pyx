"""Derive reserved memory from segment events and the final segments.

Whether an address was reserved at the start depends on the first event that touches it. If that
event frees or unmaps the address, it was reserved; if the event allocates or maps the address, it
wasn't. If no event touches the address, the final segments decide. Addresses are cut into cells at
every boundary. The first item that covers a cell paints it; the next unpainted cell is found in
nearly constant time. Run backwards, the same algorithm gives the state at the end, which must match
the final segments.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    Map64, NONE32, map64_at, map64_find, map64_free, map64_init)
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT
from memreplay.engine.read.tables cimport (
    A_NONE, A_SEGMENT_ALLOC, A_SEGMENT_FREE, A_SEGMENT_MAP, A_SEGMENT_UNMAP, Carried, DeviceRows,
    EMPTY_STACK, EXPANDABLE, SegmentEvent, rows_of,
)
from memreplay.engine.read.sparse cimport sparse_at


cdef struct Item:
    # An event or final segment that says whether a range is reserved.
    uint64_t start, end
    uint64_t stream
    uint32_t pool
    uint32_t lo, hi       # the cells that the item covers
    uint8_t action        # the event's action; A_NONE for a final segment
    bint expandable
    bint small
    bint recorded         # whether this is a final segment with a stack


cdef struct Cells:
    # Item: events in order, then events after the range, then final segments
    Buf items
    uint64_t changes  # number of items that are events
    uint64_t* bounds  # cell i is bounds[i] .. bounds[i + 1]
    uint64_t n        # number of bounds
    uint32_t* next    # the first unpainted cell from here on


cdef void reserve_free(Reserve* v) noexcept nogil:
    buf_free(&v.events)
    buf_free(&v.pools)
    buf_free(&v.regions)


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*> a)[0]
    cdef uint64_t y = (<const uint64_t*> b)[0]
    return (x > y) - (x < y)


cdef inline bint fits(uint64_t address, int64_t size) noexcept nogil:
    return size > 0 and address + <uint64_t> size > address


cdef inline int add_item(Cells* c, uint8_t action, uint64_t address, int64_t size, uint64_t stream,
                         uint32_t pool, bint expandable, bint small) noexcept nogil:
    cdef Item it
    memset(&it, 0, sizeof(Item))
    it.start = address
    it.end = address + <uint64_t> size
    it.stream = stream
    it.pool = pool
    it.action = action
    it.expandable = expandable
    it.small = small
    return push_item(&c.items, &it)


cdef inline bint says_small(uint8_t action, int64_t size) noexcept nogil:
    # Whether a segment event belongs to the small pool. Many small pages may be released at once.
    if action == A_SEGMENT_UNMAP:
        return size % LARGE_HANDLE != 0
    return size == SMALL_SEGMENT


cdef int gather(Reserve* v, const Replay* r, Cells* c) noexcept nogil:
    # Collect all items in order of time, with the final segments last.
    cdef const Tables* t = r.tables
    cdef const uint8_t* action = <const uint8_t*> t.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> t.address.data + r.first
    cdef const int64_t* size = <const int64_t*> t.size.data + r.first
    cdef const SegmentEvent* late
    cdef const Segment* s = <const Segment*> t.segments.data
    cdef DeviceRows rows = rows_of(t, r.device)
    cdef uint64_t i
    for i in range(r.events):
        if action[i] < A_SEGMENT_ALLOC or action[i] > A_SEGMENT_UNMAP:
            continue
        if not fits(address[i], size[i]):
            v.impossible_events += 1
            continue
        if (push_u32(&v.events, <uint32_t> i) < 0
                or add_item(c, action[i], address[i], size[i], sparse_at(&t.stream, r.first + i),
                            <uint32_t> sparse_at(&t.pool, r.first + i),
                            action[i] >= A_SEGMENT_MAP, says_small(action[i], size[i])) < 0):
            return -1
    if r.window != NULL:
        late = <const SegmentEvent*> r.window.segment_events.data
        for i in range(r.window.segment_events.len):
            if fits(late[i].address, late[i].size) and add_item(
                    c, <uint8_t> late[i].action, late[i].address, late[i].size, late[i].stream,
                    late[i].pool, late[i].action >= A_SEGMENT_MAP,
                    says_small(<uint8_t> late[i].action, late[i].size)) < 0:
                return -1
    c.changes = c.items.len
    for i in range(rows.first_segment, rows.end_segment):
        if s[i].device != r.device or not fits(s[i].address, s[i].total_size):
            continue
        v.final_bytes = <int64_t> (<uint64_t> v.final_bytes + <uint64_t> s[i].total_size)
        if add_item(c, A_NONE, s[i].address, s[i].total_size, s[i].stream, s[i].pool,
                    s[i].flags & EXPANDABLE, is_small(t, &s[i])) < 0:
            return -1
        (<Item*> c.items.data)[c.items.len - 1].recorded = s[i].stack != EMPTY_STACK
    return 0


cdef inline uint32_t cell_of(const Cells* c, uint64_t address) noexcept nogil:
    # Return the cell that begins at this address, which is a bound.
    cdef uint64_t lo = 0
    cdef uint64_t hi = c.n
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if c.bounds[mid] < address:
            lo = mid + 1
        else:
            hi = mid
    return <uint32_t> lo


cdef int cut(Cells* c) noexcept nogil:
    # Cut the addresses into cells.
    cdef Item* items = <Item*> c.items.data
    cdef uint64_t i
    cdef uint64_t n = 0
    c.bounds = <uint64_t*> malloc((2 * c.items.len + 1) * sizeof(uint64_t))
    c.next = <uint32_t*> malloc((2 * c.items.len + 1) * sizeof(uint32_t))
    if c.bounds == NULL or c.next == NULL:
        return -1
    for i in range(c.items.len):
        c.bounds[2 * i] = items[i].start
        c.bounds[2 * i + 1] = items[i].end
    qsort(c.bounds, 2 * c.items.len, sizeof(uint64_t), by_address)
    for i in range(2 * c.items.len):
        if i == 0 or c.bounds[i] != c.bounds[i - 1]:
            c.bounds[n] = c.bounds[i]
            n += 1
    c.n = n
    for i in range(c.items.len):
        items[i].lo = cell_of(c, items[i].start)
        items[i].hi = cell_of(c, items[i].end)
    return 0


cdef inline uint32_t unpainted(Cells* c, uint32_t at) noexcept nogil:
    # Return the first unpainted cell from `at` on, halving the path on the way.
    while c.next[at] != at:
        c.next[at] = c.next[c.next[at]]
        at = c.next[at]
    return at


cdef void paint(Cells* c, uint64_t first, uint64_t stop, bint backwards,
                uint32_t* painter) noexcept nogil:
    # Set painter[cell] to the first of these items that covers the cell (the last if `backwards`).
    cdef const Item* items = <const Item*> c.items.data
    cdef uint64_t i, at
    cdef uint32_t cell
    for i in range(c.n):
        painter[i] = NONE32
        c.next[i] = <uint32_t> i
    c.next[c.n] = <uint32_t> c.n
    for i in range(stop - first):
        at = stop - 1 - i if backwards else first + i
        cell = unpainted(c, items[at].lo)
        while cell < items[at].hi:
            painter[cell] = <uint32_t> at
            c.next[cell] = cell + 1
            cell = unpainted(c, cell)


cdef int add_regions(Reserve* v, const Cells* c, const uint32_t* painter) noexcept nogil:
    # Merge adjacent cells that were reserved at the start into regions.
    cdef const Item* items = <const Item*> c.items.data
    cdef const Item* it
    cdef Region* last = NULL
    cdef Region region
    cdef uint32_t before = NONE32
    cdef uint64_t i
    for i in range(c.n):
        if painter[i] == NONE32:
            before = NONE32
            continue
        it = &items[painter[i]]
        if it.action == A_SEGMENT_ALLOC or it.action == A_SEGMENT_MAP:
            before = NONE32
            continue
        v.start_bytes = <int64_t> (<uint64_t> v.start_bytes + c.bounds[i + 1] - c.bounds[i])
        if before == painter[i] or (before != NONE32 and it.expandable and last.expandable
                                    and it.stream == last.stream):
            last.end = c.bounds[i + 1]
            if last.pool == NONE32:
                last.pool = it.pool
            # Final segments state whether the pool is small; sizes only suggest it.
            last.small = it.small if it.action == A_NONE else last.small or it.small
        else:
            memset(&region, 0, sizeof(Region))
            region.start = c.bounds[i]
            region.end = c.bounds[i + 1]
            region.stream = it.stream
            region.pool = it.pool
            region.small = it.small
            region.expandable = it.expandable
            region.recorded = it.recorded
            if push_item(&v.regions, &region) < 0:
                return -1
            last = <Region*> v.regions.data + v.regions.len - 1
        before = painter[i]
    return 0


cdef void compare_end(Reserve* v, const Cells* c, const uint32_t* last,
                      const uint32_t* final) noexcept nogil:
    # Count the bytes in cells for which the last event and the final segments disagree.
    cdef const Item* items = <const Item*> c.items.data
    cdef uint64_t i
    cdef bint there
    for i in range(c.n):
        if last[i] == NONE32:
            continue
        there = (items[last[i]].action == A_SEGMENT_ALLOC
                 or items[last[i]].action == A_SEGMENT_MAP)
        if there != (final[i] != NONE32):
            v.misfits += c.bounds[i + 1] - c.bounds[i]


cdef int name_pools(Reserve* v, Cells* c, const uint32_t* last,
                    const uint32_t* final) noexcept nogil:
    # Give an event without a pool its segment's pool, if the segment still exists at the end.
    cdef const Item* items = <const Item*> c.items.data
    cdef uint32_t pool
    cdef uint64_t i
    for i in range(v.events.len):
        pool = items[i].pool
        if (pool == NONE32 and last[items[i].lo] == i and final[items[i].lo] != NONE32
                and items[i].action != A_SEGMENT_FREE and items[i].action != A_SEGMENT_UNMAP):
            pool = items[final[items[i].lo]].pool
        if push_u32(&v.pools, pool) < 0:
            return -1
    return 0


cdef int settle(Reserve* v, const Replay* r, Cells* c) noexcept nogil:
    cdef uint32_t* painter
    cdef uint32_t* final
    cdef int code = 0
    if cut(c) < 0:
        return -1
    painter = <uint32_t*> malloc((c.n + 1) * sizeof(uint32_t))
    final = <uint32_t*> malloc((c.n + 1) * sizeof(uint32_t))
    if painter == NULL or final == NULL:
        code = -1
    else:
        paint(c, 0, c.items.len, False, painter)
        code = add_regions(v, c, painter)
    if code == 0:
        paint(c, 0, c.changes, True, painter)
        paint(c, c.changes, c.items.len, False, final)
        compare_end(v, c, painter, final)
        code = name_pools(v, c, painter, final)
    free(painter)
    free(final)
    return code


cdef int reserve_init(Reserve* v, const Replay* r) noexcept nogil:
    cdef Cells c
    cdef const Item* items
    cdef uint64_t i
    cdef uint64_t end
    cdef int code
    memset(v, 0, sizeof(Reserve))
    memset(&c, 0, sizeof(Cells))
    buf_init(&v.events, 4)
    buf_init(&v.pools, 4)
    buf_init(&v.regions, sizeof(Region))
    buf_init(&c.items, sizeof(Item))
    code = gather(v, r, &c)
    if code == 0 and c.items.len:
        code = settle(v, r, &c)
    items = <const Item*> c.items.data
    end = <uint64_t> v.start_bytes
    # After running out of memory, an event may have no item.
    for i in range(v.events.len if code == 0 else 0):
        if items[i].action == A_SEGMENT_ALLOC or items[i].action == A_SEGMENT_MAP:
            end += items[i].end - items[i].start
        else:
            end -= items[i].end - items[i].start
    v.end_bytes = <int64_t> end
    free(c.bounds)
    free(c.next)
    buf_free(&c.items)
    return OK if code == 0 else fail(&v.status, ERR_MEMORY, "segments")


cdef void reserve_usage(const Reserve* v, const Replay* r, int64_t* out) noexcept nogil:
    # Store the reserved bytes after each event.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef uint64_t running = <uint64_t> v.start_bytes
    cdef uint64_t at = 0
    cdef uint64_t i
    for i in range(r.events):
        if at < v.events.len and events[at] == i:
            at += 1
            if action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP:
                running += <uint64_t> size[i]
            else:
                running -= <uint64_t> size[i]
        out[i] = <int64_t> running


cdef int add_ranges(const Cells* c, const uint32_t* painter, Buf* out) noexcept nogil:
    # Merge adjacent cells from the same item.
    cdef const Item* items = <const Item*> c.items.data
    cdef const Item* it
    cdef ReservedRange piece
    cdef uint32_t before = NONE32
    cdef uint64_t i
    for i in range(c.n):
        if painter[i] != NONE32 and painter[i] == before:
            (<ReservedRange*> out.data)[out.len - 1].end = c.bounds[i + 1]
            continue
        before = NONE32
        if painter[i] == NONE32:
            continue
        it = &items[painter[i]]
        if it.action == A_SEGMENT_FREE or it.action == A_SEGMENT_UNMAP:
            continue
        before = painter[i]
        memset(&piece, 0, sizeof(ReservedRange))
        piece.start = c.bounds[i]
        piece.end = c.bounds[i + 1]
        piece.stream = it.stream
        piece.source = before
        piece.small = it.small
        piece.expandable = it.expandable
        if push_item(out, &piece) < 0:
            return -1
    return 0


cdef int reserve_ranges(const Reserve* v, const Replay* r, int64_t event,
                        Buf* out) noexcept nogil:
    # Fill `out` (of ReservedRange) with the ranges reserved after an event, by address. An
    # address's state depends on the last item that touched it.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef const Region* g = <const Region*> v.regions.data
    cdef uint32_t* painter = NULL
    cdef uint64_t i, at
    cdef Cells c
    cdef int code = 0
    memset(&c, 0, sizeof(Cells))
    buf_init(&c.items, sizeof(Item))
    for i in range(v.regions.len):
        if add_item(&c, A_NONE, g[i].start, <int64_t> (g[i].end - g[i].start), g[i].stream,
                    g[i].pool, g[i].expandable, g[i].small) < 0:
            code = -1
    for i in range(v.events.len):
        at = events[i]
        if <int64_t> at > event or code < 0:
            break
        code = add_item(&c, action[at], address[at], size[at], sparse_at(&r.tables.stream,
                                                                         r.first + at),
                        NONE32, action[at] >= A_SEGMENT_MAP, says_small(action[at], size[at]))
    if code == 0 and c.items.len:
        code = cut(&c)
        painter = <uint32_t*> malloc((c.n + 1) * sizeof(uint32_t))
        if code == 0 and painter != NULL:
            paint(&c, 0, c.items.len, True, painter)
            code = add_ranges(&c, painter, out)
        else:
            code = -1
    free(painter)
    free(c.bounds)
    free(c.next)
    buf_free(&c.items)
    return OK if code == 0 else ERR_MEMORY


# --- recorded memory without events ---------------------------------------------------------------

cdef int reserve_unexplained(const Reserve* v, const Replay* r, uint64_t seed,
                             Unexplained* out) noexcept nogil:
    cdef const Tables* t = r.tables
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef const Segment* s = <const Segment*> t.segments.data
    cdef const uint64_t* address = <const uint64_t*> t.address.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef DeviceRows rows = rows_of(t, r.device)
    cdef Map64 changed
    cdef uint64_t i
    out[0] = Unexplained(0, 0, 0, 0, 0, 0)
    for i in range(r.carried.len):
        # Skip blocks that the trace frees, because their stack comes from the free.
        if carried[i].block != NONE32:
            out.blocks += 1
            out.bytes += carried[i].size
            if carried[i].stack != EMPTY_STACK:
                out.recorded_blocks += 1
                out.recorded_bytes += carried[i].size
    if map64_init(&changed, seed) < 0:
        return ERR_MEMORY
    for i in range(v.events.len):
        if map64_at(&changed, address[events[i]], 0) == NULL:
            map64_free(&changed)
            return ERR_MEMORY
    for i in range(rows.first_segment, rows.end_segment):
        # For an expandable segment, the file only has the mapped range.
        if s[i].device != r.device or s[i].flags & EXPANDABLE:
            continue
        if map64_find(&changed, s[i].address) == NULL:
            out.segments += 1
            out.recorded_segments += s[i].stack != EMPTY_STACK
    map64_free(&changed)
    return OK
