"""Add the rows of existing columns to tables, as if the rows had just been read.

Events go through `push_event`, as in the readers, so a range keeps the same events as when a
snapshot is read. Columns aren't trusted, so ids and sizes are checked. Functions that add rows
return the index of the first invalid row, or ALL_FIT. If t.status is set, the failure is due to
memory or a limit, not to the row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_u32
from memreplay.engine.base.hashmap cimport NONE32, Spans, span_at, spans_intern, spans_len
from memreplay.engine.read.opening cimport open_row, open_trace
from memreplay.engine.base.status cimport OK
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_KNOWN, A_LAST, A_NONE, A_OTHER, Annotation, Block, EXPANDABLE, Event, FrameKey,
    HAS_ADDRESS, HAS_BLOCKS, HAS_FRAMES, HAS_REQUESTED, HAS_TOTAL, MAX_BYTES, STATES, Segment,
    Trace, event_clear, push_event,
)


cdef int add_trace(Tables* t, int32_t device) noexcept nogil:
    # Start the trace of the next device.
    return open_trace(t, device, device)


cdef uint64_t decode(const Coded* c, uint64_t n, uint32_t* out) noexcept nogil:
    # Look up the codes for n rows. Returns the first row whose index is out of range, or ALL_FIT.
    cdef uint64_t i, bit
    for i in range(n):
        bit = c.offset + i
        if c.valid != NULL and not c.valid[bit >> 3] >> (bit & 7) & 1:
            out[i] = c.missing
        elif <uint64_t> <uint32_t> c.at[i] < c.words:
            out[i] = c.codes[c.at[i]]
        else:
            return i
    return ALL_FIT


# --- row checks -----------------------------------------------------------------------------------

cdef inline bint is_size(int64_t n) noexcept nogil:
    return 0 <= n <= MAX_BYTES


cdef inline bint is_text(const Tables* t, uint32_t id) noexcept nogil:
    return id < spans_len(&t.strings)


cdef inline bint is_text_or_none(const Tables* t, uint32_t id) noexcept nogil:
    return id == NONE32 or is_text(t, id)


cdef inline bint is_pool(const Tables* t, uint32_t id) noexcept nogil:
    return id == NONE32 or id < spans_len(&t.pairs)


cdef inline bint is_action(const Tables* t, uint8_t code) noexcept nogil:
    return (code < A_KNOWN or code == A_NONE or code == A_LAST
            or (code >= A_OTHER and <size_t> (code - A_OTHER) < t.other_actions.len))


cdef inline bint is_event(const Tables* t, const EventColumns* c, uint64_t i) noexcept nogil:
    return (is_action(t, c.action[i]) and is_size(c.size[i]) and is_pool(t, c.pool[i])
            and is_text_or_none(t, c.compile_context[i])
            and is_text_or_none(t, c.user_metadata[i]))


cdef inline bint is_segment(const Tables* t, const SegmentColumns* c, uint64_t i) noexcept nogil:
    return (is_size(c.total[i]) and is_size(c.allocated[i]) and is_size(c.active[i])
            and is_size(c.requested[i]) and is_text(t, c.kind[i]) and is_pool(t, c.pool[i])
            and (c.device[i] == -1 or 0 <= c.device[i] < <int64_t> t.max_devices))


cdef inline bint is_block(const Tables* t, const BlockColumns* c, uint64_t i,
                          uint32_t last) noexcept nogil:
    # `last` is the previous block's segment.
    return (is_size(c.size[i]) and is_size(c.requested[i]) and c.state[i] < STATES
            and last <= c.segment[i] < t.segments.len)


# --- rows -----------------------------------------------------------------------------------------

cdef uint64_t add_events(Tables* t, const EventColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil:
    # Add events to the last trace.
    cdef Trace* trace = <Trace*> t.traces.data + t.traces.len - 1
    cdef Event e
    cdef uint64_t i
    for i in range(n):
        if c.stack[i] >= stacks or not is_event(t, c, i):
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
        e.carried = False
        e.has_device_free = c.has_device_free[i]
        e.device_free = c.device_free[i]
        if push_event(t, &e) != OK:
            return i
        trace.count += 1
        t.attached_events += 1
    return ALL_FIT


cdef uint64_t add_carried(Tables* t, uint64_t address, int64_t size, int64_t time) noexcept nogil:
    # Add an allocation that was live before the last trace's events. As in a slice, the allocation
    # isn't an event of the trace and has no index.
    cdef Event e
    cdef Trace* trace = <Trace*> t.traces.data + t.traces.len - 1
    if not is_size(size):
        return 0
    event_clear(&e)
    e.action = A_ALLOC
    e.address = address
    e.size = size
    e.time = time
    e.carried = True
    if push_event(t, &e) == OK:
        t.read_events -= 1
        if trace.window != NULL:
            trace.window.index -= 1
    return ALL_FIT


cdef uint64_t add_segments(Tables* t, const SegmentColumns* c, uint64_t n,
                           const uint32_t* stack_of, uint64_t stacks) noexcept nogil:
    cdef Segment* s
    cdef uint32_t row = 0
    cdef uint64_t i
    for i in range(n):
        if (c.stack[i] >= stacks or not is_segment(t, c, i)
                or open_row(t, &t.segments, "rows of segments", &row) != OK):
            return i
        s = <Segment*> t.segments.data + row
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
        t.attached_segments += 1
    return ALL_FIT


cdef uint64_t add_blocks(Tables* t, const BlockColumns* c, uint64_t n, const uint32_t* stack_of,
                         uint64_t stacks) noexcept nogil:
    # Add blocks of existing segments, ordered by segment.
    cdef Block* b
    cdef uint32_t row = 0
    cdef uint32_t last = 0
    cdef uint64_t i
    if t.blocks.len:
        last = (<Block*> t.blocks.data)[t.blocks.len - 1].segment
    for i in range(n):
        if (c.stack[i] >= stacks or not is_block(t, c, i, last)
                or open_row(t, &t.blocks, "rows of blocks", &row) != OK):
            return i
        last = c.segment[i]
        b = <Block*> t.blocks.data + row
        b.segment = last
        b.address = c.address[i]
        b.size = c.size[i]
        b.requested = c.requested[i]
        b.state = c.state[i]
        b.stack = stack_of[c.stack[i]]
        b.flags = HAS_ADDRESS | HAS_FRAMES
        if c.has_requested[i]:
            b.flags |= HAS_REQUESTED
        t.attached_blocks += 1
    return ALL_FIT


cdef uint64_t add_annotations(Tables* t, const AnnotationColumns* c, uint64_t n) noexcept nogil:
    cdef Annotation* a
    cdef uint32_t row = 0
    cdef uint64_t i
    for i in range(n):
        if (not is_text(t, c.stage[i]) or not is_text(t, c.name[i])
                or open_row(t, &t.annotations, "rows of annotations", &row) != OK):
            return i
        a = <Annotation*> t.annotations.data + row
        a.device = c.device[i]
        a.time = c.time[i]
        a.stage = c.stage[i]
        a.name = c.name[i]
        t.attached_annotations += 1
    return ALL_FIT


# --- what rows refer to ---------------------------------------------------------------------------

cdef int add_spans(Spans* to, const Spans* found, Buf* ids) noexcept nogil:
    # Fill `ids` (u32) with the id of each span. Returns -1 when out of memory.
    cdef uint32_t i, id
    cdef size_t n = 0
    cdef const void* p
    for i in range(spans_len(found)):
        p = span_at(found, i, &n)
        id = spans_intern(to, p, n)
        if id == NONE32 or push_u32(ids, id) < 0:
            return -1
    return 0


cdef int add_frames(Tables* t, const Tables* other, const uint32_t* texts, Buf* ids) noexcept nogil:
    cdef const FrameKey* from_ = <const FrameKey*> other.frames.data.data
    cdef FrameKey f
    cdef uint32_t i, id
    for i in range(spans_len(&other.frames)):
        f = from_[i]
        f.name = texts[f.name]
        f.file = texts[f.file]
        f.fx_op = texts[f.fx_op]
        f.fx_name = texts[f.fx_name]
        f.fx_target = texts[f.fx_target]
        f.fx_trace = texts[f.fx_trace]
        id = spans_intern(&t.frames, &f, sizeof(f))
        if id == NONE32 or push_u32(ids, id) < 0:
            return -1
    return 0


cdef int add_stacks(Tables* t, const Tables* other, const uint32_t* frames,
                    Buf* ids) noexcept nogil:
    cdef Buf made
    cdef const uint32_t* p
    cdef size_t n = 0
    cdef uint32_t i, k, id
    cdef int code = 0
    buf_init(&made, 4)
    for i in range(spans_len(&other.stacks)):
        p = <const uint32_t*> span_at(&other.stacks, i, &n)
        made.len = 0
        for k in range(<uint32_t> (n // 4)):
            if push_u32(&made, frames[p[k]]) < 0:
                code = -1
        if code < 0:
            break
        id = spans_intern(&t.stacks, made.data, made.len * 4)
        if id == NONE32 or push_u32(ids, id) < 0:
            code = -1
            break
    buf_free(&made)
    return code


cdef int add_code(Tables* t, const Tables* other, Buf* texts, Buf* pools, Buf* frames,
                  Buf* stacks) noexcept nogil:
    # Add another table's strings, pools, frames and stacks, and fill the buffers (u32) with their
    # new ids. Returns -1 when out of memory.
    if (add_spans(&t.strings, &other.strings, texts) < 0
            or add_spans(&t.pairs, &other.pairs, pools) < 0
            or add_frames(t, other, <const uint32_t*> texts.data, frames) < 0):
        return -1
    return add_stacks(t, other, <const uint32_t*> frames.data, stacks)
