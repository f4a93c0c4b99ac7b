"""An event dict that stands in the traces once more: a row of its own, with the same content.

Both rows are closed by then: a file that goes on filling either is refused, as for frames.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.read.opening cimport end_event, open_container, within_input
from memreplay.engine.base.status cimport ERR_SHAPE, OK, fail
from memreplay.engine.read.tables cimport Event
from memreplay.engine.read.value cimport V_EVENT, Value
from memreplay.engine.read.sparse cimport sparse_at


cdef void read_event(const Tables* t, uint64_t row, Event* e) noexcept nogil:
    # The event that push_event() made this row of.
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
    # `event` becomes its own copy, the next event of the trace. Through a range not every event has
    # a row to copy.
    cdef Event e
    cdef Value copy
    if t.range.on or t.windowed:
        return fail(&t.status, ERR_SHAPE, "an event that stands in the trace twice")
    if end_event(t) != OK or within_input(t, V_EVENT) != OK:
        return t.status.code
    read_event(t, event.idx, &e)
    if open_container(t, V_EVENT, trace, &copy) != OK:
        return t.status.code
    t.event = e
    event[0] = copy
    return end_event(t)
