# Intern frames, stacks, pools and kept values while they are read.
#
# A frame dict or frames list owns a scratch buffer until another one needs the buffer, and is then
# interned. Once the dict or list is used, it's sealed: a file that changes it later is refused.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from memreplay.engine.base.growbuf cimport buf_reserve, push_item
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_intern, spans_intern_sized
from memreplay.engine.read.keys cimport (
    K_FILENAME, K_FX_NODE_NAME, K_FX_NODE_OP, K_FX_NODE_TARGET, K_LINE, K_NAME, S_EMPTY,
)
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_SHAPE, OK, fail, fail_limit
from memreplay.engine.read.tables cimport (
    HAS_BLOCKS, HAS_HISTORY_LIST, SEALED, Block, FrameKey, Node, Segment, Tables
)
from memreplay.engine.read.value cimport (
    FILLED_FIRST, UNKEPT, V_ANNOTATIONS, V_BLOCKS, V_HISTORY, V_INT, V_NONE, V_OPAQUE, V_SEGMENTS,
    V_SKIP_DICT, V_SKIP_LIST, V_STR, V_TRACES, V_UINT, Value, is_structural,
)

cdef enum:
    NODES_FREE = 48 << 20    # bytes of kept values that even a small file may use


cdef inline uint32_t pair_of_ints(Tables* t, int64_t a, int64_t b) noexcept nogil:
    cdef int64_t[2] key
    key[0] = a
    key[1] = b
    return spans_intern(&t.pairs, key, sizeof(key))


cdef inline int64_t line_of(int64_t line) noexcept nogil:
    # For code without a line, CPython's PyCode_Addr2Line returns -1. PyTorch stores the line
    # unsigned (torch/csrc/profiler/unwind/unwind.h: Frame.lineno), so a pickle contains 2**64 - 1,
    # or -1 if C++ code wrote the pickle.
    return 0 if line == -1 else line


cdef inline bint fill_frame(FrameKey* f, uint32_t key, const Value* v) noexcept nogil:
    # Set frame[key] = v for a known key. False if a frame can't have this value.
    cdef uint32_t id = v.idx
    if key == K_LINE:
        f.line = line_of(<int64_t> v.num)
        return v.kind == V_INT or v.kind == V_NONE or (v.kind == V_UINT and f.line == 0)
    if v.kind == V_NONE:
        id = S_EMPTY
    elif v.kind != V_STR:
        return False
    if key == K_FILENAME:
        f.file = id
    elif key == K_NAME:
        f.name = id
    elif key == K_FX_NODE_OP:
        f.fx_op = id
    elif key == K_FX_NODE_NAME:
        f.fx_name = id
    elif key == K_FX_NODE_TARGET:
        f.fx_target = id
    else:
        f.fx_trace = id
    return True


cdef inline uint32_t intern_frame(Tables* t, const FrameKey* f) noexcept nogil:
    return spans_intern_sized(&t.frames, f, sizeof(FrameKey))


cdef inline int flush_frame(Tables* t) noexcept nogil:
    # Intern the frame dict that is being read.
    cdef uint32_t id
    if t.frame_owner == NONE32:
        return OK
    id = intern_frame(t, &t.frame)
    if id == NONE32:
        return fail(&t.status, ERR_MEMORY, "frames")
    # Seal the dict, because two alternating frames would be interned again and again.
    (<uint32_t*> t.frame_of.data)[t.frame_owner] = id | SEALED
    t.frame_owner = NONE32
    return OK


cdef inline int frame_id(Tables* t, uint32_t raw, uint32_t* out) noexcept nogil:
    # Return the frame of a frame dict, and seal the dict.
    cdef uint32_t* slot
    if t.frame_owner == raw and flush_frame(t) != OK:
        return t.status.code
    slot = <uint32_t*> t.frame_of.data + raw
    slot[0] |= SEALED
    out[0] = slot[0] & ~SEALED
    return OK


cdef inline uint32_t sealed_frame(Tables* t, uint32_t raw) noexcept nogil:
    # Like frame_id, but only works while no frame dict is being filled.
    cdef uint32_t* slot = <uint32_t*> t.frame_of.data + raw
    slot[0] |= SEALED
    return slot[0] & ~SEALED


cdef inline uint32_t intern_stack(Tables* t, const uint32_t* ids, size_t n) noexcept nogil:
    return spans_intern(&t.stacks, ids, n * 4)


cdef inline int flush_list(Tables* t) noexcept nogil:
    # Intern the frames list that is being read as a stack.
    cdef uint32_t id
    if t.list_owner == NONE32:
        return OK
    id = intern_stack(t, <uint32_t*> t.list.data, t.list.len)
    if id == NONE32:
        return fail(&t.status, ERR_MEMORY, "stacks")
    (<uint32_t*> t.stack_of.data)[t.list_owner] = id | SEALED
    t.list_owner = NONE32
    return OK


cdef inline int stack_id(Tables* t, uint32_t raw, uint32_t* out) noexcept nogil:
    # Return the stack of a frames list, and seal the list.
    cdef uint32_t* slot
    if t.list_owner == raw and flush_list(t) != OK:
        return t.status.code
    slot = <uint32_t*> t.stack_of.data + raw
    slot[0] |= SEALED
    out[0] = slot[0] & ~SEALED
    return OK


cdef inline int own_list(Tables* t, uint32_t raw) noexcept nogil:
    # Load this frames list's content into `list`, so that frames can be appended.
    cdef uint32_t id
    cdef size_t n = 0
    cdef const uint8_t* p
    if t.list_owner == raw:
        return OK
    if flush_list(t) != OK:
        return t.status.code
    id = (<uint32_t*> t.stack_of.data)[raw]
    if id & SEALED:
        return fail(&t.status, ERR_SHAPE, "a frames list that changes after its use")
    p = span_at(&t.stacks, id, &n)
    t.list.len = 0
    if buf_reserve(&t.list, n // 4 + 1) < 0:
        return fail(&t.status, ERR_MEMORY, "stacks")
    if n:
        memcpy(t.list.data, p, n)
    t.list.len = n // 4
    t.list_owner = raw
    return OK


cdef inline int own_frame(Tables* t, uint32_t raw) noexcept nogil:
    cdef uint32_t id
    cdef size_t n = 0
    if t.frame_owner == raw:
        return OK
    if flush_frame(t) != OK:
        return t.status.code
    id = (<uint32_t*> t.frame_of.data)[raw]
    if id & SEALED:
        return fail(&t.status, ERR_SHAPE, "a frame that changes after its use")
    memcpy(&t.frame, span_at(&t.frames, id, &n), sizeof(FrameKey))
    t.frame_owner = raw
    return OK


# ---- kept values ---------------------------------------------------------------------------------

cdef inline uint32_t new_node(Tables* t, uint32_t kind, uint64_t num, uint32_t idx,
                              uint32_t key) noexcept nogil:
    # Create a node; NONE32 with the status set on error.
    cdef Node node
    if t.nodes.len * sizeof(Node) > NODES_FREE + 6 * t.read_bytes:
        fail_limit(&t.status, "bytes of kept values", t.nodes.len * sizeof(Node),
                   NODES_FREE + 6 * t.read_bytes)
        return NONE32
    if t.nodes.len >= t.max_nodes:
        fail_limit(&t.status, "kept_values", t.nodes.len + 1, t.max_nodes)
        return NONE32
    node.kind = kind
    node.num = num
    node.idx = idx
    node.key = key
    node.next = NONE32
    node.first = NONE32
    node.last = NONE32
    node.text = NONE32
    if push_item(&t.nodes, &node) < 0:
        fail(&t.status, ERR_MEMORY, "settings")
        return NONE32
    return <uint32_t> t.nodes.len - 1


cdef inline int check_kept(Tables* t, const Value* v) noexcept nogil:
    # Fail unless v can be a kept value.
    if is_structural(v.kind) or v.kind == V_SKIP_LIST or v.kind == V_SKIP_DICT:
        return fail(&t.status, ERR_SHAPE, "a part of the snapshot inside kept data")
    if v.kind == V_OPAQUE and v.idx == FILLED_FIRST:
        return fail(&t.status, ERR_SHAPE, "kept data that is filled before it is created")
    return OK


cdef inline bint is_placed(const Tables* t, const Value* v) noexcept nogil:
    # False if v is a list that owns rows but hasn't been set in its dict.
    if v.kind == V_SEGMENTS:
        return t.has_segments
    if v.kind == V_TRACES:
        return t.has_traces
    if v.kind == V_ANNOTATIONS:
        return t.has_annotations
    if v.kind == V_BLOCKS:
        return (<Segment*> t.segments.data)[v.idx].flags & HAS_BLOCKS != 0
    if v.kind == V_HISTORY:
        return (<Block*> t.blocks.data)[v.idx].flags & HAS_HISTORY_LIST != 0
    return True


cdef inline int keep_or_mark(Tables* t, Value* v) noexcept nogil:
    # Replace a value that can't be kept with a marker, so that it's an error only if the value is
    # used. A list with unattached rows was mistaken for the snapshot's own, which is an error right
    # away.
    if check_kept(t, v) == OK or not is_placed(t, v):
        return t.status.code
    if t.unkept.code == OK:
        t.unkept = t.status
        t.unkept.offset = t.read_bytes
    t.status.code = OK
    v.kind = V_OPAQUE
    v.idx = 0
    v.num = UNKEPT
    return OK


cdef inline int node_add(
    Tables* t, uint32_t parent, uint32_t key, const Value* item
) noexcept nogil:
    # Append a value to a kept list or dict.
    cdef Value v = item[0]
    cdef uint32_t id
    cdef Node* nodes
    if keep_or_mark(t, &v) != OK:
        return t.status.code
    if (<Node*> t.nodes.data)[parent].text != NONE32:
        return fail(&t.status, ERR_SHAPE, "metadata that changes after its use")
    id = new_node(t, v.kind, v.num, v.idx, key)
    if id == NONE32:
        return t.status.code
    nodes = <Node*> t.nodes.data
    if nodes[parent].first == NONE32:
        nodes[parent].first = id
    else:
        nodes[nodes[parent].last].next = id
    nodes[parent].last = id
    return OK
