"""Match allocs with free_requested events by address, in one pass over a replayed trace.

Unlike free_completed, this doesn't depend on when the device finishes with a block. Carried-over
blocks are those of the replay, except for blocks that the program had already freed. Such a block
either has a free that completes without a request among the events, or is pending in the final
segments without a request.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, Map64, Slot64, map64_at, map64_free, map64_init
from memreplay.engine.replay.replay cimport CARRIED
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_REQUESTED, Carried, PENDING_UNLESS_SEEN, PENDING_YES,
)


cdef void held_free(Held* h) noexcept nogil:
    buf_free(&h.end)
    buf_free(&h.carried_end)


cdef inline bint end_hold(Held* h, const Replay* r, uint32_t owner, uint32_t event) noexcept nogil:
    # The program stops holding the owner here. If its free has already completed, complete()
    # handles it.
    if owner == NONE32:
        return False
    if owner & CARRIED:
        owner &= ~CARRIED
        if (<const Carried*> r.carried.data)[owner].end < event:
            return False
        (<uint32_t*> h.carried_end.data)[owner] = event
        return True
    if (<const uint32_t*> r.match.data)[owner] < event:
        return False
    (<uint32_t*> h.end.data)[owner] = event
    return True


cdef void complete(Held* h, const Replay* r) noexcept nogil:
    # An allocation without a request ends with its free_completed. If requests are recorded, a
    # carried-over block without a request was already pending at the first event.
    cdef const uint32_t* match = <const uint32_t*> r.match.data
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint32_t* end = <uint32_t*> h.end.data
    cdef uint32_t* carried_end = <uint32_t*> h.carried_end.data
    cdef bint recorded = h.requests or (r.window != NULL and r.window.requests)
    cdef uint64_t i
    for i in range(r.events):
        if action[i] == A_ALLOC and end[i] == NONE32 and match[i] != NONE32:
            end[i] = match[i]
            # A second alloc at the address ends the allocation, so the program no longer holds it.
            h.unrequested += action[match[i]] != A_ALLOC
        elif action[i] == A_ALLOC and end[i] != NONE32 and match[i] == NONE32:
            h.pending += 1
    for i in range(r.carried.len):
        if carried_end[i] != NONE32:
            h.pending += carried[i].end == NONE32
            continue
        if carried[i].pending == PENDING_YES:
            carried_end[i] = NEVER_HELD
        elif carried[i].pending == PENDING_UNLESS_SEEN and (recorded or carried[i].block != NONE32):
            carried_end[i] = NEVER_HELD
            # If there's a range, the request may have come before it.
            h.presumed += carried[i].block == NONE32 and (r.window == NULL or r.window.begin == 0)
        elif carried[i].end != NONE32:
            carried_end[i] = carried[i].end
            h.unrequested += 1


cdef int held_init(Held* h, const Replay* r, uint64_t seed) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* address = <const uint64_t*> r.tables.address.data + r.first
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef Map64 live   # address -> alloc event or CARRIED | block; NONE32 if not held
    cdef Slot64* slot
    cdef uint64_t i
    memset(h, 0, sizeof(Held))
    buf_init(&h.end, 4)
    buf_init(&h.carried_end, 4)
    if map64_init(&live, seed) < 0:
        return fail(&h.status, ERR_MEMORY, "replay")
    if buf_reserve(&h.end, r.events) < 0 or buf_reserve(&h.carried_end, r.carried.len) < 0:
        map64_free(&live)
        return fail(&h.status, ERR_MEMORY, "replay")
    h.end.len = r.events
    h.carried_end.len = r.carried.len
    if r.events:
        memset(h.end.data, 0xFF, r.events * 4)
    for i in range(r.carried.len):
        (<uint32_t*> h.carried_end.data)[i] = NONE32
        if carried[i].pending == PENDING_YES:
            continue
        slot = map64_at(&live, carried[i].address, NONE32)
        if slot == NULL:
            map64_free(&live)
            return fail(&h.status, ERR_MEMORY, "replay")
        slot.value = CARRIED | <uint32_t> i
    for i in range(r.events):
        if action[i] > A_FREE_REQUESTED:
            continue
        slot = map64_at(&live, address[i], NONE32)
        if slot == NULL:
            map64_free(&live)
            return fail(&h.status, ERR_MEMORY, "replay")
        if action[i] == A_FREE_REQUESTED:
            h.requests += 1
            h.unmatched += not end_hold(h, r, slot.value, <uint32_t> i)
        else:
            end_hold(h, r, slot.value, <uint32_t> i)
        slot.value = <uint32_t> i if action[i] == A_ALLOC else NONE32
    map64_free(&live)
    complete(h, r)
    return OK
