"""Select a device's part of a slice: events, final segments, and memory that was live before.

Any reader that replays a slice must get the same numbers as for the range. Memory that was live
before the range is represented as in any snapshot, unless that is ambiguous:

- memory that stays live to the end: by a block in the final segments
- memory freed in the range: only by that free

Otherwise (if the free has another stack or size than its allocation, or there's no final block), an
`alloc` is written before the range's events (`leading`). Readers use the pairs in a file to decide
whether a free's stack is also its allocation's. So the whole slice determines which frees suffice
(`choose`).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memset
from memreplay.engine.replay.arena cimport Origin
from memreplay.engine.replay.blockmap cimport TILE_FREE, TILE_PENDING, Mapped, Tile
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_get, map64_init
)
from memreplay.engine.replay.held cimport NEVER_HELD
from memreplay.engine.replay.replay cimport CARRIED
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_SEGMENT_ALLOC, A_SEGMENT_MAP, Block, Carried,
    DeviceRows, EMPTY_STACK, EXPANDABLE, HAS_ADDRESS, HAS_BLOCKS, HAS_REQUESTED, HAS_TOTAL,
    STATE_ACTIVE_ALLOCATED, STATE_ACTIVE_PENDING_FREE, STATE_INACTIVE, Segment, SegmentEvent,
    Tables, block_requested, is_pending, rows_of,
)

cdef enum How:
    # How a carried-over block is represented.
    BY_ITSELF = 0      # by its free or its final block
    BY_ALLOC = 1       # by an alloc before the range
    NOT_AT_ALL = 2     # dropped, because it's too small


cdef int excerpt_init(Excerpt* x, const Replay* r, const Held* h, const Arena* a,
                      const uint32_t* stacks, int64_t least, uint64_t seed) noexcept nogil:
    memset(x, 0, sizeof(Excerpt))
    x.replay = r
    x.held = h
    x.arena = a
    x.stacks = stacks
    x.least = least
    buf_init(&x.keep, 1)
    buf_init(&x.leading, sizeof(Leading))
    buf_init(&x.segments, sizeof(Segment))
    buf_init(&x.blocks, sizeof(Block))
    buf_init(&x.through, 1)
    buf_init(&x.range_frees, 1)
    if map64_init(&x.owner, seed) < 0 or map64_init(&x.named, seed + 1) < 0:
        return ERR_MEMORY
    if (buf_reserve(&x.keep, r.events) < 0 or buf_reserve(&x.through, r.carried.len) < 0
            or buf_reserve(&x.range_frees, r.carried.len) < 0):
        return ERR_MEMORY
    x.keep.len = r.events
    x.through.len = r.carried.len
    x.range_frees.len = r.carried.len
    if x.through.len:
        memset(x.through.data, 0, x.through.len)
        memset(x.range_frees.data, 0, x.range_frees.len)
    return OK


cdef void excerpt_free(Excerpt* x) noexcept nogil:
    buf_free(&x.keep)
    buf_free(&x.leading)
    buf_free(&x.segments)
    buf_free(&x.blocks)
    buf_free(&x.through)
    buf_free(&x.range_frees)
    map64_free(&x.owner)
    map64_free(&x.named)


cdef inline uint32_t written(const Excerpt* x, uint32_t stack) noexcept nogil:
    return stack if x.stacks == NULL else x.stacks[stack]


cdef inline const Carried* carried_of(const Excerpt* x, uint64_t i) noexcept nogil:
    return <const Carried*> x.replay.carried.data + i


cdef inline const uint32_t* stacks_of(const Excerpt* x) noexcept nogil:
    return <const uint32_t*> x.replay.tables.stack.data + x.replay.first


cdef inline const int64_t* sizes_of(const Excerpt* x) noexcept nogil:
    return <const int64_t*> x.replay.tables.size.data + x.replay.first


# --- the range's own events -----------------------------------------------------------------------

cdef inline int64_t size_of(const Excerpt* x, uint32_t owner) noexcept nogil:
    if owner & CARRIED:
        return carried_of(x, owner & ~CARRIED).size
    return sizes_of(x)[owner]


cdef inline bint is_kept(const Excerpt* x, uint32_t owner) noexcept nogil:
    # Whether an allocation is written. In the range, an allocation that ends a written block is
    # written even if it's too small.
    if owner & CARRIED:
        return size_of(x, owner) >= x.least
    return (<const uint8_t*> x.keep.data)[owner]


cdef inline void count_pair(Excerpt* x, uint32_t owner, uint32_t event) noexcept nogil:
    if owner & CARRIED:
        return
    if written(x, stacks_of(x)[owner]) == written(x, stacks_of(x)[event]):
        x.same += 1
    else:
        x.other += 1


cdef int push_leading(Excerpt* x, uint8_t action, uint64_t address, int64_t size, uint32_t stack,
                      uint64_t stream, uint32_t pool) noexcept nogil:
    cdef Leading l
    memset(&l, 0, sizeof(Leading))
    l.action = action
    l.address = address
    l.size = size
    l.stack = stack
    l.stream = stream
    l.pool = pool
    return push_item(&x.leading, &l)


cdef int take_free(Excerpt* x, uint32_t i, uint64_t address, Slot64* slot) noexcept nogil:
    # Handle a free_completed. If the block isn't live, readers must not take it for a carried-over
    # block.
    cdef uint8_t* keep = <uint8_t*> x.keep.data
    cdef uint32_t owner = slot.value
    cdef uint64_t known = x.named.used
    slot.value = NONE32
    if owner != NONE32:
        keep[i] = is_kept(x, owner)
        if keep[i]:
            count_pair(x, owner, i)
            return 0 if map64_at(&x.named, address, 1) != NULL else -1
        return 0
    keep[i] = sizes_of(x)[i] >= x.least
    if not keep[i]:
        return 0
    if map64_at(&x.named, address, 1) == NULL:
        return -1
    if x.named.used == known:
        return 0
    if push_leading(x, A_ALLOC, address, sizes_of(x)[i], EMPTY_STACK, 0, NONE32) < 0:
        return -1
    x.same += 1  # readers see this as an ordinary pair
    return push_leading(x, A_FREE_COMPLETED, address, sizes_of(x)[i], EMPTY_STACK, 0, NONE32)


cdef int take_event(Excerpt* x, uint32_t i) noexcept nogil:
    cdef const Tables* t = x.replay.tables
    cdef uint8_t* keep = <uint8_t*> x.keep.data
    cdef uint8_t action = (<const uint8_t*> t.action.data)[x.replay.first + i]
    cdef uint64_t address = (<const uint64_t*> t.address.data)[x.replay.first + i]
    cdef Slot64* slot
    cdef uint32_t owner
    if action > A_FREE_COMPLETED:
        keep[i] = True
        return 0
    if action == A_FREE_REQUESTED:
        owner = map64_get(&x.owner, address, NONE32)
        keep[i] = sizes_of(x)[i] >= x.least if owner == NONE32 else is_kept(x, owner)
        x.requests |= keep[i]
        if owner != NONE32 and owner & CARRIED and keep[i]:
            (<uint8_t*> x.range_frees.data)[owner & ~CARRIED] = True
        return 0
    slot = map64_at(&x.owner, address, NONE32)
    if slot == NULL:
        return -1
    if action == A_FREE_COMPLETED:
        return take_free(x, i, address, slot)
    keep[i] = sizes_of(x)[i] >= x.least or (slot.value != NONE32 and is_kept(x, slot.value))
    slot.value = i
    if not keep[i]:
        x.small += 1
        x.small_bytes += sizes_of(x)[i]
        return 0
    return 0 if map64_at(&x.named, address, 1) != NULL else -1


cdef int take_events(Excerpt* x) noexcept nogil:
    cdef Slot64* slot
    cdef uint64_t i
    for i in range(x.replay.carried.len):
        slot = map64_at(&x.owner, carried_of(x, i).address, NONE32)
        if slot == NULL:
            return -1
        slot.value = CARRIED | <uint32_t> i
        if carried_of(x, i).size < x.least:
            x.small += 1
            x.small_bytes += carried_of(x, i).size
    for i in range(x.replay.events):
        if take_event(x, <uint32_t> i) < 0:
            return -1
        x.events += (<uint8_t*> x.keep.data)[i]
    return 0


# --- the segments at the end ----------------------------------------------------------------------

cdef inline bint pending_and_requested(const Excerpt* x, uint64_t i) noexcept nogil:
    # Whether the free of carried-over block i was requested both before the range and in the range.
    # A reader that sees only the second request would count the block as held until then.
    return ((<const uint32_t*> x.held.carried_end.data)[i] == NEVER_HELD
            and (<const uint8_t*> x.range_frees.data)[i])


cdef inline bint represents(const Excerpt* x, uint32_t i, const Block* b) noexcept nogil:
    # Whether this final block represents carried-over block i correctly: readers get its size and
    # stack, and know whether it's held.
    cdef uint32_t held = (<const uint32_t*> x.held.carried_end.data)[i]
    if block_requested(b) != carried_of(x, i).size or pending_and_requested(x, i):
        return False
    if written(x, b.stack) != written(x, carried_of(x, i).stack):
        return False
    return (held != NONE32 and held != NEVER_HELD) or (held == NEVER_HELD) == is_pending(b)


cdef int push_block(Excerpt* x, const Block* b, bint merge) noexcept nogil:
    # Add a block. With `merge`, merge it into the previous block if both are free and adjacent.
    cdef Block* last
    if merge and b.state == STATE_INACTIVE and x.blocks.len:
        last = <Block*> x.blocks.data + x.blocks.len - 1
        if (last.segment == b.segment and last.state == STATE_INACTIVE
                and last.address + <uint64_t> last.size == b.address):
            last.size += b.size
            return 0
    return push_item(&x.blocks, b)


cdef void free_block(Block* b) noexcept nogil:
    b.state = STATE_INACTIVE
    b.stack = EMPTY_STACK
    b.requested = 0
    b.flags |= HAS_REQUESTED


cdef void add_up(Excerpt* x, Segment* s, uint64_t first) noexcept nogil:
    # Compute a segment's sums over its blocks, which begin with block `first`.
    cdef const Block* b = <const Block*> x.blocks.data
    cdef uint64_t i
    s.allocated_size = 0
    s.active_size = 0
    s.requested_size = 0
    s.flags |= HAS_REQUESTED
    for i in range(first, x.blocks.len):
        if b[i].state == STATE_INACTIVE:
            continue
        s.active_size += b[i].size
        s.requested_size += block_requested(&b[i])
        if not is_pending(&b[i]):
            s.allocated_size += b[i].size


cdef bint stays(Excerpt* x, const Block* b) noexcept nogil:
    # Whether a block in the file's segments stays in use in the slice. A block doesn't if it's too
    # small, or if readers would mistake it for a carried-over block.
    cdef uint32_t owner = map64_get(&x.owner, b.address, NONE32)
    if owner == NONE32:
        return map64_get(&x.named, b.address, 0) != 0 and block_requested(b) >= x.least
    if not is_kept(x, owner):
        return False
    if owner & CARRIED and represents(x, owner & ~CARRIED, b):
        (<uint8_t*> x.through.data)[owner & ~CARRIED] = True
    return True


cdef inline bint is_of(const Tables* t, const Block* b, int32_t device) noexcept nogil:
    return (<const Segment*> t.segments.data)[b.segment].device == device


cdef int sort_blocks(const Tables* t, int32_t device, Buf* first, Buf* order) noexcept nogil:
    # Sort a device's blocks by segment. The blocks in segment `first_segment + i` are
    # order[first[i]:first[i + 1]].
    cdef const Block* blocks = <const Block*> t.blocks.data
    cdef DeviceRows rows = rows_of(t, device)
    cdef uint64_t segments = rows.end_segment - rows.first_segment
    cdef uint32_t* begin
    cdef uint64_t i, at
    if (buf_reserve(first, segments + 2) < 0
            or buf_reserve(order, rows.end_block - rows.first_block + 1) < 0):
        return -1
    begin = <uint32_t*> first.data
    memset(begin, 0, (segments + 2) * sizeof(uint32_t))
    for i in range(rows.first_block, rows.end_block):
        if is_of(t, &blocks[i], device):
            begin[blocks[i].segment - rows.first_segment + 2] += 1
    for i in range(segments + 1):
        begin[i + 1] += begin[i]
    for i in range(rows.first_block, rows.end_block):
        if is_of(t, &blocks[i], device):
            at = blocks[i].segment - rows.first_segment + 1
            (<uint32_t*> order.data)[begin[at]] = <uint32_t> i
            begin[at] += 1
    return 0


cdef int take_segment(Excerpt* x, uint64_t row, const uint32_t* order, uint64_t n) noexcept nogil:
    cdef uint64_t first = x.blocks.len
    cdef bint changed = False
    cdef Block b
    cdef uint64_t i
    if push_item(&x.segments, <const Segment*> x.replay.tables.segments.data + row) < 0:
        return -1
    for i in range(n):
        b = (<const Block*> x.replay.tables.blocks.data)[order[i]]
        b.segment = <uint32_t> x.segments.len - 1
        if b.state != STATE_INACTIVE and not stays(x, &b):
            free_block(&b)
            changed = True
        if push_block(x, &b, changed) < 0:
            return -1
    if changed:
        add_up(x, <Segment*> x.segments.data + x.segments.len - 1, first)
    return 0


cdef int take_final(Excerpt* x) noexcept nogil:
    # Use the file's own segments, because the range reaches the trace's end.
    cdef const Tables* t = x.replay.tables
    cdef DeviceRows rows = rows_of(t, x.replay.device)
    cdef const uint32_t* begin
    cdef Buf first, order
    cdef uint64_t i
    cdef int code
    buf_init(&first, 4)
    buf_init(&order, 4)
    code = sort_blocks(t, x.replay.device, &first, &order)
    begin = <const uint32_t*> first.data
    for i in range(rows.first_segment, rows.end_segment):
        if code == 0 and (<const Segment*> t.segments.data)[i].device == x.replay.device:
            code = take_segment(x, i, <const uint32_t*> order.data + begin[0],
                                begin[1] - begin[0])
        begin += 1
    buf_free(&first)
    buf_free(&order)
    return code


cdef int find_stacks(const Excerpt* x, Map64* stacks) noexcept nogil:
    # Find each segment's stack, from an event in the range or from the file's segments that weren't
    # created after the range.
    cdef const Tables* t = x.replay.tables
    cdef const Segment* segments = <const Segment*> t.segments.data
    cdef const SegmentEvent* later
    cdef const uint8_t* action = <const uint8_t*> t.action.data + x.replay.first
    cdef const uint64_t* address = <const uint64_t*> t.address.data + x.replay.first
    cdef DeviceRows rows = rows_of(t, x.replay.device)
    cdef Slot64* slot
    cdef uint64_t i
    for i in range(rows.first_segment, rows.end_segment):
        if segments[i].device == x.replay.device:
            slot = map64_at(stacks, segments[i].address, EMPTY_STACK)
            if slot == NULL:
                return -1
            slot.value = segments[i].stack
    if x.replay.window != NULL:
        later = <const SegmentEvent*> x.replay.window.segment_events.data
        for i in range(x.replay.window.segment_events.len):
            slot = map64_at(stacks, later[i].address, EMPTY_STACK)
            if slot == NULL:
                return -1
            slot.value = EMPTY_STACK
    for i in range(x.replay.events):
        if action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP:
            slot = map64_at(stacks, address[i], EMPTY_STACK)
            if slot == NULL:
                return -1
            slot.value = stacks_of(x)[i]
    return 0


cdef void tile_block(Excerpt* x, const Tile* tile, Block* b) noexcept nogil:
    # Create a block as it is at the end of the range. If the map cut off the front of a block, its
    # owner isn't known.
    cdef const uint64_t* address = <const uint64_t*> x.replay.tables.address.data + x.replay.first
    cdef uint64_t whole
    memset(b, 0, sizeof(Block))
    b.address = tile.address
    b.size = <int64_t> tile.size
    b.flags = HAS_ADDRESS | HAS_REQUESTED
    b.state = STATE_INACTIVE
    if tile.state == TILE_FREE:
        return
    whole = (carried_of(x, tile.owner & ~CARRIED).address if tile.owner & CARRIED
             else address[tile.owner])
    if whole != tile.address or not is_kept(x, tile.owner):
        return
    b.requested = tile.requested
    b.stack = tile.stack
    b.state = STATE_ACTIVE_PENDING_FREE if tile.state == TILE_PENDING else STATE_ACTIVE_ALLOCATED
    if tile.owner & CARRIED and represents(x, tile.owner & ~CARRIED, b):
        (<uint8_t*> x.through.data)[tile.owner & ~CARRIED] = True


cdef int take_map(Excerpt* x, const BlockMap* m, const Map64* stacks, uint32_t small_kind,
                  uint32_t large_kind) noexcept nogil:
    # Create the segments as they are after the range's last event.
    cdef const Mapped* mapped = <const Mapped*> m.segments.data
    cdef const Tile* tiles = <const Tile*> m.tiles.data
    cdef Segment s
    cdef Block b
    cdef uint64_t i, j, first
    for i in range(m.segments.len):
        memset(&s, 0, sizeof(Segment))
        s.address = mapped[i].address
        s.total_size = <int64_t> mapped[i].sums.size
        s.stream = mapped[i].stream
        s.device = x.replay.device
        s.pool = mapped[i].pool
        s.stack = map64_get(stacks, s.address, EMPTY_STACK)
        s.kind = small_kind if mapped[i].small else large_kind
        s.flags = HAS_ADDRESS | HAS_TOTAL | HAS_BLOCKS | (EXPANDABLE if mapped[i].expandable else 0)
        if push_item(&x.segments, &s) < 0:
            return -1
        first = x.blocks.len
        for j in range(mapped[i].tiles):
            tile_block(x, tiles + mapped[i].first + j, &b)
            b.segment = <uint32_t> i
            if push_block(x, &b, True) < 0:
                return -1
        add_up(x, <Segment*> x.segments.data + i, first)
    return 0


# --- allocations live before the range ------------------------------------------------------------

cdef How representation(const Excerpt* x, uint64_t i, bint recorded) noexcept nogil:
    # Return how carried-over block i is represented, ignoring stacks. `recorded` says whether
    # readers see free requests, in the range (x.requests) or among the leading events, so that they
    # know that requests are recorded.
    cdef const Carried* b = carried_of(x, i)
    cdef const uint8_t* action = <const uint8_t*> x.replay.tables.action.data + x.replay.first
    cdef uint32_t held = (<const uint32_t*> x.held.carried_end.data)[i]
    if b.size < x.least:
        return NOT_AT_ALL
    if b.end == NONE32:
        return BY_ITSELF if (<const uint8_t*> x.through.data)[i] else BY_ALLOC
    if action[b.end] == A_ALLOC or sizes_of(x)[b.end] != b.size:
        return BY_ALLOC
    # If requests are recorded, a free without a request in the range means that the block was
    # already pending.
    if held == NEVER_HELD:
        return BY_ITSELF if x.requests and not pending_and_requested(x, i) else BY_ALLOC
    if held == b.end:
        return BY_ALLOC if recorded else BY_ITSELF
    return BY_ITSELF


cdef bint writes_requests(const Excerpt* x) noexcept nogil:
    # Whether a request will be written before the range, which tells readers that requests are
    # recorded.
    cdef uint64_t i
    for i in range(x.replay.carried.len):
        if ((<const uint32_t*> x.held.carried_end.data)[i] == NEVER_HELD
                and representation(x, i, x.requests) == BY_ALLOC):
            return True
    return False


cdef inline bint by_free(const Excerpt* x, uint64_t i, bint recorded) noexcept nogil:
    return carried_of(x, i).end != NONE32 and representation(x, i, recorded) == BY_ITSELF


cdef inline bint same_stack(const Excerpt* x, uint64_t i) noexcept nogil:
    return written(x, carried_of(x, i).stack) == written(x, stacks_of(x)[carried_of(x, i).end])


cdef How choose(const Excerpt* x, bint recorded, bint* trusted) noexcept nogil:
    # Decide whether a free event can stand in for the block that it frees. If all pairs in the file
    # have equal stacks, readers use a free's stack for its allocation (`trusted`); otherwise the
    # allocation has no stack. Returns BY_ALLOC if both would be wrong for some blocks.
    cdef uint64_t n = x.replay.carried.len
    cdef const uint8_t* action = <const uint8_t*> x.replay.tables.action.data + x.replay.first
    cdef uint64_t same = x.same
    cdef uint64_t other = x.other
    cdef uint64_t unlike = 0
    cdef uint64_t i
    for i in range(n):
        if carried_of(x, i).end == NONE32 or representation(x, i, recorded) == NOT_AT_ALL:
            continue
        if not by_free(x, i, recorded):
            if action[carried_of(x, i).end] != A_ALLOC:
                same += same_stack(x, i)
                other += not same_stack(x, i)
        elif not same_stack(x, i):
            unlike += 1
    if unlike == 0 and other == 0 and same:
        trusted[0] = True
        return BY_ITSELF
    trusted[0] = False
    # Blocks with a stack then get an alloc, so they also count as pairs.
    for i in range(n):
        if by_free(x, i, recorded) and written(x, carried_of(x, i).stack) != EMPTY_STACK:
            same += same_stack(x, i)
            other += not same_stack(x, i)
    return BY_ALLOC if same and not other else BY_ITSELF


cdef int lead(Excerpt* x) noexcept nogil:
    cdef const uint32_t* held = <const uint32_t*> x.held.carried_end.data
    cdef bint recorded = x.requests or writes_requests(x)
    cdef bint trusted = False
    cdef How frees = choose(x, recorded, &trusted)
    cdef const Carried* b
    cdef const Origin* o
    cdef uint64_t stream
    cdef uint32_t pool
    cdef uint64_t i
    for i in range(x.replay.carried.len):
        b = carried_of(x, i)
        if representation(x, i, recorded) == NOT_AT_ALL:
            continue
        if representation(x, i, recorded) == BY_ITSELF and (
                b.end == NONE32 or (frees == BY_ITSELF and (
                    trusted or written(x, b.stack) == EMPTY_STACK))):
            continue
        stream = 0
        pool = NONE32
        if x.arena != NULL and (<const uint32_t*> x.arena.carried_origin.data)[i] != NONE32:
            o = (<const Origin*> x.arena.origins.data
                 + (<const uint32_t*> x.arena.carried_origin.data)[i])
            stream = o.stream
            pool = o.pool
        if push_leading(x, A_ALLOC, b.address, b.size, b.stack, stream, pool) < 0:
            return -1
        if held[i] == NEVER_HELD and push_leading(x, A_FREE_REQUESTED, b.address, b.size, b.stack,
                                                  stream, pool) < 0:
            return -1
    return 0


cdef int excerpt_fill(Excerpt* x, const BlockMap* m, uint32_t small_kind,
                      uint32_t large_kind) noexcept nogil:
    # Returns OK or ERR_MEMORY. `m` is the map after the range's last event, or NULL to use the
    # file's segments.
    cdef Map64 stacks
    cdef int code = take_events(x)
    if code == 0 and m == NULL:
        code = take_final(x)
    elif code == 0:
        code = map64_init(&stacks, x.owner.seed)
        if code == 0:
            code = find_stacks(x, &stacks)
        if code == 0:
            code = take_map(x, m, &stacks, small_kind, large_kind)
        map64_free(&stacks)
    if code == 0:
        code = lead(x)
    return OK if code == 0 else ERR_MEMORY
