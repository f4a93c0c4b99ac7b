"""Store containers' items in the row and column that they belong to.

A container's position determines its role (keys.pxd), and its items go straight into that role's
row. Unknown keys are dropped.
"""

from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from memreplay.engine.base.growbuf cimport push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.keys cimport (
    K_ACTION, K_ACTIVE_SIZE, K_ADDR, K_ADDRESS, K_ALLOCATED_SIZE, K_ALLOCATOR_SETTINGS, K_BLOCKS,
    K_CARRIED, K_COMPILE_CONTEXT, K_DEVICE, K_DEVICE_FREE, K_DEVICE_TRACES, K_EXTERNAL_ANNOTATIONS,
    K_FRAMES, K_HISTORY, K_IS_EXPANDABLE, K_LINE, K_MEMREPLAY, K_NAME, K_POOL_ID, K_REAL_SIZE,
    K_REQUESTED_SIZE, K_SEGMENTS, K_SEGMENT_POOL_ID, K_SEGMENT_TYPE, K_SIZE, K_STAGE, K_STATE,
    K_STREAM, K_TIME_US, K_TOTAL_SIZE, K_TRACE_ALLOC_MAX_ENTRIES, K_TRACE_ALLOC_OVERFLOWED,
    K_USER_METADATA, S_ACTION, S_EMPTY, S_KNOWN, S_STATE, is_frame_key, key_name,
)
from memreplay.engine.read.metadata cimport key_text, want_metadata
from memreplay.engine.read.opening cimport drop_value, end_event
from memreplay.engine.read.parts cimport (
    check_kept, fill_frame, frame_id, keep_or_mark, new_node, node_add, own_frame, own_list,
    pair_of_ints, stack_id,
)
from memreplay.engine.base.status cimport (
    ERR_MEMORY, ERR_NUMBER, ERR_SHAPE, ERR_STACK, ERR_TYPE, OK, fail, fail_limit
)
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, A_KNOWN, A_LAST, A_NONE, A_OTHER, Annotation, Block, EMPTY_STACK, EXPANDABLE,
    Event, HAS_ADDRESS, HAS_BLOCKS, HAS_FRAMES, HAS_HISTORY, HAS_HISTORY_LIST, HAS_REQUESTED,
    HAS_TOTAL, MAX_BYTES, STATE_INACTIVE, STATE_UNKNOWN, Segment, Trace,
)
from memreplay.engine.read.unknown cimport append_unknown, set_unknown, unknown_frame, unknown_stack
from memreplay.engine.read.value cimport (
    V_ANNOTATION, V_ANNOTATIONS, V_BIG, V_BLOCK, V_BLOCKS, V_EVENT, V_FALSE, V_FLOAT, V_FRAME,
    V_FRAMES, V_HIST, V_HISTORY, V_INT, V_NODE_DICT, V_NODE_LIST, V_NONE, V_OPAQUE, V_PAIR,
    V_PAIR_LIST, V_ROOT, V_SEGMENT, V_SEGMENTS, V_SKIP_DICT, V_SKIP_LIST, V_STACK, V_STR, V_TRACE,
    V_TRACES, V_TRUE, V_UINT, is_dict,
)


cdef enum:
    PAIR_USED = 4    # flag in pair_of, stored in the same number as the count


# ---- conversions, with errors that name the key ----------------------------------------

cdef inline int want_i64(Tables* t, const Value* v, uint32_t key, int64_t* out) noexcept nogil:
    if v.kind == V_INT:
        out[0] = <int64_t> v.num
        return OK
    if v.kind == V_TRUE or v.kind == V_FALSE:
        out[0] = v.kind == V_TRUE
        return OK
    if v.kind == V_UINT or v.kind == V_BIG:
        return fail(&t.status, ERR_NUMBER, key_name(key))
    return fail(&t.status, ERR_TYPE, key_name(key))


cdef inline int want_size(Tables* t, const Value* v, uint32_t key, int64_t* out) noexcept nogil:
    # Convert a size. It must not be negative, and the sum of two sizes must not overflow.
    cdef int code = want_i64(t, v, key, out)
    if code == OK and (out[0] < 0 or out[0] > MAX_BYTES):
        return fail(&t.status, ERR_NUMBER, key_name(key))
    return code


cdef inline int want_i32(Tables* t, const Value* v, uint32_t key, int32_t* out) noexcept nogil:
    cdef int64_t n = 0
    cdef int code = want_i64(t, v, key, &n)
    if code == OK and (n < -0x80000000 or n > 0x7FFFFFFF):
        return fail(&t.status, ERR_NUMBER, key_name(key))
    out[0] = <int32_t> n
    return code


cdef inline int want_u64(Tables* t, const Value* v, uint32_t key, uint64_t* out) noexcept nogil:
    # Convert an address or stream. The C++ writer casts these to signed numbers; undo that.
    if v.kind == V_INT or v.kind == V_UINT:
        out[0] = v.num
        return OK
    if v.kind == V_NONE:
        out[0] = 0
        return OK
    if v.kind == V_BIG:
        return fail(&t.status, ERR_NUMBER, key_name(key))
    return fail(&t.status, ERR_TYPE, key_name(key))


cdef inline int want_text(Tables* t, const Value* v, uint32_t key, uint32_t* out) noexcept nogil:
    # Return a string id; NONE32 for None.
    if v.kind == V_STR:
        out[0] = v.idx
    elif v.kind == V_NONE:
        out[0] = NONE32
    else:
        return fail(&t.status, ERR_TYPE, key_name(key))
    return OK


cdef inline int want_name(Tables* t, const Value* v, uint32_t key, uint32_t* out) noexcept nogil:
    # Return a string id. None becomes the empty string, as for a missing key, so that every row has
    # a name.
    if v.kind == V_NONE:
        out[0] = S_EMPTY
        return OK
    return want_text(t, v, key, out)


cdef inline int want_pair(Tables* t, const Value* v, uint32_t key, uint32_t* out) noexcept nogil:
    cdef int64_t* p
    if v.kind == V_PAIR:
        out[0] = v.idx
        return OK
    if v.kind == V_NONE:
        out[0] = NONE32
        return OK
    if v.kind == V_INT:   # a plain number, as other tools write
        out[0] = pair_of_ints(t, 0, <int64_t> v.num)
    elif v.kind == V_PAIR_LIST:
        p = <int64_t*> t.pair_of.data + 3 * v.idx
        if p[0] & ~PAIR_USED != 2:
            return fail(&t.status, ERR_TYPE, key_name(key))
        p[0] |= PAIR_USED
        out[0] = pair_of_ints(t, p[1], p[2])
    else:
        return fail(&t.status, ERR_TYPE, key_name(key))
    return OK if out[0] != NONE32 else fail(&t.status, ERR_MEMORY, "pools")


cdef inline int want_time(Tables* t, const Value* v, uint32_t key, int64_t* out) noexcept nogil:
    # Convert a time to whole microseconds, rounded down. ABSENT_TIME is refused.
    cdef double real
    if v.kind == V_FLOAT:
        memcpy(&real, &v.num, 8)
        real = floor(real)
        # These are the doubles next to the limits of int64.
        if not -9.2233720368547748e18 <= real <= 9.2233720368547748e18:
            return fail(&t.status, ERR_NUMBER, key_name(key))
        out[0] = <int64_t> real
        return OK
    if want_i64(t, v, key, out) == OK and out[0] == ABSENT_TIME:
        return fail(&t.status, ERR_NUMBER, key_name(key))
    return t.status.code


cdef inline int want_stack(Tables* t, const Value* v, uint32_t key, uint32_t* out) noexcept nogil:
    if v.kind == V_STACK:
        out[0] = v.idx
        return OK
    if v.kind == V_NONE:
        out[0] = EMPTY_STACK
        return OK
    if v.kind == V_SKIP_LIST or v.kind == V_OPAQUE:
        return unknown_stack(t, v.idx, out)
    if v.kind != V_FRAMES:
        return fail(&t.status, ERR_TYPE, key_name(key))
    return stack_id(t, v.idx, out)


cdef inline int wrong_part(Tables* t, const Value* v, uint32_t unknown,
                           const char* key) noexcept nogil:
    # Report that v doesn't have the expected role. If v's kind is `unknown`, v was first used
    # elsewhere.
    if v.kind == unknown:
        return fail(&t.status, ERR_SHAPE, "a part that was under an unknown key before")
    return fail(&t.status, ERR_TYPE, key)


# ---- items of lists ------------------------------------------------------------------------------

cdef inline int attach_row(Tables* t, uint32_t row, uint64_t* attached,
                           const char* what) noexcept nogil:
    # Rows are in the order in which their dicts were opened, so the list must contain each dict
    # once, in that order.
    if row != attached[0]:
        return fail(&t.status, ERR_SHAPE, what)
    attached[0] += 1
    return OK


cdef int append_item(Tables* t, const Value* list, const Value* v) noexcept nogil:
    # list.append(v)
    cdef uint32_t kind = list.kind
    cdef uint32_t id = 0
    cdef int64_t* pair
    cdef int64_t n = 0
    cdef Trace* trace
    if kind == V_FRAMES:
        if v.kind != V_FRAME and v.kind != V_SKIP_DICT:
            return fail(&t.status, ERR_TYPE, "frames")
        if own_list(t, list.idx) != OK:
            return t.status.code
        if v.kind == V_FRAME:
            if frame_id(t, v.idx, &id) != OK:
                return t.status.code
        elif unknown_frame(t, v.idx, &id) != OK:
            return t.status.code
        if push_u32(&t.list, id) < 0:
            return fail(&t.status, ERR_MEMORY, "stacks")
        return OK
    if kind == V_TRACE:
        if v.kind != V_EVENT:
            return wrong_part(t, v, V_SKIP_DICT, "device_traces")
        trace = <Trace*> t.traces.data + list.idx
        if v.idx != trace.read_first + trace.count:
            return fail(&t.status, ERR_SHAPE, "an event that is in the trace twice")
        if v.idx == t.read_events and end_event(t) != OK:
            return t.status.code
        if attach_row(t, v.idx, &t.attached_events, "an event that is in the trace twice") != OK:
            return t.status.code
        trace.count += 1
        return OK
    if kind == V_SKIP_LIST:
        return append_unknown(t, list.idx, v) if drop_value(t, v) == OK else t.status.code
    if kind == V_BLOCKS:
        if v.kind != V_BLOCK:
            return wrong_part(t, v, V_SKIP_DICT, "blocks")
        if (<Block*> t.blocks.data)[v.idx].segment != list.idx:
            return fail(&t.status, ERR_SHAPE, "a block of another segment")
        return attach_row(t, v.idx, &t.attached_blocks, "a block that is listed twice")
    if kind == V_SEGMENTS:
        if v.kind != V_SEGMENT:
            return wrong_part(t, v, V_SKIP_DICT, "segments")
        return attach_row(t, v.idx, &t.attached_segments, "a segment that is listed twice")
    if kind == V_HISTORY:
        if v.kind != V_HIST or v.idx != list.idx:
            return wrong_part(t, v, V_SKIP_DICT, "history")
        t.attached_history += 1
        return OK
    if kind == V_ANNOTATIONS:
        if v.kind != V_ANNOTATION:
            return wrong_part(t, v, V_SKIP_DICT, "external_annotations")
        return attach_row(t, v.idx, &t.attached_annotations, "an annotation that is listed twice")
    if kind == V_TRACES:
        if v.kind != V_TRACE:
            return wrong_part(t, v, V_SKIP_LIST, "device_traces")
        trace = <Trace*> t.traces.data + v.idx
        # Several devices may share one empty list.
        if trace.device >= 0 and trace.count:
            return fail(&t.status, ERR_SHAPE, "a trace that two devices share")
        if (trace.window != NULL and trace.count
                and trace.place != <int32_t> t.attached_traces):
            return fail(&t.status, ERR_SHAPE, "traces in a different order than they were written")
        trace.shared = trace.device >= 0
        trace.device = <int32_t> t.attached_traces
        t.attached_traces += 1
        return OK
    if kind == V_NODE_LIST:
        return node_add(t, list.idx, 0, v)
    if kind == V_PAIR_LIST:
        if want_i64(t, v, K_POOL_ID, &n) != OK:
            return t.status.code
        pair = <int64_t*> t.pair_of.data + 3 * list.idx
        if pair[0] & PAIR_USED:
            return fail(&t.status, ERR_SHAPE, "a pool id that changes after its use")
        if pair[0] < 2:
            pair[1 + pair[0]] = n
        if pair[0] < 3:
            pair[0] += 1
        return OK
    if kind == V_STACK:
        return fail(&t.status, ERR_SHAPE, "a frames list that changes after its use")
    return fail(&t.status, ERR_STACK, "an item appended to something that isn't a list")


# ---- items of dicts ------------------------------------------------------------------------------

cdef inline uint8_t action_code(Tables* t, uint32_t name) noexcept nogil:
    # Return the code of an action that has no fixed code; A_LAST if there are too many. `status` is
    # set when out of memory.
    cdef size_t i
    if S_ACTION <= name and name < S_ACTION + A_KNOWN:
        return <uint8_t> (name - S_ACTION)
    for i in range(t.other_actions.len):
        if (<uint32_t*> t.other_actions.data)[i] == name:
            return <uint8_t> (A_OTHER + i)
    if t.other_actions.len >= A_LAST - A_OTHER:
        return A_LAST
    if push_u32(&t.other_actions, name) < 0:
        fail(&t.status, ERR_MEMORY, "events")
        return A_LAST
    return <uint8_t> (A_OTHER + t.other_actions.len - 1)


cdef inline int set_event(Tables* t, uint32_t row, uint32_t key, const Value* v) noexcept nogil:
    cdef Event* e = &t.event
    cdef uint32_t id = 0
    if key > K_CARRIED:
        return OK
    if not t.open_event or row != t.read_events:
        return fail(&t.status, ERR_SHAPE, "an event that changes after its use")
    if key == K_ACTION:
        if want_text(t, v, key, &id) != OK:
            return t.status.code
        e.action = action_code(t, id) if id != NONE32 else A_NONE
        return t.status.code
    elif key == K_ADDR:
        return want_u64(t, v, key, &e.address)
    elif key == K_SIZE:
        return want_size(t, v, key, &e.size)
    elif key == K_STREAM:
        return want_u64(t, v, key, &e.stream)
    elif key == K_TIME_US:
        e.time = ABSENT_TIME
        return OK if v.kind == V_NONE else want_time(t, v, key, &e.time)
    elif key == K_FRAMES:
        return want_stack(t, v, key, &e.stack)
    elif key == K_COMPILE_CONTEXT:
        return want_metadata(t, v, &e.compile_context)
    elif key == K_USER_METADATA:
        return want_metadata(t, v, &e.user_metadata)
    elif key == K_POOL_ID:
        return want_pair(t, v, key, &e.pool)
    elif key == K_DEVICE_FREE:
        e.has_device_free = True
        return want_i64(t, v, key, &e.device_free)
    elif key == K_CARRIED:
        e.carried = v.kind == V_TRUE or v.kind == V_INT
        if v.kind == V_INT:
            return want_size(t, v, key, &e.block_size)
    return OK


cdef inline int set_segment(Tables* t, uint32_t row, uint32_t key, const Value* v) noexcept nogil:
    cdef Segment* s = <Segment*> t.segments.data + row
    cdef int64_t n = 0
    if key == K_ADDRESS:
        s.flags |= HAS_ADDRESS
        return want_u64(t, v, key, &s.address)
    if key == K_TOTAL_SIZE:
        s.flags |= HAS_TOTAL
        return want_size(t, v, key, &s.total_size)
    if key == K_DEVICE:
        if want_i32(t, v, key, &s.device) != OK:
            return t.status.code
        if s.device < -1:
            return fail(&t.status, ERR_NUMBER, "device")
        if s.device >= 0 and <uint64_t> s.device >= t.max_devices:
            return fail_limit(&t.status, "devices", <uint64_t> s.device + 1, t.max_devices)
        return OK
    if key == K_ALLOCATED_SIZE:
        return want_size(t, v, key, &s.allocated_size)
    if key == K_ACTIVE_SIZE:
        return want_size(t, v, key, &s.active_size)
    if key == K_REQUESTED_SIZE:
        s.flags |= HAS_REQUESTED
        return want_size(t, v, key, &s.requested_size)
    if key == K_STREAM:
        return want_u64(t, v, key, &s.stream)
    if key == K_SEGMENT_TYPE:
        return want_name(t, v, key, &s.kind)
    if key == K_SEGMENT_POOL_ID:
        return want_pair(t, v, key, &s.pool)
    if key == K_IS_EXPANDABLE:
        if want_i64(t, v, key, &n) != OK:
            return t.status.code
        s.flags = (s.flags | EXPANDABLE) if n else (s.flags & ~EXPANDABLE)
        return OK
    if key == K_FRAMES:
        return want_stack(t, v, key, &s.stack)
    if key == K_BLOCKS:
        if v.kind != V_BLOCKS or v.idx != row or s.flags & HAS_BLOCKS:
            return wrong_part(t, v, V_SKIP_LIST, "blocks")
        s.flags |= HAS_BLOCKS
    return OK


cdef inline int set_block(Tables* t, uint32_t row, uint32_t key, const Value* v) noexcept nogil:
    cdef Block* b = <Block*> t.blocks.data + row
    cdef uint32_t id = 0
    if key == K_ADDRESS:
        b.flags |= HAS_ADDRESS
        return want_u64(t, v, key, &b.address)
    if key == K_SIZE:
        return want_size(t, v, key, &b.size)
    if key == K_REQUESTED_SIZE:
        b.flags |= HAS_REQUESTED
        return want_size(t, v, key, &b.requested)
    if key == K_STATE:
        if want_text(t, v, key, &id) != OK:
            return t.status.code
        b.state = STATE_UNKNOWN
        if S_STATE <= id and id < S_KNOWN:
            b.state = id - S_STATE + STATE_INACTIVE
        return OK
    if key == K_FRAMES:
        b.flags |= HAS_FRAMES
        return want_stack(t, v, key, &b.stack)
    if key == K_HISTORY:
        if v.kind != V_HISTORY or v.idx != row or b.flags & HAS_HISTORY_LIST:
            return wrong_part(t, v, V_SKIP_LIST, "history")
        b.flags |= HAS_HISTORY_LIST
    return OK


cdef inline int set_history(Tables* t, const Value* d, uint32_t key, const Value* v) noexcept nogil:
    # Only the first entry in a block's history counts, because it's the block's current allocation.
    cdef uint32_t row = d.idx
    cdef Block* b = <Block*> t.blocks.data + row
    cdef int64_t n = 0
    cdef uint32_t stack = EMPTY_STACK
    if t.hist_block != row or t.hist_count != 1:
        if d.num > 1:
            return OK
        # An entry from the memo may have been created first yet be used after others have begun.
        return fail(&t.status, ERR_SHAPE, "an entry of a 'history' that changes after its use")
    if key == K_REAL_SIZE:
        if want_size(t, v, key, &n) != OK:
            return t.status.code
        if not b.flags & HAS_REQUESTED:
            b.requested = n
        b.flags |= HAS_HISTORY
        return OK
    if key == K_FRAMES:
        # The block's own frames take precedence, even if the file has its history first.
        return want_stack(t, v, key, &stack if b.flags & HAS_FRAMES else &b.stack)
    return OK


cdef inline int set_frame(Tables* t, uint32_t raw, uint32_t key, const Value* v) noexcept nogil:
    if not is_frame_key(key):
        return OK
    if own_frame(t, raw) != OK:
        return t.status.code
    if fill_frame(&t.frame, key, v):
        return OK
    if key == K_LINE and (v.kind == V_UINT or v.kind == V_BIG):
        return fail(&t.status, ERR_NUMBER, key_name(key))
    return fail(&t.status, ERR_TYPE, key_name(key))


cdef inline int set_annotation(Tables* t, uint32_t row, uint32_t key,
                               const Value* v) noexcept nogil:
    cdef Annotation* a = <Annotation*> t.annotations.data + row
    if key == K_NAME:
        return want_name(t, v, key, &a.name)
    if key == K_STAGE:
        return want_name(t, v, key, &a.stage)
    if key == K_DEVICE:
        return want_i32(t, v, key, &a.device)
    if key == K_TIME_US:
        return want_time(t, v, key, &a.time)
    return OK


cdef inline int set_root(Tables* t, uint32_t key, const Value* v) noexcept nogil:
    cdef Value kept = v[0]
    cdef uint32_t id
    if key == K_SEGMENTS:
        t.has_segments = v.kind == V_SEGMENTS
        return OK if t.has_segments else wrong_part(t, v, V_SKIP_LIST, "segments")
    if key == K_DEVICE_TRACES:
        t.has_traces = v.kind == V_TRACES
        return OK if t.has_traces else wrong_part(t, v, V_SKIP_LIST, "device_traces")
    if key == K_EXTERNAL_ANNOTATIONS:
        if v.kind != V_ANNOTATIONS and v.kind != V_NONE:
            return wrong_part(t, v, V_SKIP_LIST, "external_annotations")
        if v.kind == V_NONE and t.saw_annotations:
            return fail(&t.status, ERR_SHAPE, "'external_annotations' twice")
        t.has_annotations = True
        return OK
    if (key == K_ALLOCATOR_SETTINGS or key == K_TRACE_ALLOC_OVERFLOWED
            or key == K_TRACE_ALLOC_MAX_ENTRIES or key == K_MEMREPLAY):
        # If there is a list instead of a dict, drop it. Notes are optional, so the snapshot is
        # readable without them.
        if key == K_MEMREPLAY:
            if keep_or_mark(t, &kept) != OK:
                return t.status.code
        elif v.kind != V_SKIP_LIST and check_kept(t, v) != OK:
            return t.status.code
        id = new_node(t, kept.kind, kept.num, kept.idx, key)
        if id == NONE32:
            return t.status.code
        if key == K_ALLOCATOR_SETTINGS:
            t.settings = id + 1
        elif key == K_TRACE_ALLOC_OVERFLOWED:
            t.overflowed = id + 1
        elif key == K_MEMREPLAY:
            t.own = id + 1
        else:
            t.max_entries = id + 1
        return OK
    t.unknown_keys = True
    return OK


cdef int set_item(Tables* t, const Value* d, const Value* k, const Value* v) noexcept nogil:
    # d[k] = v
    cdef uint32_t id
    if d.kind == V_NODE_DICT:
        id = key_text(t, k)
        if id == NONE32:
            return t.status.code
        return node_add(t, d.idx, id, v)
    if d.kind == V_SKIP_DICT:
        if drop_value(t, v) != OK or k.kind != V_STR:
            return t.status.code
        return set_unknown(t, d.idx, k.idx, v)
    if not is_dict(d.kind):
        return fail(&t.status, ERR_STACK, "an item set in something that isn't a dict")
    if k.kind != V_STR or k.idx >= S_KNOWN:
        if d.kind == V_ROOT:
            t.unknown_keys = True
        return OK
    if d.kind == V_EVENT:
        return set_event(t, d.idx, k.idx, v)
    if d.kind == V_FRAME:
        return set_frame(t, d.idx, k.idx, v)
    if d.kind == V_BLOCK:
        return set_block(t, d.idx, k.idx, v)
    if d.kind == V_SEGMENT:
        return set_segment(t, d.idx, k.idx, v)
    if d.kind == V_HIST:
        return set_history(t, d, k.idx, v)
    if d.kind == V_ANNOTATION:
        return set_annotation(t, d.idx, k.idx, v)
    return set_root(t, k.idx, v)
