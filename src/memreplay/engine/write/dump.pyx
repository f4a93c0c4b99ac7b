"""Write each row of the tables as a line of text (`name=value`) or JSON.

Both formats have the same fields in the same order; only addresses and frames look different.

Strings and stacks are written only once, before (JSON) or after (text) the first row that refers to
them, so the output is at most a small multiple of the input.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.emit cimport (
    given, put_byte, put_escape, put_escaped, put_hex, put_i64, put_text, put_u64,
)
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, Spans, spans_len
from memreplay.engine.base.interned cimport interned, interned_ids, interned_pair
from memreplay.engine.read.keys cimport S_ACTION, S_STATE, key_name
from memreplay.engine.base.status cimport DONE, ERR_MEMORY, NEED_MORE
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, ALL_DEVICES, A_KNOWN, A_OTHER, Annotation, Block, EMPTY_STACK, EXPANDABLE,
    FrameKey, HAS_ADDRESS, HAS_HISTORY, HAS_REQUESTED, STATE_INACTIVE, STATE_UNKNOWN, Segment,
    Trace,
)
from memreplay.engine.read.sparse cimport sparse_at

cdef enum:
    CHUNK = 1 << 20     # bytes between checks for signals

# The tables in output order.
cdef enum Stage:
    D_SEGMENTS = 0
    D_BLOCKS = 1
    D_TRACES = 2
    D_EVENTS = 3
    D_ANNOTATIONS = 4
    D_END = 5


cdef int known_init(Buf* b, const Spans* spans) noexcept nogil:
    buf_init(b, 1)
    if buf_reserve(b, spans_len(spans)) < 0:
        return -1
    b.len = spans_len(spans)
    memset(b.data, 0, b.len)
    return 0


cdef int dump_init(Dump* d, const Tables* t, bint ndjson) noexcept nogil:
    memset(d, 0, sizeof(Dump))
    d.tables = t
    d.ndjson = ndjson
    buf_init(&d.out.b, 1)
    if (known_init(&d.known_stacks, &t.stacks) < 0 or known_init(&d.known_frames, &t.frames) < 0):
        return -1
    return 0


cdef void dump_free(Dump* d) noexcept nogil:
    buf_free(&d.out.b)
    buf_free(&d.known_stacks)
    buf_free(&d.known_frames)


# ---- rows and fields -----------------------------------------------------------------------------

cdef inline void open_line(Dump* d, const char* what, uint64_t number) noexcept nogil:
    # {"table":"events","event":17  or  event 17
    if d.ndjson:
        put_text(&d.out, b'{"table":"')
        put_text(&d.out, what)
        put_text(&d.out, b's","')
        put_text(&d.out, what)
        put_text(&d.out, b'":')
    else:
        put_text(&d.out, what)
        put_byte(&d.out, 32)
    put_u64(&d.out, number)


cdef inline void close_line(Dump* d) noexcept nogil:
    if d.ndjson:
        put_byte(&d.out, 125)
    put_byte(&d.out, 10)


cdef inline void put_name(Dump* d, const char* name) noexcept nogil:
    # ,"size":  or  size=
    if d.ndjson:
        put_text(&d.out, b',"')
        put_text(&d.out, name)
        put_text(&d.out, b'":')
    else:
        put_byte(&d.out, 32)
        put_text(&d.out, name)
        put_byte(&d.out, 61)


cdef inline void put_count(Dump* d, const char* name, uint64_t v) noexcept nogil:
    put_name(d, name)
    put_u64(&d.out, v)


cdef inline void put_number(Dump* d, const char* name, int64_t v) noexcept nogil:
    put_name(d, name)
    put_i64(&d.out, v)


cdef inline void put_address(Dump* d, const char* name, uint64_t v) noexcept nogil:
    put_name(d, name)
    if d.ndjson:
        put_u64(&d.out, v)
    else:
        put_hex(&d.out, v)


cdef inline void put_bool(Dump* d, const char* name, bint v) noexcept nogil:
    put_name(d, name)
    put_text(&d.out, b"true" if v else b"false")


cdef inline void put_pool(Dump* d, const char* name, uint32_t pair) noexcept nogil:
    # Write [0,0], or nothing if there is no pool.
    cdef const int64_t* p = interned_pair(&d.tables.pairs, pair)
    if p == NULL:
        return
    put_name(d, name)
    put_byte(&d.out, 91)
    put_i64(&d.out, p[0])
    put_byte(&d.out, 44)
    put_i64(&d.out, p[1])
    put_byte(&d.out, 93)


cdef inline void put_plain(Dump* d, uint32_t id) noexcept nogil:
    # Without quotes.
    cdef size_t n = 0
    cdef const uint8_t* p = interned(&d.tables.strings, id, &n)
    put_escaped(&d.out, p, n, False)


cdef inline void put_string(Dump* d, const char* name, uint32_t id) noexcept nogil:
    if id == NONE32:
        return
    put_name(d, name)
    put_byte(&d.out, 34)
    put_plain(d, id)
    put_byte(&d.out, 34)


cdef inline void put_metadata(Dump* d, const char* name, uint32_t id) noexcept nogil:
    # Write text, or JSON that is stored after a NUL byte (see metadata.pyx).
    cdef size_t n = 0
    cdef const uint8_t* p
    if id == NONE32:
        return
    p = interned(&d.tables.strings, id, &n)
    if n == 0 or p[0] != 0:
        put_string(d, name, id)
        return
    put_name(d, name)
    put_escaped(&d.out, p + 1, n - 1, True)


cdef inline void put_word(Dump* d, const char* name, const char* word) noexcept nogil:
    # Write one of PyTorch's own names, which need no quotes in text.
    put_name(d, name)
    if d.ndjson:
        put_byte(&d.out, 34)
    put_text(&d.out, word)
    if d.ndjson:
        put_byte(&d.out, 34)


# ---- stacks and frames, written when first used --------------------------------------------------

cdef void put_fx(Dump* d, const char* name, uint32_t id) noexcept nogil:
    if id != 0:
        put_string(d, name, id)


cdef void put_frame_line(Dump* d, uint32_t id) noexcept nogil:
    cdef const FrameKey* f = <const FrameKey*> d.tables.frames.data.data + id
    open_line(d, b"frame", id)
    put_string(d, b"name", f.name)
    put_string(d, b"filename", f.file)
    put_number(d, b"line", f.line)
    put_fx(d, b"fx_node_op", f.fx_op)
    put_fx(d, b"fx_node_name", f.fx_name)
    put_fx(d, b"fx_node_target", f.fx_target)
    put_fx(d, b"fx_original_trace", f.fx_trace)
    close_line(d)


cdef bint put_first(Dump* d, uint32_t id) noexcept nogil:
    # Like put_plain, for the start of a line, at which CI runners execute ::name::, even after
    # spaces. So the first of two colons is escaped. Returns whether anything was written.
    cdef size_t n = 0
    cdef size_t i = 0
    cdef const uint8_t* p = interned(&d.tables.strings, id, &n)
    while i < n and p[i] == 32:
        i += 1
    put_escaped(&d.out, p, i, False)
    if i + 1 < n and p[i] == 58 and p[i + 1] == 58:
        put_escape(&d.out, 58)
        put_escaped(&d.out, p + i + 1, n - i - 1, False)
    else:
        put_escaped(&d.out, p + i, n - i, False)
    return i < n


cdef void put_frame_text(Dump* d, uint32_t id) noexcept nogil:
    #   forward /home/ana/gpt/model.py:72
    cdef const FrameKey* f = <const FrameKey*> d.tables.frames.data.data + id
    put_text(&d.out, b"  ")
    if put_first(d, f.name):
        put_byte(&d.out, 32)
        put_plain(d, f.file)
    else:
        put_byte(&d.out, 32)
        put_first(d, f.file)
    put_byte(&d.out, 58)
    put_i64(&d.out, f.line)
    put_byte(&d.out, 10)


cdef void put_stack_line(Dump* d, uint32_t id, const uint32_t* frames, size_t n) noexcept nogil:
    cdef size_t i
    for i in range(n):
        if not d.known_frames.data[frames[i]]:
            d.known_frames.data[frames[i]] = 1
            put_frame_line(d, frames[i])
    open_line(d, b"stack", id)
    put_name(d, b"frames")
    put_byte(&d.out, 91)
    for i in range(n):
        if i:
            put_byte(&d.out, 44)
        put_u64(&d.out, frames[i])
    put_byte(&d.out, 93)
    close_line(d)


cdef void show_stack(Dump* d, uint32_t id) noexcept nogil:
    # Write a stack's lines, unless they were already written.
    cdef size_t i
    cdef size_t n = 0
    cdef const uint32_t* frames
    if id == EMPTY_STACK or d.known_stacks.data[id]:
        return
    d.known_stacks.data[id] = 1
    frames = interned_ids(&d.tables.stacks, id, &n)
    if d.ndjson:
        put_stack_line(d, id, frames, n)
        return
    for i in range(n):
        put_frame_text(d, frames[i])


# ---- the tables ----------------------------------------------------------------------------------

cdef inline bint is_wanted(const Dump* d, int32_t device) noexcept nogil:
    return (not d.tables.range.on or d.tables.range.device == device
            or d.tables.range.device == ALL_DEVICES)


cdef void put_segment(Dump* d, uint64_t row) noexcept nogil:
    cdef const Segment* s = <const Segment*> d.tables.segments.data + row
    if not is_wanted(d, s.device):
        return
    if d.ndjson:
        show_stack(d, s.stack)
    open_line(d, b"segment", row)
    put_number(d, b"device", s.device)
    put_address(d, b"address", s.address)
    put_number(d, b"total_size", s.total_size)
    put_number(d, b"allocated_size", s.allocated_size)
    put_number(d, b"active_size", s.active_size)
    if s.flags & HAS_REQUESTED:
        put_number(d, b"requested_size", s.requested_size)
    put_count(d, b"stream", s.stream)
    put_string(d, b"segment_type", s.kind)
    put_pool(d, b"segment_pool_id", s.pool)
    put_bool(d, b"is_expandable", s.flags & EXPANDABLE != 0)
    put_count(d, b"stack", s.stack)
    close_line(d)
    if not d.ndjson:
        show_stack(d, s.stack)


cdef void put_block(Dump* d, uint64_t row) noexcept nogil:
    cdef const Block* b = <const Block*> d.tables.blocks.data + row
    if not is_wanted(d, (<const Segment*> d.tables.segments.data)[b.segment].device):
        return
    if d.ndjson:
        show_stack(d, b.stack)
    open_line(d, b"block", row)
    put_count(d, b"segment", b.segment)
    put_address(d, b"address", b.address)
    if not b.flags & HAS_ADDRESS:
        put_bool(d, b"address_given", False)
    put_number(d, b"size", b.size)
    if b.flags & HAS_REQUESTED:
        put_number(d, b"requested_size", b.requested)
    elif b.flags & HAS_HISTORY:
        put_number(d, b"real_size", b.requested)
    if b.state == STATE_UNKNOWN:
        put_word(d, b"state", b"unknown")
    else:
        put_word(d, b"state", key_name(S_STATE + b.state - STATE_INACTIVE))
    put_count(d, b"stack", b.stack)
    close_line(d)
    if not d.ndjson:
        show_stack(d, b.stack)


cdef void put_trace(Dump* d, uint64_t row) noexcept nogil:
    cdef const Trace* trace = <const Trace*> d.tables.traces.data + row
    open_line(d, b"trace", row)
    put_number(d, b"device", trace.device)
    put_count(d, b"events", trace.count)
    if trace.window != NULL:
        put_count(d, b"first_event", trace.base)
        put_count(d, b"events_read", trace.rows)
    close_line(d)


cdef void put_action(Dump* d, uint8_t code) noexcept nogil:
    cdef const Tables* t = d.tables
    if code < A_KNOWN:
        put_word(d, b"action", key_name(S_ACTION + code))
    elif code >= A_OTHER:
        if code - A_OTHER < <int> t.other_actions.len:
            put_string(d, b"action", (<const uint32_t*> t.other_actions.data)[code - A_OTHER])
        else:
            put_word(d, b"action", b"other")


cdef void put_event(Dump* d, const Trace* trace, uint64_t row) noexcept nogil:
    cdef const Tables* t = d.tables
    cdef uint32_t stack = (<const uint32_t*> t.stack.data)[row]
    cdef int64_t time = <int64_t> sparse_at(&t.time, row)
    if d.ndjson:
        show_stack(d, stack)
    open_line(d, b"event", trace.base + (row - trace.first))
    put_number(d, b"device", trace.device)
    put_action(d, (<const uint8_t*> t.action.data)[row])
    put_address(d, b"addr", (<const uint64_t*> t.address.data)[row])
    put_number(d, b"size", (<const int64_t*> t.size.data)[row])
    put_count(d, b"stream", sparse_at(&t.stream, row))
    if time != ABSENT_TIME:
        put_number(d, b"time_us", time)
    put_count(d, b"stack", stack)
    put_metadata(d, b"compile_context", <uint32_t> sparse_at(&t.compile_context, row))
    put_metadata(d, b"user_metadata", <uint32_t> sparse_at(&t.user_metadata, row))
    put_pool(d, b"pool_id", <uint32_t> sparse_at(&t.pool, row))
    if d.oom < t.oom_event.len and (<const uint32_t*> t.oom_event.data)[d.oom] == row:
        put_number(d, b"device_free", (<const int64_t*> t.oom_free.data)[d.oom])
        d.oom += 1
    close_line(d)
    if not d.ndjson:
        show_stack(d, stack)


cdef void put_annotation(Dump* d, uint64_t row) noexcept nogil:
    cdef const Annotation* a = <const Annotation*> d.tables.annotations.data + row
    if a.device >= 0 and not is_wanted(d, a.device):
        return
    open_line(d, b"annotation", row)
    put_number(d, b"device", a.device)
    put_string(d, b"name", a.name)
    put_string(d, b"stage", a.stage)
    if a.time != ABSENT_TIME:
        put_number(d, b"time_us", a.time)
    close_line(d)


cdef void next_row(Dump* d) noexcept nogil:
    # Write one more row, or go to the next stage. Each trace has its own line, followed by its
    # events.
    cdef const Tables* t = d.tables
    cdef const Trace* trace
    if d.stage == D_SEGMENTS:
        if d.row < t.segments.len:
            put_segment(d, d.row)
            d.row += 1
            return
    elif d.stage == D_BLOCKS:
        if d.row < t.blocks.len:
            put_block(d, d.row)
            d.row += 1
            return
    elif d.stage == D_TRACES:
        if d.trace == t.traces.len:
            d.stage = D_ANNOTATIONS
            return
        trace = <const Trace*> t.traces.data + d.trace
        # A trace that isn't in device_traces has no events.
        if trace.device >= 0 and is_wanted(d, trace.device):
            put_trace(d, d.trace)
            d.stage = D_EVENTS
            d.row = trace.first
            return
        d.trace += 1
        return
    elif d.stage == D_EVENTS:
        trace = <const Trace*> t.traces.data + d.trace
        if d.row < trace.first + trace.rows:
            put_event(d, trace, d.row)
            d.row += 1
            return
        d.trace += 1
        d.row = 0
        d.stage = D_TRACES
        return
    elif d.row < t.annotations.len:
        put_annotation(d, d.row)
        d.row += 1
        return
    d.stage += 1
    d.row = 0


cdef int dump_step(Dump* d, size_t chunk) noexcept nogil:
    # Write whole lines to `out` until it has a chunk (NEED_MORE) or everything is written (DONE). A
    # line may exceed a chunk.
    if d.out.failed:
        return ERR_MEMORY
    d.out.b.len = 0
    while d.out.b.len < chunk and d.stage != D_END:
        next_row(d)
        if d.out.failed:
            return ERR_MEMORY
    return DONE if d.stage == D_END else NEED_MORE


@cython.final
cdef class Lines:
    """An iterator over chunks of whole lines, as bytes."""

    def __init__(self):
        raise TypeError("use dump() to create Lines")

    def __dealloc__(self):
        dump_free(&self.d)

    def __iter__(self):
        return self

    def __next__(self):
        cdef int code
        if self.busy:
            raise ValueError("another thread is using this iterator")
        PyErr_CheckSignals()
        self.busy = True
        with nogil:
            code = dump_step(&self.d, CHUNK)
        self.busy = False
        if code == ERR_MEMORY:
            raise MemoryError("out of memory writing the dump")
        if self.d.out.b.len == 0:
            raise StopIteration
        return given(&self.d.out, self.d.out.b.len)


cdef Lines dump_lines(object owner, const Tables* t, bint ndjson):
    cdef Lines lines = Lines.__new__(Lines)
    lines.owner = owner
    if dump_init(&lines.d, t, ndjson) < 0:
        raise MemoryError("out of memory writing the dump")
    return lines
