"""Set up the allocator's state at the start of the recording from the replay's segments and blocks.

Files don't record which addresses an expandable segment reserves. Mapped ranges with the same pool
and stream count as one segment if there are only whole pages between them.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.sparse cimport sparse_at
from memreplay.engine.read.tables cimport A_SEGMENT_MAP, Carried
from memreplay.engine.replay.held cimport NEVER_HELD
from memreplay.engine.replay.idle cimport is_default_pool
from memreplay.engine.replay.replay cimport CARRIED, Replay
from memreplay.engine.replay.reserve cimport Region, Reserve
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT
from memreplay.engine.simulate.allocator cimport request_free
from memreplay.engine.simulate.driver cimport PAGE, driver_place
from memreplay.engine.simulate.editing cimport changes_carried
from memreplay.engine.simulate.heap cimport (
    DONE_OK, FREE_BLOCK, NO_MEMORY, UNMAPPED, USED_BLOCK, Allocator, add_segment, block_at, cut,
    shelf_for, shelve
)
from memreplay.engine.simulate.simulation cimport Simulation

cdef extern from *:
    const uint64_t NO_ADDRESS "UINT64_MAX"


cdef struct Placed:
    # A carried-over block, for sorting by region and address.
    uint64_t address
    uint32_t region
    uint32_t block


cdef struct Mapping:
    # An event that maps a range in an expandable segment.
    uint64_t address
    uint32_t event


cdef struct Start:
    Simulation* s
    const Region* regions
    uint64_t n            # number of regions
    Placed* placed        # carried-over blocks, by region and address
    uint64_t count        # number of placed blocks
    uint64_t next         # the first block that isn't in the simulation yet
    bint failed           # no memory for a shelf
    Buf mappings          # Mapping, by address


cdef int by_place(const void* a, const void* b) noexcept nogil:
    cdef const Placed* x = <const Placed*> a
    cdef const Placed* y = <const Placed*> b
    if x.region != y.region:
        return (x.region > y.region) - (x.region < y.region)
    return (x.address > y.address) - (x.address < y.address)


cdef int place_carried(Start* t) noexcept nogil:
    cdef const Replay* r = t.s.arena.replay
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef const uint32_t* origin = <const uint32_t*> t.s.arena.carried_origin.data
    cdef uint64_t i
    if r.carried.len == 0:
        return DONE_OK
    t.placed = <Placed*> malloc(r.carried.len * sizeof(Placed))
    if t.placed == NULL:
        return NO_MEMORY
    for i in range(r.carried.len):
        # The first origins are the regions'.
        if origin[i] >= t.n:
            t.s.unplaced += 1
            continue
        t.placed[t.count].address = carried[i].address
        t.placed[t.count].region = origin[i]
        t.placed[t.count].block = <uint32_t> i
        t.count += 1
    qsort(t.placed, t.count, sizeof(Placed), by_place)
    return DONE_OK


cdef uint32_t shelf_of(Start* t, const Region* g) noexcept nogil:
    # Return NONE32 when out of memory. Also set `failed`, because a caller that only compares the
    # result would take NONE32 for another shelf.
    cdef const Replay* r = t.s.arena.replay
    cdef bint private_pool = g.pool != NONE32 and not is_default_pool(r.tables, g.pool)
    cdef uint32_t shelf = shelf_for(&t.s.a, g.stream, g.pool if private_pool else NONE32,
                                    private_pool, g.small)
    t.failed |= shelf == NONE32
    return shelf


cdef int fill(Start* t, uint64_t region, uint32_t i) noexcept nogil:
    # Cut block i, which covers a region and isn't on a shelf, into used and free blocks.
    cdef Simulation* s = t.s
    cdef Allocator* a = &s.a
    cdef const Carried* carried = <const Carried*> s.arena.replay.carried.data
    cdef const int64_t* sizes = <const int64_t*> s.arena.carried_bytes.data
    cdef uint64_t end = t.regions[region].end
    cdef uint64_t address, size
    cdef uint32_t block
    block_at(a, i).state = FREE_BLOCK
    while t.next < t.count and t.placed[t.next].region == region:
        block = t.placed[t.next].block
        address = t.placed[t.next].address
        size = <uint64_t> sizes[block]
        t.next += 1
        if (i == NONE32 or address < block_at(a, i).address or size == 0 or address >= end
                or size > end - address):
            s.unplaced += 1
            continue
        if changes_carried(&s.edit, block) and s.edit.factor == 0:
            continue
        if address > block_at(a, i).address:
            if cut(a, i, address - block_at(a, i).address) < 0 or shelve(a, i) < 0:
                return NO_MEMORY
            i = block_at(a, i).next
        if size < block_at(a, i).size and cut(a, i, size) < 0:
            return NO_MEMORY
        block_at(a, i).state = USED_BLOCK
        block_at(a, i).owner = CARRIED | block
        block_at(a, i).requested = carried[block].size
        (<uint32_t*> s.carried_block.data)[block] = i
        a.active += <int64_t> size
        a.requested += carried[block].size
        i = block_at(a, i).next if address + size < end else NONE32
    return shelve(a, i) if i != NONE32 else DONE_OK


cdef int take_segment(Start* t, uint64_t region, uint32_t shelf) noexcept nogil:
    cdef const Region* g = &t.regions[region]
    cdef Allocator* a = &t.s.a
    cdef uint32_t i
    i = add_segment(a, driver_place(&a.driver, g.start, g.end - g.start), g.end - g.start,
                    shelf, 0, FREE_BLOCK)
    if i == NONE32:
        return NO_MEMORY
    return fill(t, region, i)


# --- expandable segments --------------------------------------------------------------------------

cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef const Mapping* x = <const Mapping*> a
    cdef const Mapping* y = <const Mapping*> b
    return (x.address > y.address) - (x.address < y.address)


cdef int list_mappings(Start* t) noexcept nogil:
    cdef const Reserve* v = t.s.arena.reserve
    cdef const Replay* r = t.s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const uint32_t* events = <const uint32_t*> v.events.data
    cdef uint64_t i
    cdef Mapping m
    for i in range(v.events.len):
        m.event = events[i]
        m.address = address[m.event]
        if action[m.event] == A_SEGMENT_MAP and push_item(&t.mappings, &m) < 0:
            return NO_MEMORY
    if t.mappings.len:
        qsort(t.mappings.data, t.mappings.len, sizeof(Mapping), by_address)
    return DONE_OK


cdef uint64_t lowest_mapped(const Start* t, const Region* g, uint64_t floor,
                            uint64_t handle) noexcept nogil:
    # Return the lowest address known to belong to a region's segment. This address may be below the
    # region, because memory that was unmapped before the recording may have been mapped again
    # since.
    cdef const Replay* r = t.s.arena.replay
    cdef const int64_t* sizes = <const int64_t*> r.tables.size.data + r.first
    cdef const Mapping* m = <const Mapping*> t.mappings.data
    cdef uint64_t lo = 0
    cdef uint64_t hi = t.mappings.len
    cdef uint64_t mid, size
    while lo < hi:
        mid = (lo + hi) // 2
        if m[mid].address < floor:
            lo = mid + 1
        else:
            hi = mid
    while lo < t.mappings.len and m[lo].address < g.start:
        size = <uint64_t> sizes[m[lo].event]
        # Small requests map one handle at a time.
        if ((g.start - m[lo].address) % handle == 0
                and (size == handle or (not g.small and size % handle == 0))
                and sparse_at(&r.tables.stream, r.first + m[lo].event) == g.stream):
            return m[lo].address
        lo += 1
    return g.start


cdef uint64_t last_of(Start* t, uint64_t region, uint32_t shelf, uint64_t handle,
                      uint64_t space) noexcept nogil:
    # Return the last region of the same expandable segment.
    cdef uint64_t base = t.regions[region].start
    while (region + 1 < t.n and t.regions[region + 1].expandable
           and shelf_of(t, &t.regions[region + 1]) == shelf
           and (t.regions[region + 1].start - base) % handle == 0
           and t.regions[region + 1].end - base <= space):
        region += 1
    return region


cdef uint64_t space_of(const Start* t, uint64_t handle) noexcept nogil:
    # Return the size of an expandable segment's address space.
    return (t.s.a.limits.space + handle - 1) // handle * handle


cdef inline uint64_t handle_of(const Start* t, const Region* g) noexcept nogil:
    return SMALL_SEGMENT if g.small else t.s.recorded.handle


cdef uint64_t base_of(Start* t, uint64_t region, uint64_t floor) noexcept nogil:
    # Return the start of the segment that begins with this region. `floor` is the end of the memory
    # before the segment.
    cdef const Region* g = &t.regions[region]
    cdef uint64_t handle, space, end
    if not g.expandable:
        return g.start
    handle = handle_of(t, g)
    space = space_of(t, handle)
    end = t.regions[last_of(t, region, shelf_of(t, g), handle, space)].end
    return lowest_mapped(t, g, max(floor, end - min(end, space)), handle)


cdef int take_expandable(Start* t, uint64_t region, uint64_t last, uint64_t base,
                         uint64_t ceiling, uint32_t shelf) noexcept nogil:
    # Create one segment from these regions. `base` is its start, `ceiling` the start of the next
    # segment.
    cdef Allocator* a = &t.s.a
    cdef uint64_t handle = handle_of(t, &t.regions[region])
    cdef uint64_t space = min(space_of(t, handle), (ceiling - base) // PAGE * PAGE)
    cdef uint32_t i, rest
    space = max(space // handle * handle, t.regions[last].end - base)
    i = add_segment(a, driver_place(&a.driver, base, space), space, shelf, handle, UNMAPPED)
    if i == NONE32:
        return NO_MEMORY
    while region <= last:
        if t.regions[region].start > block_at(a, i).address:
            if (cut(a, i, t.regions[region].start - block_at(a, i).address) < 0
                    or shelve(a, i) < 0):
                return NO_MEMORY
            i = block_at(a, i).next
        rest = NONE32
        if t.regions[region].end - t.regions[region].start < block_at(a, i).size:
            if cut(a, i, t.regions[region].end - t.regions[region].start) < 0:
                return NO_MEMORY
            rest = block_at(a, i).next
        if fill(t, region, i) < 0:
            return NO_MEMORY
        i = rest
        region += 1
    return shelve(a, i) if i != NONE32 else DONE_OK


# --- entry points ---------------------------------------------------------------------------------

cdef int note_pending(Start* t) noexcept nogil:
    # Mark blocks as pending if their free was requested before the recording and waits for a
    # stream.
    cdef const uint32_t* end = <const uint32_t*> t.s.held.carried_end.data
    cdef const uint32_t* blocks = <const uint32_t*> t.s.carried_block.data
    cdef uint64_t i
    for i in range(t.s.arena.replay.carried.len):
        if end[i] == NEVER_HELD and blocks[i] != NONE32 and request_free(&t.s.a, blocks[i]) < 0:
            return NO_MEMORY
    return DONE_OK


cdef int take_regions(Start* t) noexcept nogil:
    cdef const Region* g
    cdef uint64_t i = 0
    cdef uint64_t last, base, ceiling, handle
    cdef uint32_t shelf
    if place_carried(t) < 0 or list_mappings(t) < 0:
        return NO_MEMORY
    base = base_of(t, 0, 0) if t.n else 0
    while i < t.n:
        g = &t.regions[i]
        shelf = shelf_of(t, g)
        if shelf == NONE32:
            return NO_MEMORY
        last = i
        if g.expandable:
            handle = handle_of(t, g)
            last = last_of(t, i, shelf, handle, space_of(t, handle))
        ceiling = NO_ADDRESS
        if last + 1 < t.n:
            ceiling = base_of(t, last + 1, t.regions[last].end)
        if t.failed:
            return NO_MEMORY
        if g.expandable:
            if take_expandable(t, i, last, base, ceiling, shelf) < 0:
                return NO_MEMORY
        elif take_segment(t, i, shelf) < 0:
            return NO_MEMORY
        base = ceiling
        i = last + 1
    return note_pending(t)


cdef int take_start(Simulation* s) noexcept nogil:
    # NO_MEMORY when out of memory.
    cdef Start t
    cdef int code
    t.s = s
    t.regions = <const Region*> s.arena.reserve.regions.data
    t.n = s.arena.reserve.regions.len
    t.placed = NULL
    t.count = 0
    t.next = 0
    t.failed = False
    buf_init(&t.mappings, sizeof(Mapping))
    code = take_regions(&t)
    free(t.placed)
    buf_free(&t.mappings)
    s.a.reserved = s.arena.reserve.start_bytes
    s.a.reserved_peak = s.a.reserved
    s.a.reserved_peak_at = -1
    s.a.active_peak = s.a.active
    s.a.active_peak_at = -1
    s.a.requested_peak = s.a.requested
    s.a.requested_peak_at = -1
    return code
