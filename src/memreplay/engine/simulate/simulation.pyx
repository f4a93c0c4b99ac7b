"""Simulate a recorded program with other allocator settings.

The program's actions come from the recording: what it requested, when it freed that memory, when
the frees completed, and when it emptied the cache. The allocator's actions (segments, retries) are
simulated. docs/simulate.md lists what a recording doesn't show.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, buf_reserve, push_item, push_u32, push_zeroed
)
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.slim cimport slim_at
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.sparse cimport sparse_at
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_OOM, A_SEGMENT_ALLOC, A_SEGMENT_FREE,
    A_SEGMENT_MAP, A_SEGMENT_UNMAP, A_SNAPSHOT, Carried, EMPTY_STACK, Tables,
)
from memreplay.engine.replay.held cimport NEVER_HELD
from memreplay.engine.replay.idle cimport is_default_pool, is_user_pool
from memreplay.engine.replay.replay cimport CARRIED, Double, Replay
from memreplay.engine.replay.reserve cimport LARGE_HANDLE
from memreplay.engine.replay.sizes cimport SMALL_LIMIT, SMALL_SEGMENT, max_split
from memreplay.engine.simulate.allocator cimport (
    complete, empty_cache, request_free, release_pool, take
)
from memreplay.engine.simulate.editing cimport (
    Addition, Move, changed_size, changes, changes_all, edit_columns, edit_free, edit_init, like
)
from memreplay.engine.simulate.heap cimport (
    DONE_OK, NO_EVENT, NO_TOTAL, SegmentEvent, TraceEvent, block_at, heap_free, heap_init,
    mapped_ranges
)
from memreplay.engine.simulate.starting cimport take_start

cdef extern from *:
    const uint64_t BASE "0x10000000000ull"   # addresses that aren't recorded start here


cdef void simulation_free(Simulation* s) noexcept nogil:
    heap_free(&s.a)
    buf_free(&s.failed)
    free_run(s)


cdef void free_run(Simulation* s) noexcept nogil:
    # Free everything that is only needed during the run, because it takes many bytes per event.
    edit_free(&s.edit)
    buf_free(&s.block_of)
    buf_free(&s.carried_block)
    buf_free(&s.waits)
    buf_free(&s.emptied)
    buf_free(&s.waiting)
    buf_free(&s.late)
    buf_free(&s.shifts)


# --- the program's calls --------------------------------------------------------------------------

cdef inline bint waited(const Replay* r, uint64_t i) noexcept nogil:
    # Whether event i completes a free that was requested by an earlier call.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    if action[i] != A_FREE_COMPLETED:
        return False
    return (i == 0 or action[i - 1] != A_FREE_REQUESTED or address[i - 1] != address[i]
            or stack[i - 1] != stack[i])


cdef int by_event(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const Wait*> a).at
    cdef uint32_t y = (<const Wait*> b).at
    return (x > y) - (x < y)


cdef int note_wait(Simulation* s, uint32_t requested, uint32_t completed,
                   uint32_t owner) noexcept nogil:
    cdef Wait w
    if requested == NONE32 or requested == NEVER_HELD or completed == requested:
        return 0
    if completed != NONE32 and not waited(s.arena.replay, completed):
        return 0
    w.at = requested
    w.owner = owner
    return push_item(&s.waits, &w)


cdef int find_waits(Simulation* s) noexcept nogil:
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef const uint32_t* end = <const uint32_t*> s.held.end.data
    cdef const uint32_t* carried_end = <const uint32_t*> s.held.carried_end.data
    cdef uint64_t i
    for i in range(r.events):
        if action[i] == A_ALLOC and end[i] != NONE32:
            if note_wait(s, end[i], match[i], <uint32_t> i) < 0:
                return -1
    for i in range(r.carried.len):
        if note_wait(s, carried_end[i], carried[i].end, CARRIED | <uint32_t> i) < 0:
            return -1
    if s.waits.len:
        qsort(s.waits.data, s.waits.len, sizeof(Wait), by_event)
    return 0


cdef inline bint is_release(uint8_t action) noexcept nogil:
    return action == A_SEGMENT_FREE or action == A_SEGMENT_UNMAP


cdef inline bint is_driver_request(uint8_t action) noexcept nogil:
    return action == A_SEGMENT_ALLOC or action == A_SEGMENT_MAP or action == A_OOM


cdef uint64_t driver_request_bytes(const Simulation* s, uint64_t i) noexcept nogil:
    # Return the number of bytes requested from the driver, from this event on until the request is
    # served. If there are no driver requests, at least one handle must have been unavailable.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef uint64_t sum = 0
    if i < r.events and action[i] == A_ALLOC:
        return SMALL_SEGMENT if size[i] <= SMALL_LIMIT else s.recorded.handle
    while i < r.events and is_driver_request(action[i]) and action[i] != A_OOM:
        sum += <uint64_t> size[i]
        i += 1
    return sum


cdef inline uint32_t private_pool_of(const Simulation* s, uint64_t i) noexcept nogil:
    # Return NONE32 for the default pool. Everything outside private pools belongs to the default
    # pool, whatever the events say.
    cdef uint32_t pool = slim_at(&s.arena.pool, i)
    if pool == NONE32 or is_default_pool(s.arena.replay.tables, pool):
        return NONE32
    return pool


cdef inline bint captured(const Simulation* s, uint32_t pool, uint64_t stream) noexcept nogil:
    # Whether a request is part of a graph capture, during which no memory is returned. A
    # torch.cuda.MemPool has a pool id like a pool that graphs share, but its requests aren't part
    # of a capture. These use the default stream, which graphs don't capture.
    return pool != NONE32 and not (stream == 0 and is_user_pool(s.arena.replay.tables, pool))


cdef int note_emptied(Simulation* s, uint64_t first, uint64_t stop) noexcept nogil:
    # Emptying the whole cache starts with the default pool. Memory released earlier belonged to a
    # private pool that ended.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t i
    cdef uint32_t last = NONE32
    cdef Emptied e
    for i in range(first, stop):
        if not is_release(action[i]):
            continue
        e.at = <uint32_t> i
        e.pool = private_pool_of(s, i)
        if e.pool == NONE32:
            return push_item(&s.emptied, &e)
        if e.pool != last and push_item(&s.emptied, &e) < 0:
            return -1
        last = e.pool
    return 0


cdef bint all_oversize(const Simulation* s, uint64_t first, uint64_t stop) noexcept nogil:
    # Whether only oversize blocks on the requesting stream were released. PyTorch may do this
    # before it releases the whole cache, and doesn't count it as a retry.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef uint64_t i
    for i in range(first, stop):
        if (is_release(action[i])
                and (<uint64_t> size[i] < max_split(&s.arena.rules)
                     or sparse_at(&r.tables.stream, r.first + i)
                     != sparse_at(&r.tables.stream, r.first + stop))):
            return False
    return True


cdef bint falling(const Simulation* s, uint64_t first, uint64_t stop) noexcept nogil:
    # Whether several segments are released, largest first. Oversize blocks are released in this
    # order until there is enough memory; the whole cache is released in the opposite order.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef uint64_t i
    for i in range(first + 1, stop):
        if not is_release(action[i]) or size[i] >= size[i - 1]:
            return False
    return stop > first + 1


cdef inline bint over_limit(const Simulation* s, uint64_t reserved,
                            uint64_t requested) noexcept nogil:
    # Whether this total exceeds the recorded driver's memory or the recorded limit.
    return reserved + requested > <uint64_t> s.recorded.limit


cdef inline bint collected(const Simulation* s, uint64_t reserved) noexcept nogil:
    # Whether the recorded allocator collected cached memory before requesting more.
    return s.recorded.collect_from >= 0 and reserved > <uint64_t> s.recorded.collect_from


cdef int find_emptied(Simulation* s) noexcept nogil:
    # Find out why segments are released. If the same call doesn't immediately request memory that
    # was unavailable, the program emptied the cache. Otherwise the allocator was out of memory and
    # retried; memory with a pending free couldn't serve earlier requests. Garbage collection
    # doesn't wait, so pending frees remain.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Wait* waits = <const Wait*> s.waits.data
    cdef uint64_t reserved = <uint64_t> s.arena.reserve.start_bytes
    cdef uint64_t before, requested
    cdef uint64_t i = 0
    cdef uint64_t k
    cdef uint32_t counted = NONE32
    cdef bint again, want, alone
    cdef Waiting w
    cdef int64_t pending = 0
    cdef uint64_t t = 0
    while i < r.events:
        if action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP:
            reserved += <uint64_t> size[i]
        while t < s.waits.len and waits[t].at <= i:
            pending += 1
            t += 1
        pending -= waited(r, i)
        if not is_release(action[i]) and action[i] != A_OOM:
            i += 1
            continue
        before = reserved
        k = i
        while k < r.events and (is_release(action[k]) or waited(r, k)):
            if is_release(action[k]):
                reserved -= <uint64_t> size[k]
            pending -= k > i and waited(r, k)
            k += 1
        # If waiting freed enough memory, the allocator requests nothing more.
        again = (k < r.events and stack[i] == stack[k]
                 and (is_driver_request(action[k])
                      or (action[k] == A_ALLOC and stack[k] != EMPTY_STACK)))
        requested = driver_request_bytes(s, k)
        # Events without stacks may belong to two calls. Garbage collection can return memory even
        # if there is enough.
        want = again and (action[k] == A_OOM or over_limit(s, before, requested)
                          or (stack[k] != EMPTY_STACK and s.recorded.collect_from < 0))
        if want:
            w.first = <uint32_t> i
            w.stop = <uint32_t> k
            # A single oversize block that is large enough but couldn't serve the request is
            # released before the allocator waits.
            alone = (k == i + 1 and <uint64_t> size[i] >= max_split(&s.arena.rules)
                     and (requested < max_split(&s.arena.rules)
                          or <uint64_t> size[i] - requested >= LARGE_HANDLE)
                     and sparse_at(&r.tables.stream, r.first + i)
                     == sparse_at(&r.tables.stream, r.first + k))
            alone |= is_release(action[i]) and collected(s, before) and pending > 0
            alone |= falling(s, i, k) and all_oversize(s, i, k)
            while w.first and waited(r, w.first - 1) and not alone:
                w.first -= 1
            # If the request fails even after that, there is a separate event, which was already
            # counted.
            if (<uint32_t> i != counted
                    and not captured(s, private_pool_of(s, k),
                                     sparse_at(&r.tables.stream, r.first + k))
                    and (action[k] == A_OOM or not all_oversize(s, i, k))):
                s.recorded_retries += 1
            if requested and before + requested < s.recorded_shortfall:
                s.recorded_shortfall = before + requested
            counted = w.stop
            if push_item(&s.waiting, &w) < 0:
                return -1
        elif not (again and collected(s, before)) and note_emptied(s, i, k) < 0:
            return -1
        i = max(k, i + 1)
    return 0


# --- comparison with the recording ----------------------------------------------------------------

cdef void count_equal(Simulation* s) noexcept nogil:
    # Count the recorded segment events up to the first one that has a different kind or size in the
    # simulation.
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> s.arena.reserve.events.data
    cdef const SegmentEvent* log = <const SegmentEvent*> s.a.log.data
    cdef uint64_t n = min(s.arena.reserve.events.len, s.a.log.len)
    while (s.equal < n and action[events[s.equal]] == log[s.equal].action
           and <uint64_t> size[events[s.equal]] == log[s.equal].size):
        s.equal += 1


cdef inline bint differs(Simulation* s) noexcept nogil:
    # Whether a driver request differed from the recording.
    if s.equal < s.a.log.len:
        count_equal(s)
    return s.equal < s.a.log.len


# --- replaying the program ------------------------------------------------------------------------

cdef inline uint32_t block_of(const Simulation* s, uint32_t owner) noexcept nogil:
    # Return the owner's current block; NONE32 if it was freed.
    cdef uint32_t i
    if owner & CARRIED:
        i = (<const uint32_t*> s.carried_block.data)[owner & ~CARRIED]
    else:
        i = (<const uint32_t*> s.block_of.data)[owner]
    if i == NONE32 or block_at(&s.a, i).owner != owner:
        return NONE32
    return i


cdef inline int end_of(Simulation* s, uint32_t owner) noexcept nogil:
    cdef uint32_t i = block_of(s, owner)
    return complete(&s.a, i) if i != NONE32 else DONE_OK


cdef int end_late(Simulation* s, bint waited_then, bint waited_now) noexcept nogil:
    # Complete the pending frees for which a recorded request waited.
    cdef uint64_t i
    cdef uint32_t owner
    cdef bint is_other = waited_now and not waited_then
    for i in range(s.late.len):
        owner = (<const uint32_t*> s.late.data)[i]
        is_other |= not waited_now and block_of(s, owner) != NONE32
        if end_of(s, owner) < 0:
            return -1
    s.late.len = 0
    if is_other and s.resynced_at < 0:
        s.resynced_at = <int64_t> s.a.at
    return DONE_OK


cdef int trace_oom(Simulation* s, uint64_t i, int64_t size, uint64_t stream) noexcept nogil:
    cdef TraceEvent e
    cdef int64_t left = s.a.limits.total - s.a.reserved
    if not s.a.keeps_trace:
        return DONE_OK
    e.at = s.a.at
    e.stack = s.a.stack
    e.address = <uint64_t> left if left > 0 else 0
    e.size = size
    e.stream = stream
    e.pool = private_pool_of(s, i)
    e.action = A_OOM
    return push_item(&s.a.trace, &e)


cdef int copy_event(Simulation* s, uint64_t i, uint8_t action) noexcept nogil:
    # Copy an event that doesn't change memory.
    cdef const Tables* t = s.arena.replay.tables
    cdef uint64_t row = s.arena.replay.first + i
    cdef TraceEvent e
    if not s.a.keeps_trace:
        return DONE_OK
    e.at = e.stack = i
    e.address = (<const uint64_t*> t.address.data)[row]
    # The size of a snapshot event is the active bytes.
    e.size = s.a.active if action == A_SNAPSHOT else (<const int64_t*> t.size.data)[row]
    e.stream = sparse_at(&t.stream, row)
    e.pool = <uint32_t> sparse_at(&t.pool, row)
    e.action = action
    return push_item(&s.a.trace, &e)


cdef int note_place(Simulation* s, uint64_t i, uint32_t block) noexcept nogil:
    # A segment's first block determines the segment's position; check the other blocks against it.
    cdef const Replay* r = s.arena.replay
    cdef uint64_t address = (<const uint64_t*> r.tables.address.data)[r.first + i]
    cdef Shift* shift
    while s.shifts.len <= block_at(&s.a, block).segment:
        if push_zeroed(&s.shifts) < 0:
            return -1
    shift = <Shift*> s.shifts.data + block_at(&s.a, block).segment
    if not shift.known:
        shift.known = True
        shift.bytes = address - block_at(&s.a, block).address
    s.misplaced += address - block_at(&s.a, block).address != shift.bytes
    return DONE_OK


cdef int request(Simulation* s, uint64_t i, uint8_t action) noexcept nogil:
    cdef const Replay* r = s.arena.replay
    cdef int64_t size = (<const int64_t*> r.tables.size.data)[r.first + i]
    cdef bint changed = changes(&s.edit, i) if action == A_ALLOC else changes_all(&s.edit)
    if changed:
        size = changed_size(&s.edit, size)
    if s.edit.sizes != NULL and s.edit.sizes[i] >= 0:
        size = s.edit.sizes[i]
        changed = True
    if not changed or size:
        return make(s, i, <uint32_t> i, size, action)
    if action == A_ALLOC:
        (<uint32_t*> s.block_of.data)[i] = NONE32
    return DONE_OK


cdef int make(Simulation* s, uint64_t i, uint32_t owner, int64_t size,
              uint8_t action) noexcept nogil:
    # Request memory for an owner, as event i did.
    cdef uint64_t stream = sparse_at(&s.arena.replay.tables.stream, s.arena.replay.first + i)
    cdef uint32_t pool = private_pool_of(s, i)
    cdef uint32_t block
    if take(&s.a, owner, size, stream, pool, pool != NONE32,
            not captured(s, pool, stream), &block) < 0:
        return -1
    if action == A_ALLOC:
        (<uint32_t*> s.block_of.data)[owner] = block
        if block != NONE32 and s.a.keeps_log and owner == i and note_place(s, i, block) < 0:
            return -1
    if block == NONE32:
        if push_u32(&s.failed, <uint32_t> i) < 0 or trace_oom(s, i, size, stream) < 0:
            return -1
        if action == A_ALLOC:
            s.stopped_at = <int64_t> i
        return DONE_OK
    # The program never used memory from a request that failed in the recording.
    return complete(&s.a, block) if action == A_OOM else DONE_OK


cdef int make_moves(Simulation* s, uint64_t i, uint64_t* next) noexcept nogil:
    # Make the changed program's calls before event i.
    cdef const Move* moves = <const Move*> s.edit.moves.data
    cdef uint64_t events = s.arena.replay.events
    cdef uint32_t owner
    cdef int code
    while next[0] < s.edit.moves.len and moves[next[0]].at <= i and s.stopped_at < 0:
        owner = moves[next[0]].owner
        s.a.stack = like(&s.edit, owner, events)
        if not moves[next[0]].makes:
            code = end_of(s, owner)
        elif owner < events:
            code = request(s, owner, A_ALLOC)
        else:
            code = make(s, s.a.stack, owner,
                        (<const Addition*> s.edit.added.data)[owner - events].size, A_ALLOC)
        if code < 0:
            return -1
        if s.stopped_at >= 0:
            s.stopped_at = <int64_t> min(i, events - 1)
            (<uint32_t*> s.failed.data)[s.failed.len - 1] = <uint32_t> s.stopped_at
        next[0] += 1
    return DONE_OK


cdef int replay_events(Simulation* s) noexcept nogil:
    cdef const Replay* r = s.arena.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const Double* doubles = <const Double*> r.doubles.data
    cdef const Double* ends = <const Double*> r.ends.data
    cdef const Wait* waits = <const Wait*> s.waits.data
    cdef const Emptied* emptied = <const Emptied*> s.emptied.data
    cdef const Waiting* waiting = <const Waiting*> s.waiting.data
    cdef uint64_t d = 0
    cdef uint64_t e = 0
    cdef uint64_t w = 0
    cdef uint64_t c = 0
    cdef uint64_t t = 0
    cdef uint64_t m = 0
    cdef uint64_t i
    cdef uint64_t waited_for
    cdef bint waited_then = False
    cdef uint32_t block, pool
    for i in range(r.events):
        s.a.at = i
        if make_moves(s, i, &m) < 0:
            return -1
        if s.stopped_at >= 0 or (s.stop_at_difference and differs(s)):
            return DONE_OK
        s.a.stack = i
        while d < r.doubles.len and doubles[d].at == i:
            if end_of(s, doubles[d].closed) < 0:
                return -1
            d += 1
        while e < r.ends.len and ends[e].at == i:
            if end_of(s, CARRIED | ends[e].closed) < 0:
                return -1
            e += 1
        while t < s.waiting.len and waiting[t].stop <= i:
            t += 1
            waited_then = True
        if action[i] == A_ALLOC or action[i] == A_OOM:
            waited_for = s.a.waited_for
            if request(s, i, action[i]) < 0:
                return -1
            if s.stopped_at >= 0:
                return DONE_OK
            if end_late(s, waited_then, s.a.waited_for > waited_for) < 0:
                return -1
            waited_then = False
        elif action[i] == A_FREE_COMPLETED:
            if match[i] == NONE32:
                continue
            if t < s.waiting.len and waiting[t].first <= i:
                if push_u32(&s.late, match[i]) < 0:
                    return -1
            elif end_of(s, match[i]) < 0:
                return -1
        elif action[i] == A_FREE_REQUESTED:
            while w < s.waits.len and waits[w].at == i:
                block = block_of(s, waits[w].owner)
                if block != NONE32 and request_free(&s.a, block) < 0:
                    return -1
                w += 1
        elif is_release(action[i]):
            pool = private_pool_of(s, i)
            if pool != NONE32 and release_pool(&s.a, pool) < 0:
                return -1
            if c < s.emptied.len and emptied[c].at == i:
                if empty_cache(&s.a, emptied[c].pool) < 0:
                    return -1
                c += 1
        elif not is_driver_request(action[i]) and copy_event(s, i, action[i]) < 0:
            return -1
    return make_moves(s, r.events, &m)


cdef int run(Simulation* s) noexcept nogil:
    cdef const Replay* r = s.arena.replay
    cdef uint64_t owners = r.events + s.edit.added.len
    if buf_reserve(&s.block_of, owners) < 0 or buf_reserve(&s.carried_block, r.carried.len) < 0:
        return -1
    s.block_of.len = owners
    # A moved free may precede the allocation.
    memset(s.block_of.data, 0xFF, owners * sizeof(uint32_t))
    s.carried_block.len = r.carried.len
    if r.carried.len:
        memset(s.carried_block.data, 0xFF, r.carried.len * sizeof(uint32_t))
    s.a.at = s.a.stack = NO_EVENT
    if take_start(s) < 0 or find_waits(s) < 0 or find_emptied(s) < 0:
        return -1
    s.a.keeps_trace = s.keeps_trace
    return replay_events(s)


cdef int simulation_run(Simulation* s, const Arena* arena, const Held* held,
                        const SimulationOptions* options, uint64_t seed) noexcept nogil:
    memset(s, 0, sizeof(Simulation))
    s.arena = arena
    s.held = held
    s.recorded = options.recorded
    s.keeps_trace = options.keeps_trace
    s.stop_at_difference = options.stop_at_difference
    s.stopped_at = -1
    s.resynced_at = -1
    s.recorded_shortfall = <uint64_t> NO_TOTAL
    buf_init(&s.block_of, 4)
    buf_init(&s.carried_block, 4)
    buf_init(&s.waits, sizeof(Wait))
    buf_init(&s.emptied, sizeof(Emptied))
    buf_init(&s.waiting, sizeof(Waiting))
    buf_init(&s.late, 4)
    buf_init(&s.failed, 4)
    buf_init(&s.shifts, sizeof(Shift))
    if (heap_init(&s.a, &options.rules, &options.limits, BASE, seed) < 0
            or edit_init(&s.edit, options.edited, options.factor, options.twice, arena.replay,
                         held) < 0
            or edit_columns(&s.edit, &options.columns) < 0):
        return fail(&s.status, ERR_MEMORY, "blocks")
    s.a.keeps_log = options.keeps_log
    if run(s) < 0:
        return fail(&s.status, ERR_MEMORY, "blocks")
    count_equal(s)
    s.mapped_ranges = mapped_ranges(&s.a)
    free_run(s)
    if not s.a.keeps_log and not s.keeps_trace:
        heap_free(&s.a)  # segments and blocks are no longer needed
    return OK
