# Open a container: create the row, scratch space or window that its role needs.
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, push_item, push_u64, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.parts cimport flush_frame, flush_list, is_placed, new_node
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_SHAPE, OK, fail, fail_limit
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, Annotation, Block, FrameKey, HAS_ENTRIES, OPENED_BLOCKS, Segment, Tables, Trace,
    event_clear, push_event,
)
from memreplay.engine.read.value cimport (
    V_ANNOTATION, V_ANNOTATIONS, V_BLOCK, V_BLOCKS, V_EVENT, V_FRAME, V_FRAMES, V_HIST, V_HISTORY,
    V_NODE_DICT, V_NODE_LIST, V_PAIR_LIST, V_SEGMENT, V_SEGMENTS, V_TRACE, V_TRACES, Value,
)
from memreplay.engine.read.window cimport window_free, window_new


cdef enum:
    ROWS_FREE = 32 << 20    # bytes of rows that even a small file may use


cdef inline int end_event(Tables* t) noexcept nogil:
    # Turn the event that is being read into a row.
    if t.open_event:
        t.open_event = False
        return push_event(t, &t.event)
    return OK


cdef inline int open_row(Tables* t, Buf* b, const char* what, uint32_t* idx) noexcept nogil:
    if b.len >= t.max_rows:
        return fail_limit(&t.status, what, b.len + 1, t.max_rows)
    idx[0] = <uint32_t> b.len
    if push_zeroed(b) < 0:
        return fail(&t.status, ERR_MEMORY, what)
    return OK


cdef inline int open_trace(Tables* t, int32_t place, int32_t device) noexcept nogil:
    # Begin the next trace. `device` is -1 if only its position is known yet.
    cdef Trace trace
    memset(&trace, 0, sizeof(Trace))
    trace.first = t.events
    trace.read_first = t.read_events
    trace.device = device
    trace.place = place
    if t.traces.len >= t.max_devices:
        return fail_limit(&t.status, "devices", t.traces.len + 1, t.max_devices)
    if t.range.on:
        trace.window = window_new(t, place)
        if trace.window == NULL:
            return fail(&t.status, ERR_MEMORY, "range")
    if push_item(&t.traces, &trace) < 0:
        window_free(trace.window)
        return fail(&t.status, ERR_MEMORY, "traces")
    return OK


cdef inline int drop_value(Tables* t, const Value* v) noexcept nogil:
    # Drop v, because it belongs to an unknown container. If v's rows aren't attached, its role was
    # guessed wrong, which is an error.
    if is_placed(t, v):
        return OK
    return fail(&t.status, ERR_SHAPE, "unknown data with only a key of the snapshot's own")


cdef inline int within_input(Tables* t, uint32_t role) noexcept nogil:
    # Rows take memory as soon as they are opened. A normal row takes about as many bytes as its
    # input. To refuse files full of empty rows, limit the bytes of rows to a fixed allowance plus
    # eight times the bytes read.
    cdef uint64_t rows
    if role != V_EVENT and role != V_SEGMENT and role != V_BLOCK and role != V_ANNOTATION:
        return OK
    rows = (t.events * 60 + t.segments.len * sizeof(Segment) + t.blocks.len * sizeof(Block)
            + t.annotations.len * sizeof(Annotation))
    if rows > ROWS_FREE and rows - ROWS_FREE > 8 * t.read_bytes:
        return fail_limit(&t.status, "bytes of rows", rows, ROWS_FREE + 8 * t.read_bytes)
    return OK


cdef inline int open_container(Tables* t, uint32_t role, uint32_t parent_idx,
                               Value* out) noexcept nogil:
    # Open an empty container of a role; parent_idx is the index of its parent.
    cdef Segment* seg
    cdef Block* block
    cdef Annotation* note
    cdef Trace* trace_at
    out.kind = role
    out.idx = 0
    out.num = 0
    if role == V_EVENT:
        if end_event(t) != OK:
            return t.status.code
        if parent_idx + 1 != t.traces.len:
            return fail(&t.status, ERR_SHAPE, "interleaved device traces")
        trace_at = <Trace*> t.traces.data + parent_idx
        if trace_at.device >= 0 and (trace_at.shared or trace_at.device != trace_at.place):
            return fail(&t.status, ERR_SHAPE, "a trace that changes after its use")
        if t.read_events >= t.max_rows:
            return fail_limit(&t.status, "rows of events", t.read_events + 1, t.max_rows)
        out.idx = <uint32_t> t.read_events
        event_clear(&t.event)
        t.open_event = True
        return OK
    if role == V_FRAME:
        if flush_frame(t) != OK:
            return t.status.code
        memset(&t.frame, 0, sizeof(FrameKey))
        if open_row(t, &t.frame_of, "rows of frames", &out.idx) != OK:
            return t.status.code
        t.frame_owner = out.idx
        return OK
    if role == V_FRAMES:
        if flush_list(t) != OK or open_row(t, &t.stack_of, "rows of stacks", &out.idx) != OK:
            return t.status.code
        t.list.len = 0
        t.list_owner = out.idx
        return OK
    if role == V_SEGMENT:
        if open_row(t, &t.segments, "rows of segments", &out.idx) != OK:
            return t.status.code
        seg = <Segment*> t.segments.data + out.idx
        seg.pool = NONE32
        return OK
    if role == V_BLOCK:
        if open_row(t, &t.blocks, "rows of blocks", &out.idx) != OK:
            return t.status.code
        block = <Block*> t.blocks.data + out.idx
        block.segment = parent_idx
        return OK
    if role == V_BLOCKS or role == V_HISTORY:
        out.idx = parent_idx
        if is_placed(t, out):
            return fail(&t.status, ERR_SHAPE, "'blocks' or 'history' twice")
        if role == V_BLOCKS:
            # A list that was opened before and then dropped has left rows behind.
            seg = <Segment*> t.segments.data + parent_idx
            if seg.flags & OPENED_BLOCKS:
                return fail(&t.status, ERR_SHAPE, "'blocks' or 'history' twice")
            seg.flags |= OPENED_BLOCKS
        return OK
    if role == V_HIST:
        out.idx = parent_idx
        if t.hist_block != parent_idx:
            block = <Block*> t.blocks.data + parent_idx
            if block.flags & HAS_ENTRIES:
                return fail(&t.status, ERR_SHAPE, "interleaved histories")
            block.flags |= HAS_ENTRIES
            t.hist_block = parent_idx
            t.hist_count = 0
        t.hist_count += 1
        t.read_history += 1
        # the entry's number; kept only on the stack, not in the memo
        out.num = t.hist_count
        return OK
    if role == V_TRACE:
        if end_event(t) != OK:
            return t.status.code
        out.idx = <uint32_t> t.traces.len
        return open_trace(t, <int32_t> parent_idx, -1)
    if role == V_ANNOTATION:
        if open_row(t, &t.annotations, "rows of annotations", &out.idx) != OK:
            return t.status.code
        note = <Annotation*> t.annotations.data + out.idx
        note.time = ABSENT_TIME
        note.device = -1
        return OK
    if role == V_NODE_LIST or role == V_NODE_DICT:
        out.idx = new_node(t, role, 0, 0, 0)
        return OK if out.idx != NONE32 else t.status.code
    if role == V_PAIR_LIST:
        out.idx = <uint32_t> (t.pair_of.len // 3)
        if (push_u64(&t.pair_of, 0) < 0 or push_u64(&t.pair_of, 0) < 0
                or push_u64(&t.pair_of, 0) < 0):
            return fail(&t.status, ERR_MEMORY, "pools")
        return OK
    if role == V_SEGMENTS:
        if t.saw_segments:
            return fail(&t.status, ERR_SHAPE, "'segments' twice")
        t.saw_segments = True
    elif role == V_TRACES:
        if t.saw_traces:
            return fail(&t.status, ERR_SHAPE, "'device_traces' twice")
        t.saw_traces = True
    elif role == V_ANNOTATIONS:
        if t.saw_annotations:
            return fail(&t.status, ERR_SHAPE, "'external_annotations' twice")
        t.saw_annotations = True
    return OK
