"""Rows of columns that were made before, added to tables as if they had just been read.

Events go through `push_event`, as a reader's do, so that a range leaves out what it leaves out of
any file. Ids are checked, and so are sizes: nothing in the columns is trusted. What adds rows
returns the first row that is wrong, or ALL_FIT; where t.status is set, memory or a limit is to
blame instead.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay._native.growbuf cimport push_item
from memreplay._native.status cimport ERR_MEMORY, OK, fail, fail_limit
from memreplay._native.tables cimport *
from memreplay._native.window cimport window_free, window_new


cdef int add_trace(Tables* t, int32_t device) noexcept nogil:
    # The next trace, of this device: the next one too.
    cdef Trace trace
    memset(&trace, 0, sizeof(Trace))
    trace.first = t.events
    trace.read_first = t.read_events
    trace.device = device
    trace.place = device
    if t.traces.len >= t.max_devices:
        return fail_limit(&t.status, "devices", t.traces.len + 1, t.max_devices)
    if t.range.on:
        trace.window = window_new(t, device)
        if trace.window == NULL:
            return fail(&t.status, ERR_MEMORY, "range")
    if push_item(&t.traces, &trace) < 0:
        window_free(trace.window)
        return fail(&t.status, ERR_MEMORY, "traces")
    return OK


cdef inline bint is_size(int64_t n) noexcept nogil:
    return 0 <= n <= MAX_BYTES


cdef uint64_t add_events(Tables* t, const EventColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil:
    # Events of the trace that was added last.
    cdef Trace* trace = <Trace*> t.traces.data + t.traces.len - 1
    cdef Event e
    cdef uint64_t i
    for i in range(n):
        if c.stack[i] >= stacks or not is_size(c.size[i]):
            return i
        e.action = c.action[i]
        e.address = c.address[i]
        e.size = c.size[i]
        e.time = c.time[i]
        e.stream = c.stream[i]
        e.stack = stack_of[c.stack[i]]
        e.pool = c.pool[i]
        e.compile_context = c.compile_context[i]
        e.user_metadata = c.user_metadata[i]
        e.has_device_free = c.has_device_free[i]
        e.device_free = c.device_free[i]
        if push_event(t, &e) != OK:
            return i
        trace.count += 1
        t.attached_events += 1
    return ALL_FIT


cdef uint64_t add_segments(Tables* t, const SegmentColumns* c, uint64_t n,
                           const uint32_t* stack_of, uint64_t stacks) noexcept nogil:
    cdef Segment s
    cdef uint64_t i
    memset(&s, 0, sizeof(Segment))
    for i in range(n):
        if (c.stack[i] >= stacks or not is_size(c.total[i]) or not is_size(c.allocated[i])
                or not is_size(c.active[i]) or not is_size(c.requested[i])
                or c.device[i] < -1
                or (c.device[i] >= 0 and <uint64_t> c.device[i] >= t.max_devices)):
            return i
        if t.segments.len >= t.max_rows:
            fail_limit(&t.status, "rows of segments", t.segments.len + 1, t.max_rows)
            return i
        s.device = c.device[i]
        s.address = c.address[i]
        s.total_size = c.total[i]
        s.allocated_size = c.allocated[i]
        s.active_size = c.active[i]
        s.requested_size = c.requested[i]
        s.stream = c.stream[i]
        s.kind = c.kind[i]
        s.pool = c.pool[i]
        s.stack = stack_of[c.stack[i]]
        s.flags = HAS_ADDRESS | HAS_TOTAL | HAS_BLOCKS
        if c.has_requested[i]:
            s.flags |= HAS_REQUESTED
        if c.expandable[i]:
            s.flags |= EXPANDABLE
        if push_item(&t.segments, &s) < 0:
            fail(&t.status, ERR_MEMORY, "segments")
            return i
        t.attached_segments += 1
    return ALL_FIT


cdef uint64_t add_blocks(Tables* t, const BlockColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil:
    # Blocks of segments that are there, in the order of these.
    cdef Block b
    cdef uint64_t i
    cdef uint32_t last = 0
    memset(&b, 0, sizeof(Block))
    if t.blocks.len:
        last = (<Block*> t.blocks.data)[t.blocks.len - 1].segment
    for i in range(n):
        if (c.stack[i] >= stacks or not is_size(c.size[i]) or not is_size(c.requested[i])
                or c.segment[i] >= t.segments.len or c.segment[i] < last
                or c.state[i] >= STATES):
            return i
        if t.blocks.len >= t.max_rows:
            fail_limit(&t.status, "rows of blocks", t.blocks.len + 1, t.max_rows)
            return i
        last = c.segment[i]
        b.segment = last
        b.address = c.address[i]
        b.size = c.size[i]
        b.requested = c.requested[i]
        b.state = c.state[i]
        b.stack = stack_of[c.stack[i]]
        b.flags = HAS_ADDRESS | HAS_FRAMES
        if c.has_requested[i]:
            b.flags |= HAS_REQUESTED
        if push_item(&t.blocks, &b) < 0:
            fail(&t.status, ERR_MEMORY, "blocks")
            return i
        t.attached_blocks += 1
    return ALL_FIT


cdef uint64_t add_annotations(Tables* t, const AnnotationColumns* c, uint64_t n) noexcept nogil:
    cdef Annotation a
    cdef uint64_t i
    memset(&a, 0, sizeof(Annotation))
    for i in range(n):
        if t.annotations.len >= t.max_rows:
            fail_limit(&t.status, "rows of annotations", t.annotations.len + 1, t.max_rows)
            return i
        a.device = c.device[i]
        a.time = c.time[i]
        a.stage = c.stage[i]
        a.name = c.name[i]
        if push_item(&t.annotations, &a) < 0:
            fail(&t.status, ERR_MEMORY, "annotations")
            return i
        t.attached_annotations += 1
    return ALL_FIT
