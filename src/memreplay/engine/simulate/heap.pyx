"""An allocator's state: pools, segments, blocks, and driver calls.

The free blocks with the same pool, kind and stream form a set ordered by size and address. A
segment's blocks form a linked list, so that free neighbours can be merged.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove, memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item, push_u32, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32, Slot64, map64_at, map64_free, map64_init
from memreplay.engine.read.tables cimport (
    A_SEGMENT_ALLOC, A_SEGMENT_FREE, A_SEGMENT_MAP, A_SEGMENT_UNMAP
)
from memreplay.engine.simulate.driver cimport (
    driver_free, driver_give, driver_init, span_of
)
from memreplay.engine.simulate.ordered cimport (
    Place, chunks_free, chunks_init, ordered_add, ordered_drop, ordered_drop_at, ordered_free,
    ordered_init
)


cdef int heap_init(Allocator* a, const Rules* rules, const Limits* limits, uint64_t base,
                   uint64_t seed) noexcept nogil:
    # NO_MEMORY when out of memory.
    memset(a, 0, sizeof(Allocator))
    a.rules = rules[0]
    a.limits = limits[0]
    buf_init(&a.blocks, sizeof(SimBlock))
    buf_init(&a.spare, 4)
    buf_init(&a.segments, sizeof(SimSegment))
    buf_init(&a.shelves, sizeof(Shelf))
    buf_init(&a.pools, sizeof(SimPool))
    buf_init(&a.loose, 4)
    buf_init(&a.log, sizeof(SegmentEvent))
    buf_init(&a.trace, sizeof(TraceEvent))
    chunks_init(&a.chunks)
    a.first_pending = NONE32
    a.last_pending = NONE32
    a.last_shelf = NONE32
    driver_init(&a.driver, base, limits.reuses)
    if (map64_init(&a.shelf_of, seed) < 0 or map64_init(&a.streams, seed + 1) < 0
            or map64_init(&a.pool_of, seed + 2) < 0):
        return NO_MEMORY
    return DONE_OK


cdef void heap_free(Allocator* a) noexcept nogil:
    cdef uint64_t i
    for i in range(a.shelves.len):
        ordered_free(&shelf_at(a, <uint32_t> i).free)
        ordered_free(&shelf_at(a, <uint32_t> i).unmapped)
    buf_free(&a.blocks)
    buf_free(&a.spare)
    buf_free(&a.segments)
    buf_free(&a.shelves)
    buf_free(&a.pools)
    buf_free(&a.loose)
    buf_free(&a.log)
    buf_free(&a.trace)
    chunks_free(&a.chunks)
    driver_free(&a.driver)
    map64_free(&a.shelf_of)
    map64_free(&a.streams)
    map64_free(&a.pool_of)


# --- pools, streams and kinds ---------------------------------------------------------------------

cdef uint32_t pool_number(Allocator* a, uint32_t id, bint private_pool) noexcept nogil:
    # NONE32 when out of memory.
    cdef Slot64* slot = map64_at(&a.pool_of, id, NONE32)
    cdef SimPool* pool
    if slot == NULL:
        return NONE32
    if slot.value == NONE32:
        if push_zeroed(&a.pools) < 0:
            return NONE32
        slot.value = <uint32_t> a.pools.len - 1
        pool = pool_at(a, slot.value)
        pool.id = id
        pool.private_pool = private_pool
    return slot.value


cdef uint32_t rank(const Allocator* a, const Shelf* s) noexcept nogil:
    # Cached memory is returned first from the default pool (large blocks first), then from private
    # pools (small blocks first).
    if not pool_at(a, s.pool).private_pool:
        return s.small
    return 2 + (not s.small)


cdef bint precedes(const Allocator* a, const Shelf* x, const Shelf* y) noexcept nogil:
    cdef bint mine = pool_at(a, x.pool).private_pool
    cdef bint other = pool_at(a, y.pool).private_pool
    if mine != other:
        return other
    if mine and x.pool != y.pool:
        return x.pool < y.pool
    if rank(a, x) != rank(a, y):
        return rank(a, x) < rank(a, y)
    return x.stream < y.stream


cdef uint64_t place_in(const Allocator* a, uint32_t shelf) noexcept nogil:
    # Return the shelf's position among the loose shelves, or where it would be inserted.
    cdef const uint32_t* order = <const uint32_t*> a.loose.data
    cdef uint64_t lo = 0
    cdef uint64_t hi = a.loose.len
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if precedes(a, shelf_at(a, order[mid]), shelf_at(a, shelf)):
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef int add_loose(Allocator* a, uint32_t shelf) noexcept nogil:
    cdef uint64_t at
    cdef uint32_t* order
    shelf_at(a, shelf).loose += 1
    if shelf_at(a, shelf).loose > 1:
        return DONE_OK
    at = place_in(a, shelf)
    if push_u32(&a.loose, shelf) < 0:
        return NO_MEMORY
    order = <uint32_t*> a.loose.data
    memmove(order + at + 1, order + at, (a.loose.len - 1 - at) * sizeof(uint32_t))
    order[at] = shelf
    return DONE_OK


cdef void drop_loose(Allocator* a, uint32_t shelf) noexcept nogil:
    cdef uint64_t at
    cdef uint32_t* order = <uint32_t*> a.loose.data
    shelf_at(a, shelf).loose -= 1
    if shelf_at(a, shelf).loose == 0:
        at = place_in(a, shelf)
        a.loose.len -= 1
        memmove(order + at, order + at + 1, (a.loose.len - at) * sizeof(uint32_t))


cdef uint32_t shelf_for(Allocator* a, uint64_t stream, uint32_t pool_id, bint private_pool,
                        bint small) noexcept nogil:
    # NONE32 when out of memory.
    cdef Slot64* slot = map64_at(&a.streams, stream, <uint32_t> a.streams.used)
    cdef uint32_t pool = pool_number(a, pool_id, private_pool)
    cdef uint64_t key
    cdef Shelf* s
    if slot == NULL or pool == NONE32:
        return NONE32
    key = <uint64_t> pool << 33 | <uint64_t> small << 32 | slot.value
    if a.last_shelf != NONE32 and a.last_key == key:
        return a.last_shelf
    slot = map64_at(&a.shelf_of, key, NONE32)
    if slot == NULL:
        return NONE32
    if slot.value == NONE32:
        if push_zeroed(&a.shelves) < 0:
            return NONE32
        slot.value = <uint32_t> a.shelves.len - 1
        s = shelf_at(a, slot.value)
        s.stream = stream
        s.pool = pool
        s.small = small
        ordered_init(&s.free)
        ordered_init(&s.unmapped)
    a.last_key = key
    a.last_shelf = slot.value
    return slot.value


# --- blocks ---------------------------------------------------------------------------------------

cdef uint32_t new_block(Allocator* a, uint64_t address, uint64_t size, uint32_t shelf,
                        uint32_t segment, uint8_t state) noexcept nogil:
    # Create an unlinked block; NONE32 when out of memory.
    cdef uint32_t i
    cdef SimBlock* b
    if a.spare.len:
        a.spare.len -= 1
        i = (<uint32_t*> a.spare.data)[a.spare.len]
    else:
        i = <uint32_t> a.blocks.len
        if push_zeroed(&a.blocks) < 0:
            return NONE32
    b = block_at(a, i)
    memset(b, 0, sizeof(SimBlock))
    b.address = address
    b.size = size
    b.shelf = shelf
    b.segment = segment
    b.state = state
    b.owner = NONE32
    b.prev = b.next = b.earlier = b.later = NONE32
    return i


cdef int drop_block(Allocator* a, uint32_t i) noexcept nogil:
    block_at(a, i).state = NO_BLOCK
    block_at(a, i).owner = NONE32
    return push_u32(&a.spare, i)


cdef inline void link(Allocator* a, uint32_t left, uint32_t right) noexcept nogil:
    if left != NONE32:
        block_at(a, left).next = right
    if right != NONE32:
        block_at(a, right).prev = left


cdef inline bint is_loose(const Allocator* a, uint32_t i) noexcept nogil:
    # Whether at least part of a free block can be returned, because it's a whole segment or
    # contains handles. This doesn't change while the block is on its shelf.
    cdef uint64_t handle = segment_at(a, block_at(a, i).segment).handle
    return block_at(a, i).size >= handle if handle else is_whole(a, i)


cdef int shelve(Allocator* a, uint32_t i) noexcept nogil:
    # Put a block on its shelf.
    cdef SimBlock* b = block_at(a, i)
    cdef Shelf* s = shelf_at(a, b.shelf)
    if b.state == UNMAPPED:
        return ordered_add(&s.unmapped, &a.chunks, 0, b.address, i)
    b.born = lookups_of(a, b.shelf)[0]
    if is_loose(a, i) and add_loose(a, b.shelf) < 0:
        return NO_MEMORY
    return ordered_add(&s.free, &a.chunks, b.size, b.address, i)


cdef int unshelve(Allocator* a, uint32_t i) noexcept nogil:
    cdef SimBlock* b = block_at(a, i)
    cdef Shelf* s = shelf_at(a, b.shelf)
    if b.state == UNMAPPED:
        return ordered_drop(&s.unmapped, &a.chunks, 0, b.address)
    if is_loose(a, i):
        drop_loose(a, b.shelf)
    return ordered_drop(&s.free, &a.chunks, b.size, b.address)


cdef int unshelve_at(Allocator* a, uint32_t i, Place place) noexcept nogil:
    # Remove a free block at a known place from its shelf.
    if is_loose(a, i):
        drop_loose(a, block_at(a, i).shelf)
    return ordered_drop_at(&shelf_at(a, block_at(a, i).shelf).free, &a.chunks, place)


cdef int join(Allocator* a, uint32_t i) noexcept nogil:
    # Merge a free or unmapped block that isn't on a shelf with its neighbours in the same state.
    cdef SimBlock* b = block_at(a, i)
    cdef uint32_t other = b.prev
    if other != NONE32 and block_at(a, other).state == b.state:
        if unshelve(a, other) < 0:
            return NO_MEMORY
        b.address = block_at(a, other).address
        b.size += block_at(a, other).size
        b.prev = block_at(a, other).prev
        link(a, b.prev, i)
        if b.prev == NONE32:
            segment_at(a, b.segment).first = i
        if drop_block(a, other) < 0:
            return NO_MEMORY
    other = b.next
    if other != NONE32 and block_at(a, other).state == b.state:
        if unshelve(a, other) < 0:
            return NO_MEMORY
        b.size += block_at(a, other).size
        b.next = block_at(a, other).next
        link(a, i, b.next)
        if drop_block(a, other) < 0:
            return NO_MEMORY
    return DONE_OK


cdef int cut(Allocator* a, uint32_t i, uint64_t size) noexcept nogil:
    # Keep `size` bytes of a block that isn't on a shelf. The rest becomes a second block in the
    # same state, which isn't on a shelf either.
    cdef uint32_t rest = new_block(a, block_at(a, i).address + size, block_at(a, i).size - size,
                                   block_at(a, i).shelf, block_at(a, i).segment,
                                   block_at(a, i).state)
    if rest == NONE32:
        return NO_MEMORY
    block_at(a, i).size = size
    link(a, rest, block_at(a, i).next)
    link(a, i, rest)
    return DONE_OK


cdef uint64_t mapped_ranges(const Allocator* a) noexcept nogil:
    # Count runs of adjacent mapped blocks.
    cdef const SimBlock* b
    cdef uint64_t found = 0
    cdef uint64_t i
    for i in range(a.blocks.len):
        b = block_at(a, <uint32_t> i)
        if b.state == NO_BLOCK or b.state == UNMAPPED:
            continue
        found += b.prev == NONE32 or block_at(a, b.prev).state == UNMAPPED
    return found


# --- the driver -----------------------------------------------------------------------------------

cdef int add_trace_event(Allocator* a, uint8_t action, uint64_t address, int64_t size,
                         uint32_t shelf) noexcept nogil:
    # Append an event that would be in a recording of the simulation.
    cdef TraceEvent e
    if not a.keeps_trace:
        return DONE_OK
    e.at = a.at
    e.stack = a.stack
    e.address = address
    e.size = size
    e.stream = shelf_at(a, shelf).stream
    e.pool = pool_at(a, shelf_at(a, shelf).pool).id
    e.action = action
    return push_item(&a.trace, &e)


cdef int note(Allocator* a, uint8_t action, uint64_t address, uint64_t size,
              uint32_t shelf) noexcept nogil:
    # Record a driver call.
    cdef SegmentEvent e
    if action == A_SEGMENT_ALLOC or action == A_SEGMENT_MAP:
        a.reserved += <int64_t> size
        a.driver_allocs += 1
        if a.reserved > a.reserved_peak:
            a.reserved_peak = a.reserved
            a.reserved_peak_at = <int64_t> a.at
    else:
        a.reserved -= <int64_t> size
        a.driver_frees += 1
    if add_trace_event(a, action, address, <int64_t> size, shelf) < 0:
        return NO_MEMORY
    if not a.keeps_log:
        return DONE_OK
    e.at = a.at
    e.address = address
    e.size = size
    e.shelf = shelf
    e.action = action
    return push_item(&a.log, &e)


cdef uint32_t add_segment(Allocator* a, uint32_t span, uint64_t size, uint32_t shelf,
                          uint64_t handle, uint8_t state) noexcept nogil:
    # Return the new segment's only block, which isn't on a shelf yet. Returns NONE32 when out of
    # memory or if `span` is NONE32.
    cdef SimSegment segment
    cdef uint32_t i
    if span == NONE32:
        return NONE32
    i = new_block(a, span_of(&a.driver, span).address, size, shelf, <uint32_t> a.segments.len,
                  state)
    segment.span = span
    segment.first = i
    segment.handle = handle
    segment.created_at = a.stack
    return i if i != NONE32 and push_item(&a.segments, &segment) == 0 else NONE32


cdef int give_back(Allocator* a, uint32_t i) noexcept nogil:
    # Release a free block that is a whole segment.
    cdef SimBlock* b = block_at(a, i)
    if note(a, A_SEGMENT_FREE, b.address, b.size, b.shelf) < 0 or unshelve(a, i) < 0:
        return NO_MEMORY
    segment_at(a, b.segment).first = NONE32
    if driver_give(&a.driver, segment_at(a, b.segment).span) < 0:
        return NO_MEMORY
    return drop_block(a, i)


cdef int map_block(Allocator* a, uint32_t i, uint64_t size, bint* mapped) noexcept nogil:
    # Map whole handles at the start of an unmapped block, or nothing if there isn't enough memory.
    # The mapped block is free, is merged with free neighbours, and goes on its shelf.
    cdef SimBlock* b = block_at(a, i)
    cdef uint64_t handle = segment_at(a, b.segment).handle
    cdef uint64_t address = b.address
    size = min((size + handle - 1) // handle * handle, b.size)
    mapped[0] = has_room(a, size)
    if not mapped[0]:
        return DONE_OK
    if unshelve(a, i) < 0:
        return NO_MEMORY
    if size < b.size:
        if cut(a, i, size) < 0 or shelve(a, block_at(a, i).next) < 0:
            return NO_MEMORY
    block_at(a, i).state = FREE_BLOCK
    if join(a, i) < 0 or shelve(a, i) < 0:
        return NO_MEMORY
    return note(a, A_SEGMENT_MAP, address, size, block_at(a, i).shelf)


cdef int unmap_block(Allocator* a, uint32_t i) noexcept nogil:
    # Unmap all whole handles in a free block. Partial handles at its ends stay free.
    cdef SimBlock* b = block_at(a, i)
    cdef uint64_t handle = segment_at(a, b.segment).handle
    # Compute with offsets from the segment's start, because addresses may be near the maximum.
    cdef uint64_t start = b.address - span_of(&a.driver, segment_at(a, b.segment).span).address
    cdef uint64_t before = (handle - start % handle) % handle
    cdef uint64_t address, size
    cdef uint32_t shelf = b.shelf
    if b.size < before + handle:
        return DONE_OK
    address = b.address + before
    size = (b.size - before) // handle * handle
    if unshelve(a, i) < 0:
        return NO_MEMORY
    if before:
        if cut(a, i, before) < 0 or shelve(a, i) < 0:
            return NO_MEMORY
        i = block_at(a, i).next
    if block_at(a, i).size > size:
        if cut(a, i, size) < 0 or shelve(a, block_at(a, i).next) < 0:
            return NO_MEMORY
    block_at(a, i).state = UNMAPPED
    if join(a, i) < 0 or note(a, A_SEGMENT_UNMAP, address, size, shelf) < 0:
        return NO_MEMORY
    b = block_at(a, i)
    if b.prev != NONE32 or b.next != NONE32:
        return shelve(a, i)
    segment_at(a, b.segment).first = NONE32
    if driver_give(&a.driver, segment_at(a, b.segment).span) < 0:
        return NO_MEMORY
    return drop_block(a, i)
