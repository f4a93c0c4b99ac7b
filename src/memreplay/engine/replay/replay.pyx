"""Match allocs with free_completed events by address, in one pass and linear time.

Carried-over blocks were live before the first event. There are two kinds: blocks that the trace
frees without having allocated them, and active blocks of the final segments whose address the trace
never names. Event sizes are requested sizes, so everything is in requested bytes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_get, map64_init
)
from memreplay.engine.base.status cimport DONE, ERR_MEMORY, ERR_NUMBER, NEED_MORE, OK, fail
from memreplay.engine.read.tables cimport (
    AFTER_NAMED, AFTER_REQUESTED, A_ALLOC, A_FREE_COMPLETED, A_KNOWN, Block, Carried, DeviceRows,
    EMPTY_STACK, MAX_BYTES, PENDING_NO, PENDING_UNLESS_SEEN, PENDING_YES, STATE_INACTIVE, Segment,
    Trace, block_requested, is_pending, rows_of,
)


cdef int replay_init(Replay* r, const Tables* t, int32_t device, uint64_t seed) noexcept nogil:
    cdef Trace* traces = <Trace*> t.traces.data
    cdef size_t i
    memset(r, 0, sizeof(Replay))
    r.tables = t
    r.device = device
    r.best_at = -1
    buf_init(&r.match, 4)
    buf_init(&r.carried, sizeof(Carried))
    buf_init(&r.doubles, sizeof(Double))
    buf_init(&r.ends, sizeof(Double))
    for i in range(t.traces.len):
        if traces[i].device == device and traces[i].count:
            r.first = traces[i].first
            r.events = traces[i].rows
            r.base = traces[i].base
            r.window = traces[i].window
    if map64_init(&r.live, seed) < 0 or buf_reserve(&r.match, r.events) < 0:
        return fail(&r.status, ERR_MEMORY, "replay")
    r.match.len = r.events
    return take_carried(r) if r.window != NULL else OK


cdef void replay_free(Replay* r) noexcept nogil:
    buf_free(&r.match)
    buf_free(&r.carried)
    buf_free(&r.doubles)
    buf_free(&r.ends)
    map64_free(&r.live)


cdef inline int push_carried(Replay* r, uint64_t address, int64_t size, uint32_t stack,
                             uint32_t block, bint doubtful, uint8_t pending) noexcept nogil:
    # Add a carried-over block that is assumed to be live to the end.
    cdef Carried b
    memset(&b, 0, sizeof(Carried))
    b.address = address
    b.size = size
    b.stack = stack
    b.end = NONE32
    b.block = block
    b.doubtful = doubtful
    b.pending = pending
    if push_item(&r.carried, &b) < 0:
        return fail(&r.status, ERR_MEMORY, "carried")
    if r.carried_bytes > MAX_BYTES - size:
        return fail(&r.status, ERR_NUMBER, "size")
    r.carried_bytes += size
    return OK


cdef inline bint is_carried(uint32_t value) noexcept nogil:
    return value & CARRIED and value != NONE32


cdef inline int end_carried(Replay* r, uint32_t i, uint32_t event) noexcept nogil:
    # End carried-over block i at this event.
    cdef Carried* carried = <Carried*> r.carried.data + i
    cdef Double end
    carried.end = event
    r.running -= carried.size
    end.at = event
    end.closed = i
    if push_item(&r.ends, &end) < 0:
        return fail(&r.status, ERR_MEMORY, "carried")
    return OK


cdef inline int pending_of(const Replay* r, uint64_t address, int otherwise) noexcept nogil:
    # Return the Pending of a block. Events before the range can only name the block in requests to
    # free it.
    if r.window != NULL and map64_get(&r.window.freed_early, address, 0):
        return PENDING_YES
    return otherwise


cdef int take_carried(Replay* r) noexcept nogil:
    # Continue from the state at the start of the range: the live blocks and the addresses seen so
    # far.
    cdef const Carried* carried = <const Carried*> r.window.carried.data
    cdef uint64_t i
    cdef Slot64* slot
    for i in range(r.window.before.mask + 1):
        if r.window.before.slots[i].used:
            if map64_at(&r.live, r.window.before.slots[i].key, NONE32) == NULL:
                return fail(&r.status, ERR_MEMORY, "replay")
    for i in range(r.window.carried.len):
        if carried[i].size < 0:
            continue
        slot = map64_at(&r.live, carried[i].address, NONE32)
        if slot == NULL:
            return fail(&r.status, ERR_MEMORY, "replay")
        slot.value = CARRIED | <uint32_t> r.carried.len
        if push_carried(r, carried[i].address, carried[i].size, carried[i].stack, NONE32,
                        False, carried[i].pending) != OK:
            return r.status.code
        (<Carried*> r.carried.data)[r.carried.len - 1].alloc_index = carried[i].alloc_index
        (<Carried*> r.carried.data)[r.carried.len - 1].block_size = carried[i].block_size
    return OK


cdef int add_late(Replay* r) noexcept nogil:
    # Add blocks that events after the range free and no earlier event named: these were live all
    # the time.
    cdef const Carried* late = <const Carried*> r.window.late.data
    cdef uint64_t i, known
    cdef int pending
    for i in range(r.window.late.len):
        known = r.live.used
        if map64_at(&r.live, late[i].address, NONE32) == NULL:
            return fail(&r.status, ERR_MEMORY, "replay")
        pending = pending_of(r, late[i].address, late[i].pending)
        if r.live.used != known and push_carried(r, late[i].address, late[i].size, late[i].stack,
                                                 NONE32, True, pending) != OK:
            return r.status.code
    return OK


cdef inline int apply_alloc(Replay* r, uint32_t i, uint64_t address, int64_t size) noexcept nogil:
    cdef const int64_t* sizes = <const int64_t*> r.tables.size.data + r.first
    cdef uint32_t* match = <uint32_t*> r.match.data
    cdef Slot64* slot = map64_at(&r.live, address, NONE32)
    cdef Double double_
    if slot == NULL:
        return fail(&r.status, ERR_MEMORY, "replay")
    if is_carried(slot.value):
        r.double_allocs += 1
        if end_carried(r, slot.value & ~CARRIED, i) != OK:
            return r.status.code
    elif slot.value != NONE32:
        # An address has only one block, so the older allocation's free was lost. End that
        # allocation here.
        match[slot.value] = i
        r.running -= sizes[slot.value]
        r.double_allocs += 1
        double_.at = i
        double_.closed = slot.value
        if push_item(&r.doubles, &double_) < 0:
            return fail(&r.status, ERR_MEMORY, "replay")
    slot.value = i
    match[i] = NONE32
    if r.running > MAX_BYTES - size:
        return fail(&r.status, ERR_NUMBER, "size")
    r.running += size
    r.allocs += 1
    if r.running > r.best:
        r.best = r.running
        r.best_at = i
    return OK


cdef inline int apply_free(Replay* r, uint32_t i, uint64_t address, int64_t size) noexcept nogil:
    cdef const int64_t* sizes = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* stacks = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint32_t* match = <uint32_t*> r.match.data
    cdef uint64_t known = r.live.used
    cdef Slot64* slot = map64_at(&r.live, address, NONE32)
    cdef Carried* carried
    match[i] = NONE32
    if slot == NULL:
        return fail(&r.status, ERR_MEMORY, "replay")
    if is_carried(slot.value):
        carried = <Carried*> r.carried.data + (slot.value & ~CARRIED)
        r.size_mismatches += carried.size != size
        if carried.stack == stacks[i]:
            r.same_stack += 1
        else:
            r.other_stack += 1
        if end_carried(r, slot.value & ~CARRIED, i) != OK:
            return r.status.code
        slot.value = NONE32
    elif slot.value != NONE32:
        match[slot.value] = i
        match[i] = slot.value
        r.running -= sizes[slot.value]
        r.size_mismatches += sizes[slot.value] != size
        if stacks[slot.value] == stacks[i]:
            r.same_stack += 1
        else:
            r.other_stack += 1
        slot.value = NONE32
    elif r.live.used != known:
        # The first event for this address is its free, so the block was live before the first
        # event.
        if push_carried(r, address, size, stacks[i], NONE32, True,
                        pending_of(r, address, PENDING_UNLESS_SEEN)) != OK:
            return r.status.code
        return end_carried(r, <uint32_t> r.carried.len - 1, i)
    else:
        r.unmatched_frees += 1
    return OK


cdef int add_final_blocks(Replay* r) noexcept nogil:
    # Add carried-over blocks from the final segments, and sum up their requested bytes.
    cdef const Segment* segments = <const Segment*> r.tables.segments.data
    cdef const Block* blocks = <const Block*> r.tables.blocks.data
    cdef DeviceRows rows = rows_of(r.tables, r.device)
    cdef uint64_t i
    cdef uint64_t known
    cdef int64_t size
    cdef Slot64* slot
    cdef uint32_t mark
    cdef int pending
    for i in range(rows.first_block, rows.end_block):
        if segments[blocks[i].segment].device != r.device or blocks[i].state == STATE_INACTIVE:
            continue
        size = block_requested(&blocks[i])
        if r.segment_requested > MAX_BYTES - size:
            return fail(&r.status, ERR_NUMBER, "requested_size")
        r.segment_requested += size
        mark = 0 if r.window == NULL else map64_get(&r.window.after, blocks[i].address, 0)
        if mark & AFTER_NAMED:
            continue
        known = r.live.used
        slot = map64_at(&r.live, blocks[i].address, NONE32)
        if slot == NULL:
            return fail(&r.status, ERR_MEMORY, "replay")
        if r.live.used != known:
            pending = PENDING_NO
            if is_pending(&blocks[i]) and not mark & AFTER_REQUESTED:
                pending = PENDING_UNLESS_SEEN
            if push_carried(r, blocks[i].address, size, blocks[i].stack, <uint32_t> i, False,
                            pending_of(r, blocks[i].address, pending)) != OK:
                return r.status.code
        elif is_carried(slot.value):
            # The block was allocated before the range and is live at the end, so it's in the
            # segments.
            (<Carried*> r.carried.data + (slot.value & ~CARRIED)).block = <uint32_t> i
    return OK


cdef int finish(Replay* r) noexcept nogil:
    cdef Carried* carried
    cdef size_t i
    if r.window != NULL and add_late(r) != OK:
        return r.status.code
    if add_final_blocks(r) != OK:
        return r.status.code
    # A free event has its alloc's stack, unless context was "all". If matched pairs confirm this, a
    # carried-over block gets its free's stack; otherwise its stack is unknown.
    if r.window != NULL:
        r.same_stack += r.window.same_stack
        r.other_stack += r.window.other_stack
    if r.same_stack == 0 or r.other_stack:
        carried = <Carried*> r.carried.data
        for i in range(r.carried.len):
            if carried[i].doubtful:
                carried[i].stack = EMPTY_STACK
    r.peak_bytes = r.carried_bytes + r.best
    r.final_bytes = r.carried_bytes + r.running
    map64_free(&r.live)
    return OK


cdef int replay_step(Replay* r, uint64_t chunk) noexcept nogil:
    # Replay up to `chunk` more events. Returns NEED_MORE while events are left, DONE at the end, or
    # an error.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef uint32_t* match = <uint32_t*> r.match.data
    cdef uint64_t stop = r.events if r.events - r.at <= chunk else r.at + chunk
    cdef uint64_t i
    for i in range(r.at, stop):
        if action[i] == A_ALLOC:
            if apply_alloc(r, <uint32_t> i, address[i], size[i]) != OK:
                return r.status.code
        elif action[i] == A_FREE_COMPLETED:
            if apply_free(r, <uint32_t> i, address[i], size[i]) != OK:
                return r.status.code
        else:
            match[i] = NONE32
            r.unknown_actions += action[i] >= A_KNOWN
    r.at = stop
    if stop < r.events:
        return NEED_MORE
    if finish(r) != OK:
        return r.status.code
    return DONE
