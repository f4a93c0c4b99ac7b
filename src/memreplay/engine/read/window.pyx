"""Reduce the events outside a range to the state that the range needs.

The events before the range determine the blocks that are live when the range begins. If an event
after the range frees a block that no earlier event named, that block was live all the time. Memory
use is proportional to the number of live blocks and distinct addresses, not to the trace's length.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_get, map64_init,
)
from memreplay.engine.base.status cimport ERR_MEMORY, fail
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, AFTER, AFTER_NAMED, AFTER_REQUESTED, ALL_DEVICES, AT_ELAPSED, AT_EVENT, AT_NONE,
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_SEGMENT_UNMAP, A_SNAPSHOT, BEFORE, Carried,
    PENDING_NO, PENDING_UNLESS_SEEN, PENDING_YES, Range, SegmentEvent, WINDOW_IN,
)

cdef extern from *:
    const uint32_t UNSEEN "0xFFFFFFFEu"   # in `before`: absent


cdef Window* window_new(const Tables* t, int32_t device) noexcept nogil:
    cdef Window* w = <Window*> calloc(1, sizeof(Window))
    if w == NULL:
        return NULL
    w.first_time = ABSENT_TIME
    w.dropped = t.range.on and t.range.device != ALL_DEVICES and t.range.device != device
    buf_init(&w.carried, sizeof(Carried))
    buf_init(&w.gaps, 4)
    buf_init(&w.late, sizeof(Carried))
    buf_init(&w.segment_events, sizeof(SegmentEvent))
    if (map64_init(&w.before, t.strings.seed) < 0 or map64_init(&w.after, t.strings.seed + 1) < 0
            or map64_init(&w.freed_early, t.strings.seed + 2) < 0):
        window_free(w)
        return NULL
    return w


cdef void window_free(Window* w) noexcept nogil:
    if w == NULL:
        return
    map64_free(&w.before)
    map64_free(&w.freed_early)
    map64_free(&w.after)
    buf_free(&w.carried)
    buf_free(&w.gaps)
    buf_free(&w.late)
    buf_free(&w.segment_events)
    free(w)


cdef inline bint reached(Window* w, int kind, int64_t bound, const Event* e) noexcept nogil:
    # Whether this event is at or past the bound. Once a bound is reached, all later events are past
    # it.
    if kind == AT_EVENT:
        return <int64_t> w.index >= bound
    if e.time == ABSENT_TIME:
        w.timeless = True
        return False
    if kind == AT_ELAPSED:
        # The difference may exceed int64.
        if e.time < w.first_time:
            return bound < 0 and (<uint64_t> w.first_time - <uint64_t> e.time
                                  <= 0 - <uint64_t> bound)
        return <uint64_t> e.time - <uint64_t> w.first_time >= <uint64_t> bound or bound < 0
    return e.time >= bound


cdef int carry(Window* w, const Event* e) noexcept nogil:
    # Record an allocation before the range.
    cdef Carried b
    cdef Slot64* slot = map64_at(&w.before, e.address, NONE32)
    if slot == NULL:
        return -1
    b.address = e.address
    b.size = e.size
    b.stack = e.stack
    b.end = NONE32
    b.block = NONE32
    b.alloc_index = w.index  # this is already the next event's index
    b.block_size = e.block_size
    b.doubtful = False
    b.pending = PENDING_NO
    if slot.value != NONE32:
        # The free of the older allocation at this address is missing; the newer allocation replaces
        # it.
        (<Carried*> w.carried.data)[slot.value] = b
        return 0
    if w.gaps.len:
        w.gaps.len -= 1
        slot.value = (<uint32_t*> w.gaps.data)[w.gaps.len]
        (<Carried*> w.carried.data)[slot.value] = b
        return 0
    slot.value = <uint32_t> w.carried.len
    return push_item(&w.carried, &b)


cdef int drop(Window* w, const Event* e) noexcept nogil:
    # Record a free before the range.
    cdef Slot64* slot = map64_at(&w.before, e.address, NONE32)
    cdef Carried* b
    if slot == NULL:
        return -1
    if slot.value == NONE32:
        return 0
    b = <Carried*> w.carried.data + slot.value
    if b.stack == e.stack:
        w.same_stack += 1
    else:
        w.other_stack += 1
    b.size = -1
    if push_u32(&w.gaps, slot.value) < 0:
        return -1
    slot.value = NONE32
    return 0


cdef int request(Window* w, const Event* e) noexcept nogil:
    # Record a free request before the range, for a carried-over block or a block that a later event
    # names.
    cdef uint32_t at = map64_get(&w.before, e.address, UNSEEN)
    if at == UNSEEN:
        return -1 if map64_at(&w.freed_early, e.address, 1) == NULL else 0
    if at != NONE32:
        (<Carried*> w.carried.data)[at].pending = PENDING_YES
    return 0


cdef int follow(Window* w, const Event* e) noexcept nogil:
    # Record an event after the range. For each address, only the first event matters.
    cdef Slot64* slot = map64_at(&w.after, e.address, 0)
    cdef Carried b
    if slot == NULL:
        return -1
    if slot.value & AFTER_NAMED:
        return 0
    if e.action == A_FREE_REQUESTED:
        slot.value |= AFTER_REQUESTED
        return 0
    slot.value |= AFTER_NAMED
    if e.action != A_FREE_COMPLETED:
        return 0
    b.address = e.address
    b.size = e.size
    b.stack = e.stack
    b.end = NONE32
    b.block = NONE32
    b.alloc_index = 0
    b.block_size = 0
    b.doubtful = True
    b.pending = PENDING_NO if slot.value & AFTER_REQUESTED else PENDING_UNLESS_SEEN
    return push_item(&w.late, &b)


cdef int keep_segment_event(Window* w, const Event* e) noexcept nogil:
    # Keep a segment event after the range, because it shows which segments existed when the range
    # ended.
    cdef SegmentEvent s
    s.address = e.address
    s.size = e.size
    s.stream = e.stream
    s.pool = e.pool
    s.action = e.action
    return push_item(&w.segment_events, &s)


cdef int leave_mark(Tables* t, Window* w, const Event* e) noexcept nogil:
    # Record an event outside the range. Returns its phase; t.status is set on failure.
    cdef int code = 0
    w.requests |= e.action == A_FREE_REQUESTED
    if w.phase == AFTER:
        if e.action <= A_FREE_COMPLETED:
            code = follow(w, e)
        elif e.action <= A_SEGMENT_UNMAP:
            code = keep_segment_event(w, e)
    elif e.action == A_ALLOC:
        code = carry(w, e)
    elif e.action == A_FREE_COMPLETED:
        code = drop(w, e)
    elif e.action == A_FREE_REQUESTED:
        code = request(w, e)
    if code < 0:
        fail(&t.status, ERR_MEMORY, "range")
    return w.phase


cdef int window_event(Tables* t, Window* w, const Event* e) noexcept nogil:
    # Return an event's phase; outside WINDOW_IN, record the event's effects. t.status is set on
    # failure.
    cdef const Range* r = &t.range
    if w.dropped:
        w.index += 1
        return AFTER
    if e.action != A_SNAPSHOT or e.size:
        w.happened = True
    if w.first_time == ABSENT_TIME:
        w.first_time = e.time
    if e.carried and w.phase == BEFORE:
        w.index += 1
        return leave_mark(t, w, e)
    if w.phase == BEFORE and (r.start_kind == AT_NONE or reached(w, r.start_kind, r.start, e)):
        w.phase = WINDOW_IN
        w.begin = w.index
    if w.phase == WINDOW_IN and r.stop_kind != AT_NONE and reached(w, r.stop_kind, r.stop, e):
        w.phase = AFTER
    w.index += 1
    return w.phase if w.phase == WINDOW_IN else leave_mark(t, w, e)
