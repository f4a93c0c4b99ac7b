"""Copy an event dict into a new row if it occurs in the traces a second time.

By then, both rows are closed. As with frames, a file that changes either event later is refused.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.read.opening cimport end_event, open_container, within_input
from memreplay.engine.base.status cimport ERR_SHAPE, OK, fail
from memreplay.engine.read.tables cimport Event
from memreplay.engine.read.value cimport V_EVENT, Value
from memreplay.engine.read.sparse cimport sparse_at


cdef void read_event(const Tables* t, uint64_t row, Event* e) noexcept nogil:
    # Restore the event that push_event() turned into this row.
    cdef uint32_t* of_oom = <uint32_t*> t.oom_event.data
    cdef uint64_t low = 0
    cdef uint64_t high = t.oom_event.len
    cdef uint64_t middle
    e.action = (<uint8_t*> t.action.data)[row]
    e.address = (<uint64_t*> t.address.data)[row]
    e.size = (<int64_t*> t.size.data)[row]
    e.stack = (<uint32_t*> t.stack.data)[row]
    e.time = <int64_t> sparse_at(&t.time, row)
    e.stream = sparse_at(&t.stream, row)
    e.compile_context = <uint32_t> sparse_at(&t.compile_context, row)
    e.user_metadata = <uint32_t> sparse_at(&t.user_metadata, row)
    e.pool = <uint32_t> sparse_at(&t.pool, row)
    while low < high:
        middle = (low + high) // 2
        if of_oom[middle] < row:
            low = middle + 1
        else:
            high = middle
    e.carried = False
    e.has_device_free = low < t.oom_event.len and of_oom[low] == row
    e.device_free = (<int64_t*> t.oom_free.data)[low] if e.has_device_free else 0


cdef int repeat_event(Tables* t, uint32_t trace, Value* event) noexcept nogil:
    # Copy `event` as the next event in the trace. If there's a range, an event may have no row to
    # copy.
    cdef Event e
    cdef Value copy
    if t.range.on or t.windowed:
        return fail(&t.status, ERR_SHAPE, "an event that is in the trace twice")
    if end_event(t) != OK or within_input(t, V_EVENT) != OK:
        return t.status.code
    read_event(t, event.idx, &e)
    if open_container(t, V_EVENT, trace, &copy) != OK:
        return t.status.code
    t.event = e
    event[0] = copy
    return end_event(t)
