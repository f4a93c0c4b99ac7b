"""Build the block map at a moment: segments, tiled by live and free blocks.

Nothing is replayed: the segments come from the segment events so far, and the blocks from the live
set and the arena's sizes and addresses. The remaining memory is free, because the allocator merges
free neighbours immediately.

A *unit* is memory that empty_cache() can only return as a whole: a segment, or a handle of an
expandable segment. A unit can be returned if none of its blocks is in use; otherwise its free bytes
are blocked (blockers.pyx).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.replay.arena cimport Origin
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item, push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.slim cimport slim_at
from memreplay.engine.replay.lives cimport bytes_at
from memreplay.engine.replay.replay cimport CARRIED
from memreplay.engine.replay.reserve cimport LARGE_HANDLE, ReservedRange, reserve_ranges
from memreplay.engine.replay.sizes cimport SMALL_LIMIT, SMALL_SEGMENT, round_size
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_SEGMENT_ALLOC, A_SEGMENT_MAP, Carried


cdef void blockmap_init(BlockMap* m, const Arena* a) noexcept nogil:
    memset(m, 0, sizeof(BlockMap))
    m.arena = a
    buf_init(&m.tiles, sizeof(Tile))
    buf_init(&m.segments, sizeof(Mapped))
    buf_init(&m.shares, sizeof(Share))
    buf_init(&m.order, 4)


cdef void blockmap_free(BlockMap* m) noexcept nogil:
    buf_free(&m.tiles)
    buf_free(&m.segments)
    buf_free(&m.shares)
    buf_free(&m.order)


# --- segments -------------------------------------------------------------------------------------

cdef inline uint32_t pool_of(const Arena* a, uint32_t source) noexcept nogil:
    # Return a region's or segment event's pool. The first origins are those of the regions.
    if source < a.reserve.regions.len:
        return (<const Origin*> a.origins.data)[source].pool
    return slim_at(&a.pool, (<const uint32_t*> a.reserve.events.data)[
        source - a.reserve.regions.len])


cdef int add_segments(BlockMap* m, int64_t event) noexcept nogil:
    # Add the segments that exist after `event`. A stream's adjacent mapped ranges count as one
    # segment.
    cdef const Replay* r = m.arena.replay
    cdef const ReservedRange* p
    cdef Mapped* last = NULL
    cdef Mapped s
    cdef Buf pieces
    cdef uint32_t pool
    cdef uint64_t i
    cdef int code
    buf_init(&pieces, sizeof(ReservedRange))
    code = reserve_ranges(m.arena.reserve, r, event, &pieces)
    for i in range(pieces.len):
        if code != OK:
            break
        p = <const ReservedRange*> pieces.data + i
        pool = pool_of(m.arena, p.source)
        if (last != NULL and p.expandable and last.expandable and p.stream == last.stream
                and p.start == last.address + last.sums.size
                and (pool == last.pool or pool == NONE32 or last.pool == NONE32)):
            last.sums.size += p.end - p.start
            last.small = last.small or p.small
            last.pool = pool if last.pool == NONE32 else last.pool
            continue
        memset(&s, 0, sizeof(Mapped))
        s.address = p.start
        s.sums.size = p.end - p.start
        s.stream = p.stream
        s.pool = pool
        s.small = p.small
        s.expandable = p.expandable
        if push_item(&m.segments, &s) < 0:
            code = ERR_MEMORY
            break
        last = segments_of(m) + m.segments.len - 1
    buf_free(&pieces)
    return code


# --- tiles ----------------------------------------------------------------------------------------

cdef int by_address(const void* x, const void* y) noexcept nogil:
    # If events were lost, two blocks may have the same address. Blocks from the trace then come
    # first.
    cdef const Tile* p = <const Tile*> x
    cdef const Tile* q = <const Tile*> y
    if p.address != q.address:
        return -1 if p.address < q.address else 1
    return (p.owner > q.owner) - (p.owner < q.owner)


cdef int list_live(const BlockMap* m, int64_t event, const uint32_t* held_end,
                   const uint32_t* held_base_end, const uint32_t* allocs, uint64_t n_allocs,
                   const uint32_t* blocks, uint64_t n_blocks, Buf* live) noexcept nogil:
    # List the live set as tiles, sorted by address.
    cdef const Arena* a = m.arena
    cdef const Replay* r = a.replay
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef Tile* t
    cdef uint64_t i
    cdef uint32_t which
    if buf_reserve(live, n_allocs + n_blocks + 1) < 0:
        return ERR_MEMORY
    t = <Tile*> live.data
    for i in range(n_allocs):
        which = allocs[i]
        t.address = address[which]
        t.size = <uint64_t> bytes_at(&a.weights, size, which)
        t.requested = size[which]
        t.owner = which
        t.stack = stack[which]
        t.segment = NONE32
        t.state = TILE_IN_USE if <int64_t> held_end[which] > event else TILE_PENDING
        t += 1
    for i in range(n_blocks):
        which = blocks[i]
        t.address = carried[which].address
        t.size = <uint64_t> (<const int64_t*> a.carried_bytes.data)[which]
        t.requested = carried[which].size
        t.owner = CARRIED | which
        t.stack = carried[which].stack
        t.segment = NONE32
        # NEVER_HELD is larger than any event, but the block must not count as in use.
        t.state = TILE_PENDING
        if held_base_end[which] == NONE32 or (held_base_end[which] < NONE32 - 1
                                              and <int64_t> held_base_end[which] > event):
            t.state = TILE_IN_USE
        t += 1
    live.len = n_allocs + n_blocks
    if live.len:
        qsort(live.data, live.len, sizeof(Tile), by_address)
    return OK


cdef inline int push_free(BlockMap* m, uint32_t segment, uint64_t address,
                          uint64_t size) noexcept nogil:
    cdef Tile t
    memset(&t, 0, sizeof(Tile))
    t.address = address
    t.size = size
    t.owner = FREE_TILE
    t.segment = segment
    t.state = TILE_FREE
    return push_item(&m.tiles, &t)


cdef inline bint must_be_small(const BlockMap* m, const Tile* t) noexcept nogil:
    # Whether this block must be in a small segment. For a checkpoint's alloc, the size doesn't show
    # this.
    cdef const Buf* synthetic = &m.arena.synthetic
    return round_size(&m.arena.rules, <uint64_t> t.requested) <= SMALL_LIMIT and not (
        synthetic.len and (<const uint8_t*> synthetic.data)[t.stack])


cdef int tile_segment(BlockMap* m, uint32_t segment, const Buf* live,
                      uint64_t* next) noexcept nogil:
    # Tile one segment, starting with live block number `next`. Blocks outside segments or inside
    # another block are counted separately, because they mean that events were lost or a size is
    # wrong.
    cdef Mapped* s = segments_of(m) + segment
    cdef const Tile* block
    cdef Tile t
    cdef uint64_t at = s.address
    cdef uint64_t end = s.address + s.sums.size
    cdef uint64_t hidden
    s.first = <uint32_t> m.tiles.len
    while next[0] < live.len:
        block = <const Tile*> live.data + next[0]
        if block.address >= end:
            break
        next[0] += 1
        t = block[0]
        t.segment = segment
        hidden = 0
        if t.address < at:
            hidden = min(at - t.address, t.size)
            t.address += hidden
            t.size -= hidden
        if t.size and end - t.address < t.size:
            hidden += t.size - (end - t.address)
            t.size = end - t.address
        m.outside += hidden
        m.outside_blocks += hidden > 0
        if t.size == 0:
            continue
        if t.address > at and push_free(m, segment, at, t.address - at) < 0:
            return ERR_MEMORY
        if push_item(&m.tiles, &t) < 0:
            return ERR_MEMORY
        if s.expandable and must_be_small(m, &t):
            s.small = True
        at = t.address + t.size
    if at < end and push_free(m, segment, at, end - at) < 0:
        return ERR_MEMORY
    s.tiles = <uint32_t> m.tiles.len - s.first
    return OK


cdef int tile_all(BlockMap* m, const Buf* live) noexcept nogil:
    cdef uint64_t next = 0
    cdef uint64_t i
    for i in range(m.segments.len):
        if tile_segment(m, <uint32_t> i, live, &next) != OK:
            return ERR_MEMORY
    for i in range(next, live.len):
        m.outside += (<const Tile*> live.data)[i].size
        m.outside_blocks += 1
    return OK


# --- units ----------------------------------------------------------------------------------------

cdef inline uint64_t handle_of(const Mapped* s) noexcept nogil:
    # Return the size of the segment's units.
    cdef uint64_t handle = SMALL_SEGMENT if s.small else LARGE_HANDLE
    if not s.expandable:
        return s.sums.size
    if s.sums.size % handle:
        handle = SMALL_SEGMENT
    return s.sums.size if s.sums.size % handle else handle


cdef bint next_unit(const BlockMap* m, const Mapped* s, Unit* u) noexcept nogil:
    # Advance to the next unit. Before the first unit, `u` must be all zero. Handles inside one
    # block make up one unit.
    cdef const Tile* t = tiles_of(m) + s.first
    cdef uint64_t handle = handle_of(s)
    cdef uint64_t start = u.end if u.end else s.address
    cdef uint64_t left, right, end
    cdef uint32_t i = u.stop
    if start >= s.address + s.sums.size:
        return False
    # The last tile of the previous unit may extend into this one.
    if i and t[i - 1].address + t[i - 1].size > start:
        i -= 1
    end = t[i].address + t[i].size
    u.start = start
    u.end = start + max((end - start) // handle, <uint64_t> 1) * handle
    u.first = i
    u.free = 0
    u.in_use = 0
    while i < s.tiles and t[i].address < u.end:
        left = max(t[i].address, u.start)
        right = min(t[i].address + t[i].size, u.end)
        if t[i].state == TILE_FREE:
            u.free += right - left
        elif t[i].state == TILE_IN_USE:
            u.in_use += 1
        i += 1
    u.stop = i
    return True


# --- sums -----------------------------------------------------------------------------------------

cdef void sum_segment(const BlockMap* m, Mapped* s) noexcept nogil:
    cdef const Tile* t = tiles_of(m) + s.first
    cdef Sums* sums = &s.sums
    cdef Unit u
    cdef uint64_t i
    for i in range(s.tiles):
        if t[i].state == TILE_FREE:
            sums.free += t[i].size
            sums.blocks_free += 1
            sums.largest = max(sums.largest, t[i].size)
            continue
        sums.requested += <uint64_t> t[i].requested
        if t[i].state == TILE_PENDING:
            sums.pending += t[i].size
            sums.blocks_pending += 1
        else:
            sums.in_use += t[i].size
            sums.blocks_in_use += 1
    memset(&u, 0, sizeof(Unit))
    while next_unit(m, s, &u):
        if u.in_use == 0:
            sums.returnable += u.end - u.start
            sums.returned_free += u.free
    sums.segments = 1
    sums.unused = sums.blocks_in_use == 0


cdef void add_sums(Sums* to, const Sums* s) noexcept nogil:
    to.size += s.size
    to.in_use += s.in_use
    to.pending += s.pending
    to.free += s.free
    to.requested += s.requested
    to.largest = max(to.largest, s.largest)
    to.returnable += s.returnable
    to.returned_free += s.returned_free
    to.blocks_in_use += s.blocks_in_use
    to.blocks_pending += s.blocks_pending
    to.blocks_free += s.blocks_free
    to.segments += s.segments
    to.unused += s.unused


cdef int by_share(const void* x, const void* y) noexcept nogil:
    cdef const Share* p = <const Share*> x
    cdef const Share* q = <const Share*> y
    if p.pool != q.pool:
        return -1 if p.pool < q.pool else 1
    if p.stream != q.stream:
        return -1 if p.stream < q.stream else 1
    return <int> q.small - <int> p.small


cdef int most_free(const void* x, const void* y) noexcept nogil:
    cdef const Share* p = <const Share*> x
    cdef const Share* q = <const Share*> y
    if p.sums.free != q.sums.free:
        return -1 if p.sums.free > q.sums.free else 1
    if p.sums.size != q.sums.size:
        return -1 if p.sums.size > q.sums.size else 1
    return by_share(x, y)


cdef int add_shares(BlockMap* m) noexcept nogil:
    # Create a share per segment, sort the shares, then merge equal shares.
    cdef const Mapped* s
    cdef Share* shares
    cdef Share share
    cdef uint64_t n = 0
    cdef uint64_t i
    for i in range(m.segments.len):
        s = segments_of(m) + i
        memset(&share, 0, sizeof(Share))
        share.stream = s.stream
        share.pool = s.pool
        share.small = s.small
        share.default_pool = s.default_pool
        share.sums = s.sums
        if push_item(&m.shares, &share) < 0:
            return ERR_MEMORY
    if m.shares.len == 0:
        return OK
    shares = <Share*> m.shares.data
    qsort(shares, m.shares.len, sizeof(Share), by_share)
    for i in range(1, m.shares.len):
        if by_share(&shares[n], &shares[i]) == 0:
            add_sums(&shares[n].sums, &shares[i].sums)
        else:
            n += 1
            shares[n] = shares[i]
    m.shares.len = n + 1
    qsort(shares, m.shares.len, sizeof(Share), most_free)
    return OK


cdef struct Ranked:
    uint64_t free, size
    uint32_t segment


cdef int by_rank(const void* x, const void* y) noexcept nogil:
    cdef const Ranked* p = <const Ranked*> x
    cdef const Ranked* q = <const Ranked*> y
    if p.free != q.free:
        return -1 if p.free > q.free else 1
    if p.size != q.size:
        return -1 if p.size > q.size else 1
    return (p.segment > q.segment) - (p.segment < q.segment)


cdef int rank_segments(BlockMap* m) noexcept nogil:
    cdef Buf ranks
    cdef Ranked rank
    cdef uint64_t i
    cdef int code = OK
    buf_init(&ranks, sizeof(Ranked))
    memset(&rank, 0, sizeof(Ranked))
    for i in range(m.segments.len):
        rank.free = segments_of(m)[i].sums.free
        rank.size = segments_of(m)[i].sums.size
        rank.segment = <uint32_t> i
        if push_item(&ranks, &rank) < 0:
            code = ERR_MEMORY
    if ranks.len:
        qsort(ranks.data, ranks.len, sizeof(Ranked), by_rank)
    for i in range(ranks.len):
        if push_u32(&m.order, (<Ranked*> ranks.data)[i].segment) < 0:
            code = ERR_MEMORY
    buf_free(&ranks)
    return code


cdef void sum_all(BlockMap* m, uint32_t default_pool, bint unknown_is_default) noexcept nogil:
    cdef Mapped* s
    cdef uint64_t i
    for i in range(m.segments.len):
        s = segments_of(m) + i
        if s.pool == NONE32 and unknown_is_default:
            s.pool = default_pool
        s.default_pool = s.pool == default_pool and (s.pool != NONE32 or unknown_is_default)
        sum_segment(m, s)
        add_sums(&m.sums, &s.sums)
        if s.default_pool:
            m.returnable += s.sums.returnable
            m.returned_free += s.sums.returned_free
        else:
            m.private_returnable += s.sums.returnable
            m.private_free += s.sums.returned_free
    m.blocked = m.sums.free - m.sums.returned_free


cdef int blockmap_fill(BlockMap* m, int64_t event, const uint32_t* held_end,
                       const uint32_t* held_base_end, const uint32_t* allocs, uint64_t n_allocs,
                       const uint32_t* blocks, uint64_t n_blocks, uint32_t default_pool,
                       bint unknown_is_default) noexcept nogil:
    # Build the map after `event`, for a live set that consists of these allocs and carried-over
    # blocks.
    cdef Buf live
    cdef int code
    buf_init(&live, sizeof(Tile))
    code = list_live(m, event, held_end, held_base_end, allocs, n_allocs, blocks, n_blocks, &live)
    if code == OK:
        code = add_segments(m, event)
    if code == OK:
        code = tile_all(m, &live)
    buf_free(&live)
    if code == OK:
        sum_all(m, default_pool, unknown_is_default)
        code = add_shares(m)
    if code == OK:
        code = rank_segments(m)
    return code


# --- a failed request -----------------------------------------------------------------------------

cdef inline void judge_free(const Request* q, const Mapped* s, uint64_t size,
                            FreeParts* out) noexcept nogil:
    # Add this free block to the reason why it can't serve the request.
    if s.pool != q.pool or s.default_pool != q.default_pool:
        out.other_pool += size
        out.other_pool_largest = max(out.other_pool_largest, size)
    elif s.small != q.small:
        out.other_kind += size
        out.other_kind_largest = max(out.other_kind_largest, size)
    elif s.stream != q.stream:
        out.other_stream += size
        out.other_stream_largest = max(out.other_stream_largest, size)
    elif size < q.size:
        out.too_small += size
        out.too_small_largest = max(out.too_small_largest, size)
        if s.sums.size > LARGE_HANDLE and not s.expandable:
            out.split_open += size
    elif ((q.size < q.max_split and size >= q.max_split)
          or (q.size >= q.max_split and size - q.size >= LARGE_HANDLE)):
        out.split_limit += size
        out.split_limit_largest = max(out.split_limit_largest, size)
    else:
        out.fits += size
        out.fits_largest = max(out.fits_largest, size)


cdef void blockmap_judge(const BlockMap* m, const Request* q, FreeParts* out) noexcept nogil:
    cdef const Mapped* s
    cdef const Tile* t
    cdef uint64_t i, j, run
    cdef bint same
    memset(out, 0, sizeof(FreeParts))
    for i in range(m.segments.len):
        s = segments_of(m) + i
        same = (s.pool == q.pool and s.default_pool == q.default_pool and s.small == q.small
                and s.stream == q.stream)
        run = 0
        for j in range(s.tiles):
            t = tiles_of(m) + s.first + j
            if t.state == TILE_IN_USE:
                run = 0
                continue
            if t.state == TILE_FREE:
                judge_free(q, s, t.size, out)
            elif same:
                out.pending += t.size
            else:
                out.pending_elsewhere += t.size
            run += t.size
            if same:
                out.run = max(out.run, run)


# --- over time ------------------------------------------------------------------------------------

cdef void unused_series(const Replay* r, const int64_t* reserved, const int64_t* active,
                        int64_t start, int64_t* out) noexcept nogil:
    # Store reserved minus active bytes after each event. An event that adds memory leaves the value
    # unchanged, because the waiting allocation uses that memory at once.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t i
    for i in range(r.events):
        if action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP:
            out[i] = out[i - 1] if i else start
        else:
            out[i] = <int64_t> (<uint64_t> reserved[i] - <uint64_t> active[i])


# --- drawing --------------------------------------------------------------------------------------

cdef void blockmap_bar(const BlockMap* m, uint64_t segment, uint64_t cells,
                       uint8_t* out) noexcept nogil:
    # Draw a segment as `cells` characters: '#' mostly in use, '+' partly, '~' pending, '.' free.
    cdef const Mapped* s = segments_of(m) + segment
    cdef const Tile* t = tiles_of(m) + s.first
    cdef uint64_t i, start, end, left, right, in_use, pending
    cdef uint64_t at = 0
    for i in range(cells):
        # A size may need all 64 bits, so don't multiply sizes.
        start = s.sums.size // cells * i + s.sums.size % cells * i // cells
        end = s.sums.size // cells * (i + 1) + s.sums.size % cells * (i + 1) // cells
        in_use = 0
        pending = 0
        while at < s.tiles and t[at].address - s.address < end:
            left = max(t[at].address - s.address, start)
            right = min(t[at].address - s.address + t[at].size, end)
            if t[at].state == TILE_IN_USE:
                in_use += right - left
            elif t[at].state == TILE_PENDING:
                pending += right - left
            if t[at].address - s.address + t[at].size > end:
                break
            at += 1
        if 2 * in_use > end - start:
            out[i] = b"#"
        elif in_use:
            out[i] = b"+"
        else:
            out[i] = b"~" if pending else b"."
