"""Write a slice as a pickle of protocol 4, straight from columns.

Strings, frames, stacks and pool ids are written once and later referred to by GETs; nothing else is
memoised. Lists are written in batches of a thousand items, and opcodes in frames of about 64 KiB,
as in Python's pickler. The same rows always produce the same bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strlen
from memreplay.engine.write.excerpt cimport Excerpt, Leading
from memreplay.engine.write.keeping cimport Pair, keeping_put
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, spans_len
from memreplay.engine.base.interned cimport interned, interned_ids, interned_pair
from memreplay.engine.write.json_values cimport put_json
from memreplay.engine.read.keys cimport (
    K_ACTION, K_ACTIVE_SIZE, K_ADDR, K_ADDRESS, K_ALLOCATED_SIZE, K_BLOCKS, K_CARRIED,
    K_COMPILE_CONTEXT, K_DEVICE, K_DEVICE_FREE, K_DEVICE_TRACES, K_EXTERNAL_ANNOTATIONS, K_FILENAME,
    K_FRAMES, K_FX_NODE_NAME, K_FX_NODE_OP, K_FX_NODE_TARGET, K_FX_ORIGINAL_TRACE, K_IS_EXPANDABLE,
    K_LINE, K_NAME, K_POOL_ID, K_REQUESTED_SIZE, K_SEGMENTS, K_SEGMENT_POOL_ID, K_SEGMENT_TYPE,
    K_SIZE, K_STAGE, K_STATE, K_STREAM, K_TIME_US, K_TOTAL_SIZE, K_USER_METADATA, S_ACTION, S_STATE,
)
from memreplay.engine.write.opcode cimport (
    FRAME_SIZE, close_frame, open_frame, put_get, put_int, put_little, put_op, put_uint,
    put_unicode,
)
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.base.status cimport DONE, ERR_MEMORY, NEED_MORE
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, A_KNOWN, A_NONE, A_OTHER, Annotation, Block, EXPANDABLE, FrameKey, HAS_HISTORY,
    HAS_REQUESTED, STATE_ACTIVE_ALLOCATED, STATE_INACTIVE, STATE_UNKNOWN, Segment,
)
from memreplay.engine.read.opcodes cimport (
    APPENDS, EMPTY_DICT, EMPTY_LIST, MARK, MEMOIZE, NEWFALSE, NEWTRUE, NONE, PROTO, SETITEMS, STOP,
    TUPLE2,
)
from memreplay.engine.read.sparse cimport sparse_at

cdef enum:
    BATCH = 1000       # items per APPENDS

cdef enum Stage:
    W_HEAD = 0
    W_SEGMENTS = 1
    W_TRACES = 2
    W_LEADING = 3
    W_EVENTS = 4
    W_ANNOTATIONS = 5
    W_VALUES = 6
    W_COPIES = 7
    W_END = 8


cdef int known_init(Buf* b, size_t n) noexcept nogil:
    buf_init(b, 4)
    if buf_reserve(b, n + 1) < 0:
        return -1
    memset(b.data, 0, (n + 1) * 4)
    return 0


cdef int pickling_init(Pickling* p, const Tables* t, const Spans* spans,
                       const uint32_t* stacks) noexcept nogil:
    memset(p, 0, sizeof(Pickling))
    p.tables = t
    p.spans = spans
    p.stacks = stacks
    buf_init(&p.out.b, 1)
    buf_init(&p.excerpts, sizeof(void*))
    buf_init(&p.annotations, 4)
    buf_init(&p.texts, 1)
    buf_init(&p.keys, 8)
    buf_init(&p.copied, sizeof(Pair))
    if (known_init(&p.strings, spans_len(&t.strings)) < 0
            or known_init(&p.frames, spans_len(&t.frames)) < 0
            or known_init(&p.lists, spans_len(spans)) < 0
            or known_init(&p.pools, spans_len(&t.pairs)) < 0):
        return ERR_MEMORY
    return 0


cdef void pickling_free(Pickling* p) noexcept nogil:
    buf_free(&p.out.b)
    buf_free(&p.excerpts)
    buf_free(&p.annotations)
    buf_free(&p.texts)
    buf_free(&p.keys)
    buf_free(&p.copied)
    buf_free(&p.strings)
    buf_free(&p.frames)
    buf_free(&p.lists)
    buf_free(&p.pools)


# --- values written once --------------------------------------------------------------------------

cdef inline bint got(Pickling* p, uint32_t* index) noexcept nogil:
    # If this item was written before, write a GET and return True; otherwise, the item is memoised
    # next.
    if index[0]:
        put_get(&p.out, index[0] - 1)
        return True
    return False


cdef inline void memoise(Pickling* p, uint32_t* index) noexcept nogil:
    put_op(&p.out, MEMOIZE)
    p.memoised += 1
    index[0] = p.memoised


cdef void put_word(Pickling* p, const char* text, uint32_t* index) noexcept nogil:
    if not got(p, index):
        put_unicode(&p.out, <const uint8_t*> text, strlen(text), 4)
        memoise(p, index)


cdef inline void put_string(Pickling* p, uint32_t id) noexcept nogil:
    # Write a string, or None.
    cdef uint32_t* index = <uint32_t*> p.strings.data
    cdef size_t n = 0
    cdef const uint8_t* text
    if id >= spans_len(&p.tables.strings):
        put_op(&p.out, NONE)
        return
    index += id
    if not got(p, index):
        text = interned(&p.tables.strings, id, &n)
        put_unicode(&p.out, text, n, 4)
        memoise(p, index)


cdef inline void put_frame(Pickling* p, uint32_t id) noexcept nogil:
    cdef const FrameKey* f = <const FrameKey*> p.tables.frames.data.data + id
    cdef uint32_t* index = <uint32_t*> p.frames.data + id
    if got(p, index):
        return
    put_op(&p.out, EMPTY_DICT)
    memoise(p, index)
    put_op(&p.out, MARK)
    put_string(p, K_FILENAME)
    put_string(p, f.file)
    put_string(p, K_LINE)
    put_int(&p.out, f.line)
    put_string(p, K_NAME)
    put_string(p, f.name)
    if f.fx_op:
        put_string(p, K_FX_NODE_OP)
        put_string(p, f.fx_op)
    if f.fx_name:
        put_string(p, K_FX_NODE_NAME)
        put_string(p, f.fx_name)
    if f.fx_target:
        put_string(p, K_FX_NODE_TARGET)
        put_string(p, f.fx_target)
    if f.fx_trace:
        put_string(p, K_FX_ORIGINAL_TRACE)
        put_string(p, f.fx_trace)
    put_op(&p.out, SETITEMS)


cdef void put_frames(Pickling* p, uint32_t stack) noexcept nogil:
    # frames: [...]
    cdef uint32_t id = stack if p.stacks == NULL else p.stacks[stack]
    cdef uint32_t* index = <uint32_t*> p.lists.data + id
    cdef const uint32_t* frames
    cdef size_t n = 0
    cdef size_t i
    put_string(p, K_FRAMES)
    if got(p, index):
        return
    frames = interned_ids(p.spans, id, &n)
    put_op(&p.out, EMPTY_LIST)
    memoise(p, index)
    for i in range(n):
        if i % BATCH == 0:
            put_op(&p.out, MARK)
        put_frame(p, frames[i])
        if i % BATCH == BATCH - 1 or i == n - 1:
            put_op(&p.out, APPENDS)


cdef void put_pool(Pickling* p, uint32_t key, uint32_t pool) noexcept nogil:
    cdef uint32_t* index = <uint32_t*> p.pools.data
    cdef const int64_t* pair = interned_pair(&p.tables.pairs, pool)
    if pair == NULL:
        return
    put_string(p, key)
    index += pool
    if got(p, index):
        return
    put_int(&p.out, pair[0])
    put_int(&p.out, pair[1])
    put_op(&p.out, TUPLE2)
    memoise(p, index)


cdef void put_metadata(Pickling* p, uint32_t key, uint32_t id) noexcept nogil:
    # Write a string, or the value of JSON that is stored after a NUL byte (see metadata.pyx).
    cdef size_t n = 0
    cdef const uint8_t* text
    if id == NONE32:
        return
    put_string(p, key)
    text = interned(&p.tables.strings, id, &n)
    if n == 0 or text[0] != 0:
        put_string(p, id)
    elif put_json(&p.out, text + 1, n - 1) < 0:
        put_op(&p.out, NONE)


cdef inline void put_number(Pickling* p, uint32_t key, int64_t v) noexcept nogil:
    put_string(p, key)
    put_int(&p.out, v)


cdef inline void put_address(Pickling* p, uint32_t key, uint64_t v) noexcept nogil:
    put_string(p, key)
    put_uint(&p.out, v)


# --- rows -----------------------------------------------------------------------------------------

cdef void put_block(Pickling* p, const Block* b) noexcept nogil:
    put_op(&p.out, EMPTY_DICT)
    put_op(&p.out, MARK)
    put_address(p, K_ADDRESS, b.address)
    put_number(p, K_SIZE, b.size)
    if b.flags & (HAS_REQUESTED | HAS_HISTORY):
        put_number(p, K_REQUESTED_SIZE, b.requested)
    put_string(p, K_STATE)
    # As in the reader, an unknown state counts as active.
    put_string(p, S_STATE + (b.state if b.state != STATE_UNKNOWN else STATE_ACTIVE_ALLOCATED)
               - STATE_INACTIVE)
    put_frames(p, b.stack)
    put_op(&p.out, SETITEMS)


cdef uint64_t put_segment(Pickling* p, const Excerpt* x, uint64_t row,
                          uint64_t first) noexcept nogil:
    # Write a segment with its blocks, from `first` on. Returns the end of these blocks.
    cdef const Segment* s = <const Segment*> x.segments.data + row
    cdef const Block* b = <const Block*> x.blocks.data
    cdef uint64_t i = first
    put_op(&p.out, EMPTY_DICT)
    put_op(&p.out, MARK)
    put_number(p, K_DEVICE, s.device)
    put_address(p, K_ADDRESS, s.address)
    put_number(p, K_TOTAL_SIZE, s.total_size)
    put_number(p, K_ALLOCATED_SIZE, s.allocated_size)
    put_number(p, K_ACTIVE_SIZE, s.active_size)
    if s.flags & HAS_REQUESTED:
        put_number(p, K_REQUESTED_SIZE, s.requested_size)
    put_address(p, K_STREAM, s.stream)
    put_string(p, K_SEGMENT_TYPE)
    if s.kind == KIND_SMALL:
        put_word(p, b"small", &p.small)
    elif s.kind == KIND_LARGE:
        put_word(p, b"large", &p.large)
    else:
        put_string(p, s.kind)
    put_pool(p, K_SEGMENT_POOL_ID, s.pool)
    put_string(p, K_IS_EXPANDABLE)
    put_op(&p.out, NEWTRUE if s.flags & EXPANDABLE else NEWFALSE)
    put_frames(p, s.stack)
    put_string(p, K_BLOCKS)
    put_op(&p.out, EMPTY_LIST)
    while i < x.blocks.len and b[i].segment == row:
        if (i - first) % BATCH == 0:
            put_op(&p.out, MARK)
        put_block(p, &b[i])
        i += 1
        if (i - first) % BATCH == 0 or i == x.blocks.len or b[i].segment != row:
            put_op(&p.out, APPENDS)
    put_op(&p.out, SETITEMS)
    return i


cdef void put_leading(Pickling* p, const Leading* l, int64_t time) noexcept nogil:
    put_op(&p.out, EMPTY_DICT)
    put_op(&p.out, MARK)
    put_string(p, K_ACTION)
    put_string(p, S_ACTION + l.action)
    put_address(p, K_ADDR, l.address)
    put_number(p, K_SIZE, l.size)
    put_address(p, K_STREAM, l.stream)
    if time != ABSENT_TIME:
        put_number(p, K_TIME_US, time)
    put_pool(p, K_POOL_ID, l.pool)
    put_frames(p, l.stack)
    put_string(p, K_CARRIED)
    put_op(&p.out, NEWTRUE)
    put_op(&p.out, SETITEMS)


cdef void put_action(Pickling* p, uint8_t code) noexcept nogil:
    cdef const Tables* t = p.tables
    if code == A_NONE:
        return
    put_string(p, K_ACTION)
    if code < A_KNOWN:
        put_string(p, S_ACTION + code)
    elif code - A_OTHER < <int> t.other_actions.len and code >= A_OTHER:
        put_string(p, (<const uint32_t*> t.other_actions.data)[code - A_OTHER])
    else:
        put_unicode(&p.out, b"other", 5, 4)


cdef void put_event(Pickling* p, uint64_t row) noexcept nogil:
    cdef const Tables* t = p.tables
    cdef int64_t time = <int64_t> sparse_at(&t.time, row)
    cdef uint64_t address = (<const uint64_t*> t.address.data)[row]
    cdef bint oom = False
    put_op(&p.out, EMPTY_DICT)
    put_op(&p.out, MARK)
    put_action(p, (<const uint8_t*> t.action.data)[row])
    while p.oom < t.oom_event.len and (<const uint32_t*> t.oom_event.data)[p.oom] < row:
        p.oom += 1
    if p.oom < t.oom_event.len and (<const uint32_t*> t.oom_event.data)[p.oom] == row:
        # The device's free bytes replace the address.
        put_number(p, K_DEVICE_FREE, (<const int64_t*> t.oom_free.data)[p.oom])
        oom = True
    if address or not oom:
        put_address(p, K_ADDR, address)
    put_number(p, K_SIZE, (<const int64_t*> t.size.data)[row])
    put_address(p, K_STREAM, sparse_at(&t.stream, row))
    if time != ABSENT_TIME:
        put_number(p, K_TIME_US, time)
    put_metadata(p, K_COMPILE_CONTEXT, <uint32_t> sparse_at(&t.compile_context, row))
    put_metadata(p, K_USER_METADATA, <uint32_t> sparse_at(&t.user_metadata, row))
    put_pool(p, K_POOL_ID, <uint32_t> sparse_at(&t.pool, row))
    put_frames(p, (<const uint32_t*> t.stack.data)[row])
    put_op(&p.out, SETITEMS)


cdef void put_annotation(Pickling* p, uint32_t row) noexcept nogil:
    cdef const Annotation* a = <const Annotation*> p.tables.annotations.data + row
    put_op(&p.out, EMPTY_DICT)
    put_op(&p.out, MARK)
    put_string(p, K_NAME)
    put_string(p, a.name)
    put_string(p, K_STAGE)
    put_string(p, a.stage)
    put_number(p, K_DEVICE, a.device)
    if a.time != ABSENT_TIME:
        put_number(p, K_TIME_US, a.time)
    put_op(&p.out, SETITEMS)


# --- entry points ---------------------------------------------------------------------------------

cdef void open_items(Pickling* p) noexcept nogil:
    put_op(&p.out, EMPTY_LIST)
    put_op(&p.out, MARK)
    p.items = 0


cdef inline void next_item(Pickling* p) noexcept nogil:
    if p.items == BATCH:
        put_op(&p.out, APPENDS)
        put_op(&p.out, MARK)
        p.items = 0
    p.items += 1


cdef const Excerpt* excerpt_of(const Pickling* p, uint64_t device) noexcept nogil:
    cdef const Excerpt** x = <const Excerpt**> p.excerpts.data
    cdef uint64_t i
    for i in range(p.excerpts.len):
        if <uint64_t> x[i].replay.device == device and x[i].replay.device >= 0:
            return x[i]
    return NULL


cdef int64_t first_time(const Excerpt* x) noexcept nogil:
    # Return the time for the leading events, which is the first time in the range.
    cdef const Replay* r
    cdef uint64_t i
    cdef int64_t time
    if x == NULL or x.leading.len == 0:
        return ABSENT_TIME
    r = x.replay
    for i in range(r.events):
        time = <int64_t> sparse_at(&r.tables.time, r.first + i)
        if time != ABSENT_TIME:
            return time
    return ABSENT_TIME


cdef void next_value(Pickling* p) noexcept nogil:
    # Write a key and its value from their JSON text.
    cdef const uint64_t* ends = <const uint64_t*> p.keys.data + 2 * p.at
    cdef uint64_t start = (ends - 1)[0] if p.at else 0
    cdef const uint8_t* text = <const uint8_t*> p.texts.data
    put_unicode(&p.out, text + start, ends[0] - start, 4)
    if put_json(&p.out, text + ends[0], ends[1] - ends[0]) < 0:
        put_op(&p.out, NONE)
    p.at += 1


cdef void next_copy(Pickling* p) noexcept nogil:
    # Copy a key and its value. This can't fail, because both were written once before.
    cdef const Pair* pair = <const Pair*> p.copied.data + p.at
    if keeping_put(p.kept, pair.key, pair.end, &p.out, &p.memoised) == ERR_MEMORY:
        p.out.failed = True
    p.at += 1


cdef void next_segment(Pickling* p) noexcept nogil:
    cdef const Excerpt** x = <const Excerpt**> p.excerpts.data
    if p.at < p.excerpts.len and p.row < x[p.at].segments.len:
        next_item(p)
        p.block = put_segment(p, x[p.at], p.row, p.block)
        p.row += 1
        return
    if p.at < p.excerpts.len:
        p.at += 1
        p.row = 0
        p.block = 0
        return
    put_op(&p.out, APPENDS)
    put_string(p, K_DEVICE_TRACES)
    put_op(&p.out, EMPTY_LIST)
    put_op(&p.out, MARK)
    p.stage = W_TRACES
    p.at = 0


cdef void next_row(Pickling* p) noexcept nogil:
    cdef const Excerpt* x = p.current
    if p.stage == W_HEAD:
        put_op(&p.out, EMPTY_DICT)
        put_op(&p.out, MARK)
        put_string(p, K_SEGMENTS)
        open_items(p)
        p.stage = W_SEGMENTS
    elif p.stage == W_SEGMENTS:
        next_segment(p)
    elif p.stage == W_TRACES:
        # There are at most 1,024 traces, so one batch is enough.
        if p.at < p.traces:
            open_items(p)
            p.stage = W_LEADING
            p.row = 0
            p.current = excerpt_of(p, p.at)
            p.time = first_time(p.current)
            return
        put_op(&p.out, APPENDS)
        p.stage = W_ANNOTATIONS
        p.row = 0
        if p.tables.has_annotations:
            put_string(p, K_EXTERNAL_ANNOTATIONS)
            open_items(p)
    elif p.stage == W_LEADING:
        if x != NULL and p.row < x.leading.len:
            next_item(p)
            put_leading(p, <const Leading*> x.leading.data + p.row, p.time)
            p.row += 1
            return
        p.stage = W_EVENTS
        p.row = 0
    elif p.stage == W_EVENTS:
        if x != NULL and p.row < x.replay.events:
            if (<const uint8_t*> x.keep.data)[p.row]:
                next_item(p)
                put_event(p, x.replay.first + p.row)
            p.row += 1
            return
        put_op(&p.out, APPENDS)
        p.stage = W_TRACES
        p.at += 1
    elif p.stage == W_ANNOTATIONS:
        if p.tables.has_annotations and p.row < p.annotations.len:
            next_item(p)
            put_annotation(p, (<const uint32_t*> p.annotations.data)[p.row])
            p.row += 1
            return
        if p.tables.has_annotations:
            put_op(&p.out, APPENDS)
        p.stage = W_VALUES
        p.at = 0
    elif p.stage == W_VALUES:
        if 2 * p.at < p.keys.len:
            next_value(p)
            return
        p.stage = W_COPIES
        p.at = 0
    elif p.at < p.copied.len:
        next_copy(p)
    else:
        put_op(&p.out, SETITEMS)
        put_op(&p.out, STOP)
        p.stage = W_END


cdef int pickling_step(Pickling* p, size_t chunk) noexcept nogil:
    # Write whole frames to `out` until it has a chunk (NEED_MORE) or everything is written (DONE).
    if p.out.failed:
        return ERR_MEMORY
    p.out.b.len = 0
    if p.stage == W_HEAD:
        put_op(&p.out, PROTO)
        put_little(&p.out, 4, 1)
    while p.out.b.len < chunk and p.stage != W_END:
        p.frame = open_frame(&p.out)
        while p.out.b.len - p.frame < FRAME_SIZE and p.stage != W_END and not p.out.failed:
            next_row(p)
        if p.out.failed:
            return ERR_MEMORY
        close_frame(&p.out, p.frame)
    return DONE if p.stage == W_END else NEED_MORE
