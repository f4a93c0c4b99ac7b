"""Replay the caching allocator's blocks: splits, merges, new and released segments.

The trace has each allocation's address, so the free block that the allocation took is known. Only
the new block's size is missing, but that follows from the free block and the allocator's rules for
splitting. docs/allocator.md has the rules and explains when a size is proven or assumed.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport malloc, free, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_u32
from memreplay.engine.base.hashmap cimport NONE32, map64_free, map64_get, map64_init
from memreplay.engine.replay.idle cimport (
    idle_check, idle_end, idle_free, idle_init, idle_take, idle_use, is_default_pool
)
from memreplay.engine.base.slim cimport slim_free, slim_init, slim_set, slim_unset
from memreplay.engine.replay.lives cimport weights_add, weights_free, weights_init
from memreplay.engine.replay.nodes cimport (
    FREE_NODE, begin_aligned, link, new_node, new_origin, node, node_at, note_end, origin_at,
    origin_of, put, release, retire, root, split, set_pool, unite
)
from memreplay.engine.replay.replay cimport CARRIED
from memreplay.engine.replay.reserve cimport Region
from memreplay.engine.replay.sizes cimport (
    MIN_BLOCK, SMALL_LIMIT, SMALL_SEGMENT, leaves_rest, max_split, round_size
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.replay.synthetic cimport mark_synthetic
from memreplay.engine.read.tables cimport (
    AFTER, A_ALLOC, A_FREE_COMPLETED, A_OOM, A_SEGMENT_ALLOC, A_SEGMENT_FREE, A_SEGMENT_MAP,
    A_SEGMENT_UNMAP, Block, Carried, DeviceRows, STATE_INACTIVE, Segment, Tables, rows_of,
)
from memreplay.engine.read.sparse cimport sparse_at

cdef enum:
    SEARCH_STEPS = 1 << 26     # step limit of all searches together
    LOOKS = 1 << 22            # step limit of the searches that only explain a misfit

cdef extern from *:
    # In `event_pools`, marks an event without a pool; the other bits are its origin.
    const uint32_t OF_ORIGIN "0x80000000u"


cdef struct Placed:
    # A carried-over block, for sorting by address.
    uint64_t address
    uint32_t block


cdef void arena_free(Arena* a) noexcept nogil:
    buf_free(&a.nodes)
    buf_free(&a.spare)
    buf_free(&a.origins)
    buf_free(&a.order)
    weights_free(&a.weights)
    slim_free(&a.pool)
    buf_free(&a.event_pools)
    buf_free(&a.carried_bytes)
    buf_free(&a.carried_origin)
    buf_free(&a.doubtful)
    buf_free(&a.synthetic)
    buf_free(&a.empty)
    idle_free(&a.idle)
    map64_free(&a.at)
    map64_free(&a.ends)


# --- the rules ------------------------------------------------------------------------------------

cdef inline uint64_t size_for(const Arena* a, uint64_t requested, uint32_t stack) noexcept nogil:
    # Return the block size for a request. An alloc that restores a checkpoint already has the block
    # size, a multiple of the smallest block size. If its size isn't a multiple, the stack belongs
    # to something else.
    if (a.synthetic.len and (<const uint8_t*> a.synthetic.data)[stack] and requested
            and requested % MIN_BLOCK == 0):
        return requested
    return round_size(&a.rules, requested)


cdef inline bint splits_all(const Arena* a, const Origin* o) noexcept nogil:
    return o.small or o.expandable or a.rules.expandable


cdef inline bint splits(const Arena* a, const Origin* o, uint64_t block,
                        uint64_t size) noexcept nogil:
    # Whether the rest of a free block becomes a block of its own.
    return leaves_rest(&a.rules, o.small, o.expandable or a.rules.expandable, block, size)


# --- the start ------------------------------------------------------------------------------------

cdef int by_place(const void* x, const void* y) noexcept nogil:
    cdef uint64_t p = (<const Placed*> x).address
    cdef uint64_t q = (<const Placed*> y).address
    return (p > q) - (p < q)


cdef int sort_carried(Arena* a) noexcept nogil:
    cdef const Carried* carried = <const Carried*> a.replay.carried.data
    cdef uint64_t n = a.replay.carried.len
    cdef uint64_t i
    cdef Placed* placed
    if n == 0:
        return 0
    placed = <Placed*> malloc(n * sizeof(Placed))
    if placed == NULL or buf_reserve(&a.order, n) < 0:
        free(placed)
        return -1
    for i in range(n):
        placed[i].address = carried[i].address
        placed[i].block = <uint32_t> i
    qsort(placed, n, sizeof(Placed), by_place)
    for i in range(n):
        (<uint32_t*> a.order.data)[i] = placed[i].block
    a.order.len = n
    free(placed)
    return 0


cdef uint64_t carried_size(Arena* a, uint32_t block, const Origin* o, uint64_t room,
                           bint first) noexcept nogil:
    # Return the size of a carried-over block that has `room` up to the next block in use or the
    # segment's end. Mark the block if its size is assumed.
    cdef const Carried* b = <const Carried*> a.replay.carried.data + block
    cdef const Block* final = <const Block*> a.replay.tables.blocks.data
    cdef uint64_t size
    if b.block != NONE32 and final[b.block].size > 0 and <uint64_t> final[b.block].size <= room:
        return <uint64_t> final[b.block].size
    if b.size <= b.block_size and 0 < b.block_size and <uint64_t> b.block_size <= room:
        return <uint64_t> b.block_size
    size = size_for(a, <uint64_t> b.size, b.stack)
    if size > room and 0 < <uint64_t> b.size <= room and <uint64_t> b.size % MIN_BLOCK == 0:
        size = <uint64_t> b.size
    if b.doubtful and size != round_size(&a.rules, <uint64_t> b.size):
        # This assumes that the block comes from a checkpoint. That it is freed doesn't prove it.
        (<uint8_t*> a.doubtful.data)[block] = True
    if size > room:
        a.misplaced += 1
        (<uint8_t*> a.doubtful.data)[block] = True
        return room
    if splits_all(a, o) or size == room:
        return size
    # Free blocks of the large pool exceed 1 MiB, so a smaller gap belongs to the block.
    if room - size <= SMALL_LIMIT or (first and size >= max_split(&a.rules)):
        return room
    (<uint8_t*> a.doubtful.data)[block] = True
    return size


cdef int fill_region(Arena* a, const Region* g, uint64_t* next) noexcept nogil:
    # Create a region's blocks, starting with carried-over block `next` (in the order of addresses).
    cdef const Carried* carried = <const Carried*> a.replay.carried.data
    cdef const uint32_t* order = <const uint32_t*> a.order.data
    cdef uint64_t at = g.start
    cdef uint64_t address, stop, size
    cdef uint32_t i, block, last = NONE32
    cdef Origin o
    o.stream = g.stream
    o.pool = g.pool
    o.small = g.small
    o.expandable = g.expandable
    if new_origin(a, &o) < 0:
        return -1
    if next[0] >= a.order.len or carried[order[next[0]]].address >= g.end:
        if push_u32(&a.empty, <uint32_t> a.origins.len - 1) < 0:
            return -1
    while next[0] < a.order.len and carried[order[next[0]]].address < g.end:
        block = order[next[0]]
        address = carried[block].address
        next[0] += 1
        if address < at:
            # The block is before the region or inside the previous block, so events were lost.
            a.misplaced += 1
            (<uint8_t*> a.doubtful.data)[block] = True
            continue
        if address > at:
            i = new_node(a, at, address - at, FREE_NODE, <uint32_t> a.origins.len - 1)
            if i == NONE32:
                return -1
            link(a, last, i)
            last = i
        stop = g.end
        if next[0] < a.order.len and carried[order[next[0]]].address < g.end:
            stop = carried[order[next[0]]].address
        if stop == address:
            a.misplaced += 1
            (<uint8_t*> a.doubtful.data)[block] = True
            continue
        size = carried_size(a, block, &o, stop - address, address == g.start)
        i = new_node(a, address, size, CARRIED | block, <uint32_t> a.origins.len - 1)
        if i == NONE32:
            return -1
        link(a, last, i)
        last = i
        at = address + size
        (<int64_t*> a.carried_bytes.data)[block] = <int64_t> size
        (<uint32_t*> a.carried_origin.data)[block] = <uint32_t> a.origins.len - 1
    if at < g.end:
        i = new_node(a, at, g.end - at, FREE_NODE, <uint32_t> a.origins.len - 1)
        if i == NONE32:
            return -1
        link(a, last, i)
        last = i
    return note_end(a, last)


cdef int take_start(Arena* a) noexcept nogil:
    # Create the blocks that existed before the first event.
    cdef const Carried* carried = <const Carried*> a.replay.carried.data
    cdef const Region* regions = <const Region*> a.reserve.regions.data
    cdef uint64_t next = 0
    cdef uint64_t i
    if sort_carried(a) < 0:
        return -1
    for i in range(a.replay.carried.len):
        (<int64_t*> a.carried_bytes.data)[i] = 0
        (<uint32_t*> a.carried_origin.data)[i] = NONE32
        (<uint8_t*> a.doubtful.data)[i] = False
    for i in range(a.reserve.regions.len):
        if fill_region(a, &regions[i], &next) < 0:
            return -1
    for i in range(a.replay.carried.len):
        if (<int64_t*> a.carried_bytes.data)[i] == 0:
            # The block is outside all known segments.
            (<int64_t*> a.carried_bytes.data)[i] = <int64_t> size_for(
                a, <uint64_t> carried[i].size, carried[i].stack)
            (<uint8_t*> a.doubtful.data)[i] = True
    return idle_take(&a.idle, a.replay.tables, a.reserve, &a.rules, &a.empty)


# --- events ---------------------------------------------------------------------------------------

cdef inline void prove(Arena* a, uint32_t i, uint64_t size) noexcept nogil:
    # Node i, a carried-over block, is proven to have this size, because an allocation begins at its
    # end.
    cdef uint32_t block = node(a, i).owner & ~CARRIED
    (<uint8_t*> a.doubtful.data)[block] = False
    (<int64_t*> a.carried_bytes.data)[block] = <int64_t> size
    node(a, i).size = size


cdef int end_before(Arena* a, uint64_t address, uint32_t* found) noexcept nogil:
    # Handle an allocation inside memory that was assumed to be free. If the previous block's size
    # was only assumed and may include the gap up to this address, extend that block. `found`
    # becomes the free node at the address. Returns -1 when out of memory.
    cdef const Carried* carried = <const Carried*> a.replay.carried.data
    cdef const uint32_t* order = <const uint32_t*> a.order.data
    cdef uint64_t lo = 0
    cdef uint64_t hi = a.order.len
    cdef uint64_t mid, moved
    cdef uint32_t block, i, gap
    while lo < hi:
        mid = (lo + hi) // 2
        if carried[order[mid]].address < address:
            lo = mid + 1
        else:
            hi = mid
    if lo == 0:
        return 0
    block = order[lo - 1]
    i = node_at(a, carried[block].address)
    if i == NONE32 or node(a, i).owner != CARRIED | block:
        return 0
    gap = node(a, i).next
    if (not (<uint8_t*> a.doubtful.data)[block] or gap == NONE32
            or node(a, gap).owner != FREE_NODE or node(a, gap).address >= address
            or address - node(a, gap).address >= node(a, gap).size
            or (address - node(a, gap).address > SMALL_LIMIT
                and round_size(&a.rules, <uint64_t> carried[block].size) < max_split(&a.rules))):
        return 0
    moved = address - node(a, gap).address
    prove(a, i, node(a, i).size + moved)
    node(a, gap).address = address
    node(a, gap).size -= moved
    found[0] = gap
    return put(&a.at, address, gap)


cdef bint in_no_node(Arena* a, uint64_t address) noexcept nogil:
    # Whether no node contains this address; False if the search was cut short.
    cdef uint32_t i
    for i in range(<uint32_t> a.nodes.len):
        if a.looks == 0:
            return False
        a.looks -= 1
        if node(a, i).address <= address and address - node(a, i).address < node(a, i).size:
            return False
    return True


cdef void check_idle(Arena* a, uint32_t i, uint64_t address, uint64_t size) noexcept nogil:
    # An alloc takes free node i. Check whether another segment would have fit better.
    cdef uint32_t origin = node(a, i).origin
    idle_use(&a.idle, origin, a.reserve, address, size)
    if not is_default_pool(a.replay.tables, origin_at(a, root(a, origin)).pool):
        return
    idle_check(&a.idle, origin_of(a, i).stream, size, address, node(a, i).size)


cdef bint serves(const Arena* a, uint32_t i, const Origin* o, uint64_t size) noexcept nogil:
    # Whether a request of this size, which got a block in `o`, could have used node i.
    cdef const Origin* mine = origin_of(a, i)
    return (node(a, i).size >= size and node(a, i).owner == FREE_NODE and mine.stream == o.stream
            and mine.small == (size <= SMALL_LIMIT) and mine.expandable == o.expandable
            and node(a, i).size < max_split(&a.rules))


cdef void check_fresh(Arena* a, uint32_t i, uint64_t size) noexcept nogil:
    # An alloc takes node i, for which the driver was called, so no free block can have fit.
    cdef const Tables* t = a.replay.tables
    cdef const Origin* o = origin_of(a, i)
    cdef uint32_t j
    if (o.small != (size <= SMALL_LIMIT) or size >= max_split(&a.rules)
            or not is_default_pool(t, origin_at(a, root(a, node(a, i).origin)).pool)):
        return
    for j in range(<uint32_t> a.nodes.len):
        if a.looks == 0:
            return
        a.looks -= 1
        if (j != i and serves(a, j, o, size)
                and is_default_pool(t, origin_at(a, root(a, node(a, j).origin)).pool)):
            a.idle.passed_over += 1
            return


cdef int place(Arena* a, uint32_t event, uint64_t address, uint64_t requested, uint32_t stack,
               int64_t* n_bytes) noexcept nogil:
    # Place an alloc and store its block's size in `n_bytes`.
    cdef uint32_t* pool = <uint32_t*> a.event_pools.data
    cdef uint64_t size = size_for(a, requested, stack)
    cdef uint32_t i = node_at(a, address)
    cdef uint32_t before
    n_bytes[0] = <int64_t> size
    if i == NONE32 and begin_aligned(a, address, size, &i) < 0:
        return -1
    if i == NONE32 and end_before(a, address, &i) < 0:
        return -1
    if i != NONE32:
        if pool[event] != NONE32:
            set_pool(a, node(a, i).origin, pool[event])
        else:
            pool[event] = OF_ORIGIN | node(a, i).origin
    if i == NONE32 or node(a, i).size < size:
        a.misplaced += 1
        a.assumed += 1
        if i == NONE32:
            a.outside += in_no_node(a, address)
        else:
            a.outside += (node(a, i).owner == FREE_NODE and node(a, i).size < requested
                          and node(a, i).next == NONE32)
        return 0
    if node(a, i).owner != FREE_NODE:
        # The block is in use, so a free is missing, and the block may have changed since.
        node(a, i).owner = event
        n_bytes[0] = <int64_t> node(a, i).size
        a.misplaced += 1
        a.assumed += 1
        return 0
    if a.idle.left and node(a, i).size >= a.idle.least:
        check_idle(a, i, address, size)
    if a.called_driver and not a.released:
        check_fresh(a, i, size)
    a.called_driver = False
    a.released = False
    before = node(a, i).prev
    if (before != NONE32 and node(a, before).owner & CARRIED and node(a, before).owner != FREE_NODE
            and (<uint8_t*> a.doubtful.data)[node(a, before).owner & ~CARRIED]):
        prove(a, before, node(a, before).size)
    if splits(a, origin_of(a, i), node(a, i).size, size) and split(a, i, size) < 0:
        return -1
    node(a, i).owner = event
    n_bytes[0] = <int64_t> node(a, i).size
    a.proven += 1
    return 0


cdef int add_segment(Arena* a, uint64_t address, uint64_t size, const Origin* o,
                     uint32_t* of_event) noexcept nogil:
    # segment_alloc
    cdef uint32_t i
    if node_at(a, address) != NONE32:
        a.misplaced += 1
        a.outside += 1
        return 0
    if new_origin(a, o) < 0:
        return -1
    of_event[0] = <uint32_t> a.origins.len - 1
    i = new_node(a, address, size, FREE_NODE, <uint32_t> a.origins.len - 1)
    return 0 if i != NONE32 else -1


cdef int drop_segment(Arena* a, uint64_t address, uint64_t size,
                      uint32_t* of_event) noexcept nogil:
    # segment_free
    cdef uint32_t i = node_at(a, address)
    if i != NONE32:
        of_event[0] = node(a, i).origin
        idle_end(&a.idle, of_event[0])
    if (i == NONE32 or node(a, i).owner != FREE_NODE or node(a, i).size != size
            or node(a, i).prev != NONE32 or node(a, i).next != NONE32):
        a.misplaced += 1
        # If one of the segment's blocks is in use, a free is missing.
        a.outside += i == NONE32 or (node(a, i).owner == FREE_NODE and node(a, i).prev == NONE32
                                     and node(a, i).next == NONE32)
        return 0
    return retire(a, i)


cdef int map_range(Arena* a, uint64_t address, uint64_t size, const Origin* o,
                   uint32_t* of_event) noexcept nogil:
    # segment_map: add a free range, and merge it with adjacent mapped ranges.
    cdef uint32_t left = map64_get(&a.ends, address, NONE32)
    cdef uint32_t right = node_at(a, address + size)
    cdef uint32_t origin, i
    if node_at(a, address) != NONE32:
        a.misplaced += 1
        a.outside += 1
        return 0
    if left != NONE32 and (node(a, left).size == 0 or node(a, left).next != NONE32
                           or node(a, left).address + node(a, left).size != address
                           or origin_of(a, left).stream != o.stream):
        left = NONE32
    if right != NONE32 and (node(a, right).prev != NONE32 or not origin_of(a, right).expandable
                            or origin_of(a, right).stream != o.stream):
        right = NONE32
    if left == NONE32 and right == NONE32:
        if new_origin(a, o) < 0:
            return -1
        origin = <uint32_t> a.origins.len - 1
    else:
        origin = node(a, left if left != NONE32 else right).origin
        if left != NONE32 and right != NONE32:
            unite(a, origin, node(a, right).origin)
        set_pool(a, origin, o.pool)
    of_event[0] = origin
    i = new_node(a, address, size, FREE_NODE, origin)
    if i == NONE32:
        return -1
    link(a, left, i)
    link(a, i, right)
    return release(a, i)


cdef inline bint is_free_around(const Arena* a, uint32_t i, uint64_t address,
                                uint64_t size) noexcept nogil:
    # Whether node i (or NONE32) is free and contains this range. Nodes of size 0 contain nothing.
    cdef uint64_t before
    if i == NONE32 or node(a, i).owner != FREE_NODE or node(a, i).address > address:
        return False
    before = address - node(a, i).address
    return before < node(a, i).size and node(a, i).size - before >= size


cdef uint32_t free_node_around(Arena* a, uint64_t address, uint64_t size) noexcept nogil:
    # Return the free node that contains this range; NONE32 if there is none or the search was cut
    # short.
    cdef uint32_t i = node_at(a, address)
    if i != NONE32:
        return i if is_free_around(a, i, address, size) else NONE32
    # The node that was known to end there may have changed since.
    i = map64_get(&a.ends, address + size, NONE32)
    if is_free_around(a, i, address, size):
        return i
    i = node_at(a, address + size)
    if i != NONE32 and is_free_around(a, node(a, i).prev, address, size):
        return node(a, i).prev
    for i in range(<uint32_t> a.nodes.len):
        if a.budget == 0:
            break
        a.budget -= 1
        if is_free_around(a, i, address, size):
            return i
    return NONE32


cdef int unmap_range(Arena* a, uint64_t address, uint64_t size,
                     uint32_t* of_event) noexcept nogil:
    # segment_unmap: remove a range from a free node, splitting its range.
    cdef uint32_t i = free_node_around(a, address, size)
    cdef uint32_t left, right
    if i == NONE32:
        a.misplaced += 1
        a.outside += in_no_node(a, address)
        return 0
    of_event[0] = node(a, i).origin
    if address > node(a, i).address:
        if split(a, i, address - node(a, i).address) < 0:
            return -1
        i = node(a, i).next
    if size < node(a, i).size and split(a, i, size) < 0:
        return -1
    left = node(a, i).prev
    right = node(a, i).next
    if left != NONE32:
        node(a, left).next = NONE32
    if right != NONE32:
        node(a, right).prev = NONE32
    if retire(a, i) < 0:
        return -1
    return note_end(a, left) if left != NONE32 else 0


cdef int apply_segment(Arena* a, uint32_t event, uint8_t action) noexcept nogil:
    cdef const Tables* t = a.replay.tables
    cdef uint64_t row = a.replay.first + event
    cdef const uint32_t* events = <const uint32_t*> a.reserve.events.data
    cdef uint64_t address = (<const uint64_t*> t.address.data)[row]
    cdef uint64_t size = <uint64_t> (<const int64_t*> t.size.data)[row]
    cdef uint32_t origin = NONE32
    cdef int code
    cdef Origin o
    if a.next_segment >= a.reserve.events.len or events[a.next_segment] != event:
        # This is an impossible event, which reserve.impossible_events counts.
        return 0
    o.stream = sparse_at(&t.stream, row)
    o.pool = (<const uint32_t*> a.reserve.pools.data)[a.next_segment]
    o.small = size == SMALL_SEGMENT
    o.expandable = action >= A_SEGMENT_MAP
    a.next_segment += 1
    # After returning memory, the allocator calls the driver without looking at free blocks again.
    if action == A_SEGMENT_ALLOC or action == A_SEGMENT_MAP:
        a.called_driver = True
    else:
        a.released = True
    if action == A_SEGMENT_ALLOC:
        code = add_segment(a, address, size, &o, &origin)
    elif action == A_SEGMENT_FREE:
        code = drop_segment(a, address, size, &origin)
    elif action == A_SEGMENT_MAP:
        code = map_range(a, address, size, &o, &origin)
    else:
        code = unmap_range(a, address, size, &origin)
    (<uint32_t*> a.event_pools.data)[event] = (
        OF_ORIGIN | origin if o.pool == NONE32 and origin != NONE32 else o.pool)
    return code


cdef int run(Arena* a) noexcept nogil:
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef uint32_t* pool = <uint32_t*> a.event_pools.data
    cdef int64_t n_bytes
    cdef uint64_t i
    cdef uint32_t at
    cdef int code
    for i in range(r.events):
        n_bytes = size[i]
        pool[i] = <uint32_t> sparse_at(&r.tables.pool, r.first + i)
        code = 0
        if action[i] == A_ALLOC:
            code = place(a, <uint32_t> i, address[i], <uint64_t> size[i], stack[i], &n_bytes)
        elif action[i] == A_FREE_COMPLETED:
            at = node_at(a, address[i])
            if at != NONE32 and node(a, at).owner != FREE_NODE and (
                    node(a, at).owner & CARRIED or node(a, at).owner == match[i]):
                code = release(a, at)
        elif A_SEGMENT_ALLOC <= action[i] <= A_SEGMENT_UNMAP:
            code = apply_segment(a, <uint32_t> i, action[i])
        elif action[i] == A_OOM:
            a.called_driver = False
            a.released = False
        if code < 0 or weights_add(&a.weights, i, size[i], n_bytes) < 0:
            return -1
    return 0


# --- the end --------------------------------------------------------------------------------------

cdef void compare_end(Arena* a) noexcept nogil:
    # Compare each block with the final segments: its address, its size, and whether it's in use.
    cdef const Tables* t = a.replay.tables
    cdef const Segment* segments = <const Segment*> t.segments.data
    cdef const Block* blocks = <const Block*> t.blocks.data
    cdef DeviceRows rows = rows_of(t, a.replay.device)
    cdef uint64_t left = a.nodes.len - a.spare.len
    cdef uint64_t used = 0
    cdef uint64_t i
    cdef uint32_t at
    for i in range(a.nodes.len):
        if node(a, <uint32_t> i).size and node(a, <uint32_t> i).owner != FREE_NODE:
            used += 1
    for i in range(rows.first_block, rows.end_block):
        if segments[blocks[i].segment].device != a.replay.device:
            continue
        a.end_blocks += 1
        at = node_at(a, blocks[i].address)
        if at == NONE32:
            a.end_misfits += 1
            a.end_strangers += blocks[i].state != STATE_INACTIVE
            continue
        left -= left > 0
        if node(a, at).owner != FREE_NODE:
            used -= used > 0
        if (node(a, at).owner == FREE_NODE) != (blocks[i].state == STATE_INACTIVE):
            a.end_misfits += 1
            a.end_strangers += 1
        elif node(a, at).size != <uint64_t> blocks[i].size:
            a.end_misfits += 1
    a.end_misfits += left
    a.end_strangers += used


cdef int settle_pools(Arena* a) noexcept nogil:
    # Give events without a pool the pool of their segment.
    cdef const uint32_t* event_pools = <const uint32_t*> a.event_pools.data
    cdef uint64_t i
    cdef uint32_t pool
    if slim_unset(&a.pool, a.event_pools.len) < 0:
        return -1
    for i in range(a.origins.len):
        origin_at(a, <uint32_t> i).pool = origin_at(a, root(a, <uint32_t> i)).pool
    for i in range(a.event_pools.len):
        pool = event_pools[i]
        if pool != NONE32 and pool & OF_ORIGIN:
            pool = origin_at(a, pool & ~OF_ORIGIN).pool
        if pool != NONE32 and slim_set(&a.pool, i, pool) < 0:
            return -1
    buf_free(&a.event_pools)
    return 0


cdef void count_carried(Arena* a) noexcept nogil:
    cdef uint64_t i
    for i in range(a.replay.carried.len):
        if (<uint8_t*> a.doubtful.data)[i]:
            a.assumed += 1
        else:
            a.proven += 1


cdef int build(Arena* a) noexcept nogil:
    cdef const Replay* r = a.replay
    if (buf_reserve(&a.weights.more, r.events) < 0 or buf_reserve(&a.event_pools, r.events) < 0
            or buf_reserve(&a.carried_bytes, r.carried.len) < 0
            or buf_reserve(&a.carried_origin, r.carried.len) < 0
            or buf_reserve(&a.doubtful, r.carried.len) < 0):
        return -1
    a.event_pools.len = r.events
    a.carried_bytes.len = r.carried.len
    a.carried_origin.len = r.carried.len
    a.doubtful.len = r.carried.len
    if mark_synthetic(r, &a.synthetic) != OK or take_start(a) < 0 or run(a) < 0:
        return -1
    if settle_pools(a) < 0:
        return -1
    count_carried(a)
    if r.window == NULL or r.window.phase != AFTER:
        compare_end(a)
    return 0


cdef int arena_init(Arena* a, const Replay* r, const Reserve* v, const Rules* rules,
                    uint64_t seed) noexcept nogil:
    # Replay a device's blocks. The trace and segments must have been replayed before.
    cdef int code
    memset(a, 0, sizeof(Arena))
    a.replay = r
    a.reserve = v
    a.rules = rules[0]
    a.budget = SEARCH_STEPS
    a.looks = LOOKS
    idle_init(&a.idle)
    buf_init(&a.empty, 4)
    buf_init(&a.nodes, sizeof(ArenaNode))
    buf_init(&a.spare, 4)
    buf_init(&a.origins, sizeof(Origin))
    buf_init(&a.order, 4)
    weights_init(&a.weights)
    slim_init(&a.pool)
    buf_init(&a.event_pools, 4)
    buf_init(&a.carried_bytes, 8)
    buf_init(&a.carried_origin, 4)
    buf_init(&a.doubtful, 1)
    buf_init(&a.synthetic, 1)
    if map64_init(&a.at, seed) < 0 or map64_init(&a.ends, seed + 1) < 0:
        return fail(&a.status, ERR_MEMORY, "blocks")
    code = build(a)
    # Free everything that is only needed during the replay.
    map64_free(&a.at)
    map64_free(&a.ends)
    buf_free(&a.spare)
    buf_free(&a.order)
    buf_free(&a.empty)
    idle_free(&a.idle)
    return OK if code == 0 else fail(&a.status, ERR_MEMORY, "blocks")
