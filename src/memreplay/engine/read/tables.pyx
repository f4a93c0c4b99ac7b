"""Create, close and free the columns."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, buf_reserve, buf_trim, push_item, push_u32
)
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_init, spans_drop_index, spans_free, spans_init,
    spans_intern
)
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_SHAPE, OK, fail
from memreplay.engine.read.keys cimport keys_init
from memreplay.engine.read.parts cimport flush_frame, flush_list
from memreplay.engine.read.opening cimport end_event
from memreplay.engine.read.sparse cimport sparse_free, sparse_init, sparse_trim
from memreplay.engine.read.window cimport window_event, window_free, window_new


cdef void tables_init(Tables* t, uint64_t seed) noexcept nogil:
    # Set up empty tables. t.status is set when out of memory.
    memset(t, 0, sizeof(Tables))
    buf_init(&t.action, 1)
    buf_init(&t.address, 8)
    buf_init(&t.size, 8)
    buf_init(&t.stack, 4)
    sparse_init(&t.time, 8, <uint64_t> ABSENT_TIME, True)
    sparse_init(&t.stream, 8, 0, False)
    sparse_init(&t.compile_context, 4, NONE32, False)
    sparse_init(&t.user_metadata, 4, NONE32, False)
    sparse_init(&t.pool, 4, NONE32, False)
    buf_init(&t.oom_event, 4)
    buf_init(&t.oom_free, 8)
    buf_init(&t.traces, sizeof(Trace))
    buf_init(&t.other_actions, 4)
    buf_init(&t.segments, sizeof(Segment))
    buf_init(&t.blocks, sizeof(Block))
    buf_init(&t.annotations, sizeof(Annotation))
    buf_init(&t.device_rows, sizeof(DeviceRows))
    buf_init(&t.nodes, sizeof(Node))
    buf_init(&t.frame_of, 4)
    buf_init(&t.stack_of, 4)
    buf_init(&t.list, 4)
    buf_init(&t.unknown_dicts, 4)
    buf_init(&t.unknown_frames, sizeof(FrameKey))
    buf_init(&t.unknown_lists, sizeof(UnknownList))
    buf_init(&t.unknown_items, sizeof(UnknownItem))
    buf_init(&t.pair_of, 8)
    buf_init(&t.text, 1)
    buf_init(&t.found_names, 4)
    t.frame_owner = NONE32
    t.list_owner = NONE32
    t.hist_block = NONE32
    cdef FrameKey no_frame
    cdef UnknownList no_list
    memset(&no_frame, 0, sizeof(FrameKey))
    no_list.first = NONE32
    no_list.last = NONE32
    no_list.stack = NOT_FRAMES
    # Id 0 is the empty string, the frame without fields, and the stack without frames.
    if (spans_init(&t.strings, seed) < 0 or spans_init(&t.frames, seed + 1) < 0
            or spans_init(&t.stacks, seed + 2) < 0 or spans_init(&t.pairs, seed + 3) < 0
            or map64_init(&t.rows_at, seed + 4) < 0 or buf_reserve(&t.stacks.data, 64) < 0
            or spans_intern(&t.frames, &no_frame, sizeof(FrameKey)) != 0
            or spans_intern(&t.stacks, &no_frame, 0) != EMPTY_STACK
            or push_u32(&t.unknown_dicts, NONE32) < 0 or push_item(&t.unknown_lists, &no_list) < 0
            or push_item(&t.unknown_lists, &no_list) < 0
            or push_item(&t.unknown_frames, &no_frame) < 0):
        fail(&t.status, ERR_MEMORY, "tables")
        return
    keys_init(t)


cdef void tables_free(Tables* t) noexcept nogil:
    cdef uint64_t i
    buf_free(&t.action)
    buf_free(&t.address)
    buf_free(&t.size)
    buf_free(&t.stack)
    sparse_free(&t.time)
    sparse_free(&t.stream)
    sparse_free(&t.compile_context)
    sparse_free(&t.user_metadata)
    sparse_free(&t.pool)
    buf_free(&t.oom_event)
    buf_free(&t.oom_free)
    for i in range(t.traces.len):
        window_free((<Trace*> t.traces.data)[i].window)
    buf_free(&t.traces)
    buf_free(&t.other_actions)
    buf_free(&t.segments)
    buf_free(&t.blocks)
    buf_free(&t.annotations)
    buf_free(&t.device_rows)
    map64_free(&t.rows_at)
    spans_free(&t.strings)
    spans_free(&t.frames)
    spans_free(&t.stacks)
    spans_free(&t.pairs)
    buf_free(&t.nodes)
    buf_free(&t.found_names)
    tables_free_reading(t)


cdef void tables_free_reading(Tables* t) noexcept nogil:
    # Free everything that is only needed while reading.
    buf_free(&t.frame_of)
    buf_free(&t.stack_of)
    buf_free(&t.list)
    buf_free(&t.unknown_dicts)
    buf_free(&t.unknown_frames)
    buf_free(&t.unknown_lists)
    buf_free(&t.unknown_items)
    buf_free(&t.pair_of)
    buf_free(&t.text)


cdef void place_blocks(Tables* t) noexcept nogil:
    # PyTorch 2.0 blocks have no address, so compute it from the segment's address and the preceding
    # blocks' sizes.
    cdef Block* blocks = <Block*> t.blocks.data
    cdef Segment* segments = <Segment*> t.segments.data
    cdef uint64_t i
    cdef uint64_t at = 0
    cdef uint32_t segment = NONE32
    for i in range(t.blocks.len):
        if blocks[i].segment != segment:
            segment = blocks[i].segment
            at = segments[segment].address
        if blocks[i].flags & HAS_ADDRESS:
            at = blocks[i].address
        blocks[i].address = at
        at += <uint64_t> blocks[i].size


cdef int index_devices(Tables* t) noexcept nogil:
    # Fill device_rows.
    cdef const Segment* segments = <const Segment*> t.segments.data
    cdef const Block* blocks = <const Block*> t.blocks.data
    cdef DeviceRows rows
    cdef DeviceRows* found = NULL
    cdef Slot64* slot
    cdef int32_t device = 0
    cdef uint64_t i
    for i in range(t.segments.len):
        slot = map64_at(&t.rows_at, <uint64_t> segments[i].device, NONE32)
        if slot == NULL:
            return fail(&t.status, ERR_MEMORY, "segments")
        if slot.value == NONE32:
            slot.value = <uint32_t> t.device_rows.len
            rows.first_segment = i
            rows.first_block = t.blocks.len
            rows.end_block = t.blocks.len
            if push_item(&t.device_rows, &rows) < 0:
                return fail(&t.status, ERR_MEMORY, "segments")
        (<DeviceRows*> t.device_rows.data + slot.value).end_segment = i + 1
    for i in range(t.blocks.len):
        if found == NULL or segments[blocks[i].segment].device != device:
            device = segments[blocks[i].segment].device
            found = (<DeviceRows*> t.device_rows.data
                     + map64_get(&t.rows_at, <uint64_t> device, 0))
            if found.first_block == t.blocks.len:
                found.first_block = i
        found.end_block = i + 1
    return OK


cdef void tables_salvage(Tables* t) noexcept nogil:
    # Keep the complete rows from a truncated input, in a state that tables_finish() accepts. The
    # last row of each kind is dropped, because it may be incomplete.
    cdef Trace* trace
    cdef uint64_t i
    t.salvaged = True
    t.open_event = False
    if t.segments.len > t.attached_segments:
        t.segments.len -= 1
    while (t.blocks.len and
            (<Block*> t.blocks.data)[t.blocks.len - 1].segment >= t.segments.len):
        t.blocks.len -= 1
    if t.annotations.len > t.attached_annotations:
        t.annotations.len -= 1
    # A list is attached to its parent last, so count open lists as attached.
    for i in range(t.traces.len):
        trace = <Trace*> t.traces.data + i
        if i + 1 == t.traces.len:
            trace.count += t.read_events - t.attached_events
        if trace.device < 0:
            trace.device = trace.place
    t.attached_events = t.read_events
    t.attached_segments = t.segments.len
    t.attached_blocks = t.blocks.len
    t.attached_annotations = t.annotations.len
    t.attached_history = t.read_history
    t.has_segments = t.saw_segments
    t.has_traces = t.saw_traces
    t.has_annotations = t.saw_annotations


cdef int window_pass(Tables* t, const Event* e) noexcept nogil:
    # Return an event's phase; outside WINDOW_IN, record the event's effects.
    cdef Trace* trace = <Trace*> t.traces.data + t.traces.len - 1
    if trace.window == NULL:
        # A slice begins with events for carried-over allocations. Anywhere else, such events are
        # normal events.
        if not e.carried or trace.first != t.events:
            return WINDOW_IN
        trace.window = window_new(t, trace.place)
        if trace.window == NULL:
            fail(&t.status, ERR_MEMORY, "range")
            return BEFORE
        t.windowed = True
    return window_event(t, trace.window, e)


cdef int tables_finish(Tables* t) noexcept nogil:
    # Close everything that is open, and check that every row is attached. An error is in t.status.
    cdef Segment* segments
    cdef Block* blocks
    cdef Trace* trace
    cdef uint64_t i
    if end_event(t) != OK or flush_frame(t) != OK or flush_list(t) != OK:
        return t.status.code
    if t.attached_events != t.read_events:
        return fail(&t.status, ERR_SHAPE, "an event outside of the traces")
    if t.attached_segments != t.segments.len or t.attached_blocks != t.blocks.len:
        return fail(&t.status, ERR_SHAPE, "a segment or a block outside of its list")
    if t.attached_annotations != t.annotations.len:
        return fail(&t.status, ERR_SHAPE, "an annotation outside of its list")
    if t.attached_history != t.read_history:
        return fail(&t.status, ERR_SHAPE, "an entry outside of its 'history'")
    # A role is a guess until the container is set in its parent.
    if ((t.saw_segments and not t.has_segments) or (t.saw_traces and not t.has_traces)
            or (t.saw_annotations and not t.has_annotations)):
        return fail(&t.status, ERR_SHAPE, "a part of the snapshot outside of its place")
    segments = <Segment*> t.segments.data
    blocks = <Block*> t.blocks.data
    for i in range(t.traces.len):
        trace = <Trace*> t.traces.data + i
        if trace.count and trace.device < 0:
            return fail(&t.status, ERR_SHAPE, "a trace outside of its place")
    for i in range(t.blocks.len):
        if blocks[i].segment >= t.segments.len:
            return fail(&t.status, ERR_SHAPE, "a block of a segment that doesn't exist")
        if i and blocks[i].segment < blocks[i - 1].segment:
            return fail(&t.status, ERR_SHAPE, "blocks in a different order than their segments")
        if not segments[blocks[i].segment].flags & HAS_BLOCKS:
            return fail(&t.status, ERR_SHAPE, "'blocks' outside of its place")
        if blocks[i].flags & HAS_HISTORY and not blocks[i].flags & HAS_HISTORY_LIST:
            return fail(&t.status, ERR_SHAPE, "'history' outside of its place")
    for i in range(t.segments.len):
        if not segments[i].flags & HAS_ADDRESS or not segments[i].flags & HAS_TOTAL:
            return fail(&t.status, ERR_SHAPE, "a segment without 'address' or 'total_size'")
    for i in range(t.traces.len):
        trace = <Trace*> t.traces.data + i
        # A trace's rows end where the next trace's begin.
        if trace.window != NULL and trace.window.phase != BEFORE:
            trace.base = trace.window.begin
        elif trace.window != NULL:
            trace.base = trace.window.index
        trace.rows = (trace[1].first if i + 1 < t.traces.len else t.events) - trace.first
    place_blocks(t)
    if index_devices(t) != OK:
        return t.status.code
    tables_free_reading(t)
    buf_trim(&t.action)
    buf_trim(&t.address)
    buf_trim(&t.size)
    buf_trim(&t.stack)
    sparse_trim(&t.time)
    sparse_trim(&t.stream)
    sparse_trim(&t.compile_context)
    sparse_trim(&t.user_metadata)
    sparse_trim(&t.pool)
    spans_drop_index(&t.frames)
    spans_drop_index(&t.stacks)
    spans_drop_index(&t.strings)
    spans_drop_index(&t.pairs)
    return OK
