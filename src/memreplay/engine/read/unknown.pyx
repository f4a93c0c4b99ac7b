"""Remember unknown dicts and lists, because they may turn out to be frames and frames lists.

A pickle stores a shared object once. If the first use is under an unknown key, the second use
refers to a dict or list that was read as unknown. So frame keys in unknown dicts and frames in
unknown lists are kept. These are interned (and sealed) only when they are needed for a frame or
stack. The same applies to tuples of frames; a tuple in metadata becomes a kept list.
"""

from libc.stdint cimport uint32_t
from memreplay.engine.base.growbuf cimport push_item, push_u32
from memreplay.engine.base.hashmap cimport NONE32, spans_intern
from memreplay.engine.read.keys cimport is_frame_key
from memreplay.engine.read.parts cimport (
    fill_frame, flush_list, frame_id, intern_stack, new_node, node_add
)
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_SHAPE, ERR_TYPE, OK, fail
from memreplay.engine.read.tables cimport (
    FrameKey, MAX_ROWS, NOT_FRAMES, SEALED, UNKNOWN_DICT, UnknownItem, UnknownList,
)
from memreplay.engine.read.value cimport (
    V_FRAME, V_INERT, V_NODE_LIST, V_OPAQUE, V_SKIP_DICT, V_SKIP_LIST, is_structural,
)
from libc.string cimport memset


cdef enum:
    UNKNOWN_FREE = 8 << 20    # bytes that unknown dicts and lists may use, even in a small file


cdef inline bint too_many(const Tables* t) noexcept nogil:
    # Whether there are too many unknown dicts and lists for a real file of this size, in which few
    # would be empty.
    return (t.unknown_lists.len * sizeof(UnknownList) + t.unknown_dicts.len * sizeof(uint32_t)
            > UNKNOWN_FREE + 2 * t.read_bytes)


cdef int open_unknown(Tables* t, uint32_t role, Value* out) noexcept nogil:
    # Open a dict or list without a known role. Number 0 stands for containers that can't become
    # frames or frames lists.
    cdef UnknownList row
    out.kind = role
    out.idx = 0
    out.num = 0
    if too_many(t):
        return OK
    if role == V_SKIP_DICT:
        if t.unknown_dicts.len >= MAX_ROWS:
            return OK
        out.idx = <uint32_t> t.unknown_dicts.len
        if push_u32(&t.unknown_dicts, 0) < 0:
            return fail(&t.status, ERR_MEMORY, "unknown data")
    elif t.unknown_lists.len < MAX_ROWS:
        out.idx = <uint32_t> t.unknown_lists.len
        row.first = NONE32
        row.last = NONE32
        row.stack = NONE32
        if push_item(&t.unknown_lists, &row) < 0:
            return fail(&t.status, ERR_MEMORY, "unknown data")
    return OK


cdef int set_unknown(Tables* t, uint32_t idx, uint32_t key, const Value* v) noexcept nogil:
    # Set dict[key] = v. If this is a frame's key with a value that frames can't have, the dict can
    # never become a frame.
    cdef uint32_t* slot = <uint32_t*> t.unknown_dicts.data + idx
    cdef FrameKey frame
    if not is_frame_key(key) or slot[0] == NONE32:
        return OK
    if slot[0] & SEALED:
        return fail(&t.status, ERR_SHAPE, "a frame that changes after its use")
    if slot[0] == 0:
        if t.unknown_frames.len >= MAX_ROWS:
            slot[0] = NONE32
            return OK
        slot[0] = <uint32_t> t.unknown_frames.len
        memset(&frame, 0, sizeof(FrameKey))
        if push_item(&t.unknown_frames, &frame) < 0:
            return fail(&t.status, ERR_MEMORY, "unknown data")
    if not fill_frame(<FrameKey*> t.unknown_frames.data + slot[0], key, v):
        slot[0] = NONE32
    return OK


cdef int append_unknown(Tables* t, uint32_t idx, const Value* v) noexcept nogil:
    # Append v to a list. If v isn't a frame, the list can never become a frames list.
    cdef UnknownList* row = <UnknownList*> t.unknown_lists.data + idx
    cdef uint32_t at = <uint32_t> t.unknown_items.len
    cdef UnknownItem item
    if row.stack == NOT_FRAMES:
        return OK
    if row.stack != NONE32:
        return fail(&t.status, ERR_SHAPE, "a frames list that changes after its use")
    if (v.kind != V_FRAME and v.kind != V_SKIP_DICT) or t.unknown_items.len >= MAX_ROWS:
        row.stack = NOT_FRAMES
        return OK
    item.dict = v.idx
    item.next = NONE32
    if v.kind == V_SKIP_DICT:
        item.dict |= UNKNOWN_DICT
    if push_item(&t.unknown_items, &item) < 0:
        return fail(&t.status, ERR_MEMORY, "unknown data")
    if row.first == NONE32:
        row.first = at
    else:
        (<UnknownItem*> t.unknown_items.data)[row.last].next = at
    row.last = at
    return OK


cdef int open_tuple(Tables* t, const Value* items, size_t n, Value* out) noexcept nogil:
    # Create a tuple that contains frames, is empty or is unused.
    cdef size_t i
    for i in range(n):
        if items[i].kind != V_FRAME and items[i].kind != V_SKIP_DICT:
            out.kind = V_OPAQUE
            out.idx = 0
            out.num = 0
            return OK
    if open_unknown(t, V_SKIP_LIST, out) != OK:
        return t.status.code
    for i in range(n):
        if append_unknown(t, out.idx, &items[i]) != OK:
            return t.status.code
    out.kind = V_OPAQUE
    return OK


cdef bint is_kept(const Value* items, size_t n) noexcept nogil:
    # Whether these values can be items of a kept list.
    cdef size_t i
    for i in range(n):
        if (is_structural(items[i].kind) or items[i].kind == V_SKIP_LIST
                or items[i].kind == V_SKIP_DICT or items[i].kind == V_INERT):
            return False
    return True


cdef int keep_tuple(Tables* t, const Value* items, size_t n, Value* out) noexcept nogil:
    # Create a tuple in metadata or settings, as a kept list.
    cdef size_t i
    out.kind = V_NODE_LIST
    out.num = 0
    out.idx = new_node(t, V_NODE_LIST, 0, 0, 0)
    if out.idx == NONE32:
        return t.status.code
    for i in range(n):
        if node_add(t, out.idx, 0, &items[i]) != OK:
            return t.status.code
    return OK


cdef int unknown_frame(Tables* t, uint32_t idx, uint32_t* out) noexcept nogil:
    # Return the frame that an unknown dict turns out to be.
    cdef uint32_t* slot = <uint32_t*> t.unknown_dicts.data + idx
    if slot[0] == NONE32:
        return fail(&t.status, ERR_TYPE, "frames")
    out[0] = 0
    if slot[0] & ~SEALED:
        out[0] = spans_intern(&t.frames, <FrameKey*> t.unknown_frames.data + (slot[0] & ~SEALED),
                              sizeof(FrameKey))
        if out[0] == NONE32:
            return fail(&t.status, ERR_MEMORY, "frames")
    slot[0] |= SEALED
    return OK


cdef int unknown_stack(Tables* t, uint32_t idx, uint32_t* out) noexcept nogil:
    # Return the stack that an unknown list or tuple turns out to be.
    cdef UnknownList* row = <UnknownList*> t.unknown_lists.data + idx
    cdef UnknownItem* item
    cdef uint32_t at = row.first
    cdef uint32_t id = 0
    cdef int code
    if row.stack == NOT_FRAMES:
        return fail(&t.status, ERR_TYPE, "frames")
    if row.stack == NONE32:
        if flush_list(t) != OK:
            return t.status.code
        t.list.len = 0
        while at != NONE32:
            item = <UnknownItem*> t.unknown_items.data + at
            if item.dict & UNKNOWN_DICT:
                code = unknown_frame(t, item.dict & ~UNKNOWN_DICT, &id)
            else:
                code = frame_id(t, item.dict, &id)
            if code != OK:
                return code
            if push_u32(&t.list, id) < 0:
                return fail(&t.status, ERR_MEMORY, "stacks")
            at = item.next
        row.stack = intern_stack(t, <const uint32_t*> t.list.data, t.list.len)
        if row.stack == NONE32:
            return fail(&t.status, ERR_MEMORY, "stacks")
    out[0] = row.stack
    return OK
