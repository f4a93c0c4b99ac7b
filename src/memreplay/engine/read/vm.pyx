"""The pickle VM: run opcodes on a stack of values, and pass containers to shapes as they fill.

The VM only reads data: an opcode that imports or calls something fails with ERR_UNSAFE. Opcodes are
read completely or not at all: if the window ends inside an opcode, the cursor stays before it and
NEED_MORE requests a refill.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.cursor cimport cursor_offset, read_u16, read_u32, read_u64
from memreplay.engine.read.calls cimport (
    call_inert, ends_bytes, ends_call, marks_arguments, takes_arguments
)
from memreplay.engine.read.enclosing cimport role_among, role_in
from memreplay.engine.read.fast cimport FAST_FAIL, FAST_NO, FAST_ROOM, FAST_YES, fast_event
from memreplay.engine.read.frames cimport fast_alike, fast_list
from memreplay.engine.base.growbuf cimport buf_free, buf_init
from memreplay.engine.base.hashmap cimport NONE32, spans_free
from memreplay.engine.read.memo cimport raw_init
from memreplay.engine.read.opcodes cimport (
    ADDITEMS, APPEND, APPENDS, BINBYTES, BINBYTES8, BINFLOAT, BINGET, BININT, BININT1, BININT2,
    BINPERSID, BINPUT, BINSTRING, BINUNICODE, BINUNICODE8, BUILD, BYTEARRAY8, DICT, DUP, EMPTY_DICT,
    EMPTY_LIST, EMPTY_SET, EMPTY_TUPLE, EXT1, EXT2, EXT4, FRAME, FROZENSET, GLOBAL, INST, LIST,
    LONG1, LONG4, LONG_BINGET, LONG_BINPUT, MARK, MEMOIZE, NEWFALSE, NEWOBJ, NEWOBJ_EX, NEWTRUE,
    NONE, OBJ, PERSID, POP, POP_MARK, PROTO, REDUCE, SETITEM, SETITEMS, SHORT_BINBYTES,
    SHORT_BINSTRING, SHORT_BINUNICODE, STACK_GLOBAL, STOP, TUPLE, TUPLE1, TUPLE2, TUPLE3,
)
from memreplay.engine.read.keys cimport role_of_item
from memreplay.engine.read.opening cimport open_container, within_input
from memreplay.engine.read.pairs cimport PAIRS_ROOM, has_pairs, set_pairs
from memreplay.engine.read.parts cimport pair_of_ints
from memreplay.engine.read.refused cimport run_global, unsafe
from memreplay.engine.read.repeated cimport repeat_event
from memreplay.engine.read.shapes cimport append_item, set_item
from memreplay.engine.read.stack cimport (
    APPENDED, INERT, ITEMS_SET, POSITION, floor_of, frame_end_at,
    need_values, op_get, op_inert, op_mark, op_put, over_inert, pop_mark, push,
    push_kind, push_long, push_string, top_mark, values, wait_for,
)
from memreplay.engine.base.status cimport (
    DONE, ERR_MEMORY, ERR_OPCODE, ERR_SHAPE, ERR_STACK, NEED_MORE, OK, fail, fail_limit
)
from memreplay.engine.read.tables cimport Node, Trace
from memreplay.engine.read.text cimport is_text_opcode, run_text
from memreplay.engine.read.unknown cimport is_kept, keep_tuple, open_tuple, open_unknown
from memreplay.engine.read.value cimport (
    FILLED_FIRST, V_EVENT, V_FALSE, V_FLOAT, V_FRAMES, V_INERT, V_INT, V_NODE_DICT, V_NODE_LIST,
    V_NONE, V_OPAQUE, V_PAIR, V_ROOT, V_SEGMENTS, V_SKIP_DICT, V_SKIP_LIST, V_STR, V_TRACE, V_TRUE,
    V_UNSET, is_dict, is_list,
)
from memreplay.engine.read.wrapped cimport is_counted

cdef enum:
    # if a window ends inside an event and holds fewer bytes than this, refill it
    LOOKAHEAD = 1 << 16

cdef int vm_init(VM* vm, Tables* tables, const Limits* limits, uint64_t seed) noexcept nogil:
    memset(vm, 0, sizeof(VM))
    vm.tables = tables
    vm.limits = limits[0]
    if vm.limits.values > POSITION:
        vm.limits.values = POSITION
    vm.protocol = -1
    tables.max_nodes = limits.nodes
    buf_init(&vm.stack, sizeof(Value))
    buf_init(&vm.marks, 4)
    buf_init(&vm.memo, 4)
    buf_init(&vm.memo_num, 8)
    buf_init(&vm.raw_info, sizeof(RawStack))
    buf_init(&vm.written, sizeof(Written))
    buf_init(&vm.written_bytes, 1)
    buf_init(&vm.split, 1)
    if raw_init(vm, seed) < 0:
        return fail(&tables.status, ERR_MEMORY, "reader")
    return OK


cdef void vm_free(VM* vm) noexcept nogil:
    buf_free(&vm.stack)
    buf_free(&vm.marks)
    buf_free(&vm.memo)
    buf_free(&vm.memo_num)
    buf_free(&vm.raw_info)
    buf_free(&vm.written)
    buf_free(&vm.written_bytes)
    buf_free(&vm.split)
    spans_free(&vm.raw)


# ---- containers ----------------------------------------------------------------------------------

cdef inline size_t below_inert(VM* vm, size_t* n) noexcept nogil:
    # Return the stack floor for a new container. If the container is an argument for an inert
    # function, ignore the function and the MARK of its arguments; `n` becomes the stack height
    # without these.
    cdef uint32_t* marks = <uint32_t*> vm.marks.data
    cdef size_t k = vm.marks.len
    if k >= 2 and marks[k - 2] & INERT and n[0] == (marks[k - 1] & POSITION) + 1:
        if n[0] == (marks[k - 2] & POSITION) + 2:
            k -= 2
            n[0] -= 2
    elif k and marks[k - 1] & INERT and n[0] == (marks[k - 1] & POSITION) + 1:
        k -= 1
        n[0] -= 1
    return (marks[k - 1] & POSITION) + 1 if k else 0


cdef inline uint32_t resolve_role(VM* vm, bint a_list, uint32_t* parent) noexcept nogil:
    # Determine the role of a new container from the values below it. A pickle creates containers
    # empty and fills them later, so the position is known:
    #
    #     [list, MARK, items ..., <new>]     item of the list under the MARK
    #     [list, <new>]                      item, by APPEND
    #     [dict, MARK, k, v, ..., k, <new>]  value in the dict under the MARK
    #     [dict, k, <new>]                   value, by SETITEM
    #
    # The role is a guess that is checked when the container is attached. A wrong guess is an error,
    # but never leads to a wrong row. `parent` is set to the owner's row or number; for a trace, to
    # its index among the traces.
    cdef Value* s = values(vm)
    cdef size_t n = vm.stack.len
    cdef size_t base = below_inert(vm, &n)
    cdef Value* top
    cdef Value* under = NULL
    cdef uint32_t role
    if not vm.started:
        vm.started = True
        if vm.tables.found:   # in an earlier pickle in this file
            return V_SKIP_LIST if a_list else V_SKIP_DICT
        vm.tables.bare_list = a_list
        return V_SEGMENTS if a_list else V_ROOT
    if base >= 2:
        under = &s[base - 2]
    if n > base:
        top = &s[n - 1]
        if is_list(top.kind):
            role = role_of_item(top.kind, a_list)
            if role != V_UNSET:
                parent[0] = top.idx
                if role == V_TRACE:
                    parent[0] = <uint32_t> vm.tables.attached_traces
                return role
        elif top.kind == V_NODE_DICT or (top.kind != V_STR and n >= base + 2
                                         and s[n - 2].kind == V_NODE_DICT):
            # This is the next item of an open tuple, or the value for a key that isn't a string.
            return V_NODE_LIST if a_list else V_NODE_DICT
        elif top.kind == V_STR:
            if under != NULL and is_dict(under.kind) and (n - base) & 1:
                role = role_among(vm, under, &s[n - 2] if n >= base + 2 else NULL, top.idx, a_list)
                if role != V_UNSET:
                    parent[0] = under.idx
                    return role
                # Two interpretations remain. A dict that already has items can't be the owner.
                if n < base + 2 or (s[n - 2].kind == V_NODE_DICT and
                                    (<Node*> vm.tables.nodes.data)[s[n - 2].idx].first != NONE32
                                    ) or (s[n - 2].kind == V_ROOT and is_counted(under)):
                    return V_SKIP_LIST if a_list else V_SKIP_DICT
            if n >= base + 2 and is_dict(s[n - 2].kind):
                role = role_in(vm, &s[n - 2], top.idx, a_list)
                if role != V_UNSET:
                    parent[0] = s[n - 2].idx
                    return role
            if under == NULL or (not is_list(under.kind) and under.kind != V_NODE_DICT):
                return V_SKIP_LIST if a_list else V_SKIP_DICT
    if under != NULL and is_list(under.kind):
        role = role_of_item(under.kind, a_list)
        if role != V_UNSET:
            parent[0] = under.idx
            if role == V_TRACE:
                parent[0] = <uint32_t> (vm.tables.attached_traces + n - base)
            return role
    elif under != NULL and under.kind == V_NODE_DICT:
        # The container is neither a key nor a value, so it's an item of an open tuple.
        parent[0] = under.idx
        return V_NODE_LIST if a_list else V_NODE_DICT
    return V_SKIP_LIST if a_list else V_SKIP_DICT


cdef inline int op_empty(VM* vm, bint a_list) noexcept nogil:
    # EMPTY_LIST, EMPTY_DICT
    cdef Value v
    cdef uint32_t role, parent = 0
    vm.tables.read_bytes = cursor_offset(&vm.cur)
    role = resolve_role(vm, a_list, &parent)
    if within_input(vm.tables, role) != OK:
        return vm.tables.status.code
    if role == V_SKIP_DICT or role == V_SKIP_LIST:
        if open_unknown(vm.tables, role, &v) != OK:
            return vm.tables.status.code
    elif open_container(vm.tables, role, parent, &v) != OK:
        return vm.tables.status.code
    return push(vm, &v)


cdef inline int op_appends(VM* vm) noexcept nogil:
    cdef size_t at = 0
    cdef size_t i
    cdef Value* s
    vm.tables.read_bytes = cursor_offset(&vm.cur)
    if pop_mark(vm, &at, APPENDED) != OK:
        return vm.tables.status.code
    if at < floor_of(vm) + 1:
        return fail(&vm.tables.status, ERR_STACK, "no list below the MARK")
    s = values(vm)
    for i in range(at + 1, vm.stack.len):
        if append_item(vm.tables, &s[at - 1], &s[i]) != OK:
            return vm.tables.status.code
    vm.stack.len = at
    return OK


cdef inline int op_setitems(VM* vm) noexcept nogil:
    cdef size_t at = 0
    cdef size_t i
    cdef Value* s
    vm.tables.read_bytes = cursor_offset(&vm.cur)
    if pop_mark(vm, &at, ITEMS_SET) != OK:
        return vm.tables.status.code
    if at < floor_of(vm) + 1 or (vm.stack.len - at - 1) & 1:
        return fail(&vm.tables.status, ERR_STACK, "no dict for these keys and values")
    s = values(vm)
    i = at + 1
    while i < vm.stack.len:
        if set_item(vm.tables, &s[at - 1], &s[i], &s[i + 1]) != OK:
            return vm.tables.status.code
        i += 2
    vm.stack.len = at
    return OK


cdef inline int op_append(VM* vm) noexcept nogil:
    cdef Value* s = values(vm)
    cdef size_t n = vm.stack.len
    if need_values(vm, 2) != OK or append_item(vm.tables, &s[n - 2], &s[n - 1]) != OK:
        return vm.tables.status.code
    vm.stack.len = n - 1
    return OK


cdef inline int op_setitem(VM* vm) noexcept nogil:
    cdef Value* s = values(vm)
    cdef size_t n = vm.stack.len
    if (need_values(vm, 3) != OK
            or set_item(vm.tables, &s[n - 3], &s[n - 2], &s[n - 1]) != OK):
        return vm.tables.status.code
    vm.stack.len = n - 2
    return OK


cdef int keep_list(VM* vm, size_t at, const Value* items, size_t n, Value* out) noexcept nogil:
    # In metadata or settings, turn these values into a kept list, as in JSON. Otherwise `out` is
    # V_UNSET.
    cdef size_t top = vm.stack.len
    cdef uint32_t parent = 0
    cdef uint32_t role
    out.kind = V_UNSET
    if not vm.started or not is_kept(items, n):
        return OK
    vm.stack.len = at
    role = resolve_role(vm, True, &parent)
    vm.stack.len = top
    if role != V_NODE_LIST:
        return OK
    vm.tables.read_bytes = cursor_offset(&vm.cur)
    return keep_tuple(vm.tables, items, n, out)


cdef inline int op_tuple(VM* vm, size_t at, size_t place, size_t n) noexcept nogil:
    # Turn n values from position `at` into a tuple at position `place`: a pair of integers, part of
    # metadata, frames, or unused data.
    cdef Value* s = values(vm)
    cdef Value v
    cdef uint32_t id = 0
    cdef bint pair = n == 2 and s[at].kind == V_INT and s[at + 1].kind == V_INT
    if pair:
        id = pair_of_ints(vm.tables, <int64_t> s[at].num, <int64_t> s[at + 1].num)
        if id == NONE32:
            return fail(&vm.tables.status, ERR_MEMORY, "pools")
    elif keep_list(vm, place, s + at, n, &v) != OK:
        return vm.tables.status.code
    elif v.kind == V_UNSET and open_tuple(vm.tables, s + at, n, &v) != OK:
        return vm.tables.status.code
    vm.stack.len = place
    return push_kind(vm, V_PAIR, 0, id) if pair else push(vm, &v)


cdef inline int op_collect(VM* vm, uint8_t op) noexcept nogil:
    # LIST, DICT, TUPLE, FROZENSET: collect everything above the MARK.
    cdef size_t at = 0
    cdef size_t n
    cdef Value v
    if pop_mark(vm, &at, 0) != OK:
        return vm.tables.status.code
    n = vm.stack.len - at - 1
    if op == TUPLE:
        return op_tuple(vm, at + 1, at, n)
    if op == LIST and n:
        if keep_list(vm, at, values(vm) + at + 1, n, &v) != OK:
            return vm.tables.status.code
        if v.kind != V_UNSET:
            vm.stack.len = at
            return push(vm, &v)
    vm.stack.len = at
    if (op == LIST or op == DICT) and n == 0:
        return op_empty(vm, op == LIST)
    return push_kind(vm, V_OPAQUE, 0, 0 if op == FROZENSET else FILLED_FIRST)


# ---- values with side effects when pushed again --------------------------------------------------

cdef Value* trace_of_next(VM* vm) noexcept nogil:
    # Return the trace to which the next pushed value belongs, or NULL.
    cdef Value* s = values(vm)
    cdef size_t n = vm.stack.len
    cdef size_t base = floor_of(vm)
    if n > base and s[n - 1].kind == V_TRACE:
        return &s[n - 1]
    if base >= 2 and s[base - 2].kind == V_TRACE and (n == base or s[n - 1].kind == V_EVENT):
        return &s[base - 2]
    return NULL


cdef int push_special(VM* vm, Value* v) noexcept nogil:
    # Push a value from the memo or a DUP that may need further steps: an inert function, or an
    # event that may occur in its trace again.
    cdef Value* trace
    if v.kind == V_INERT:
        return op_inert(vm, v.idx)
    trace = trace_of_next(vm)
    vm.tables.read_bytes = cursor_offset(&vm.cur)
    if trace != NULL and repeat_event(vm.tables, trace.idx, v) != OK:
        return vm.tables.status.code
    return push(vm, v)


cdef inline uint64_t swapped_u64(const uint8_t* p) noexcept nogil:
    cdef uint64_t v = 0
    cdef int i
    for i in range(8):
        v = (v << 8) | p[i]
    return v


# ---- the loop ------------------------------------------------------------------------------------

cdef inline int fast_events(VM* vm, const uint8_t** pp) noexcept nogil:
    # Read as many events as the hot path accepts, starting at the EMPTY_DICT at pp. Returns OK if
    # the general path must handle the next opcode, NEED_MORE if the window ends inside an event,
    # else an error.
    cdef size_t base = floor_of(vm)
    cdef size_t i
    cdef Value* s
    cdef Value* trace
    cdef uint64_t before
    cdef int code
    if base < 2 or over_inert(vm):
        return OK
    s = values(vm)
    trace = &s[base - 2]
    if trace.kind != V_TRACE or (vm.stack.len > base and s[vm.stack.len - 1].kind != V_EVENT):
        return OK
    (<uint32_t*> vm.marks.data)[vm.marks.len - 1] |= APPENDED
    # Earlier events are complete, so they needn't stay on the stack until the end of the batch.
    for i in range(base, vm.stack.len):
        if append_item(vm.tables, trace, &s[i]) != OK:
            return vm.tables.status.code
    vm.stack.len = base
    if vm.memo.len != vm.memo_used or trace.idx + 1 != vm.tables.traces.len:
        return OK
    while vm.cur.end > pp[0] and pp[0][0] == EMPTY_DICT:
        before = vm.fast_events
        code = fast_alike(vm, pp, vm.cur.end)
        if code == FAST_NO:
            code = fast_event(vm, pp, vm.cur.end)
        before = vm.fast_events - before
        vm.tables.attached_events += before
        (<Trace*> vm.tables.traces.data)[trace.idx].count += before
        if code == FAST_YES:
            continue
        if code == FAST_ROOM and not vm.cur.eof and vm.cur.end - pp[0] < LOOKAHEAD:
            vm.need = LOOKAHEAD
            return NEED_MORE
        return vm.tables.status.code if code == FAST_FAIL else OK
    return OK


cdef int vm_step(VM* vm) noexcept nogil:
    # Read opcodes until the window is used up (NEED_MORE), the pickle ends (DONE), or an error
    # occurs.
    cdef const uint8_t* p = vm.cur.p
    cdef const uint8_t* start
    cdef int code = OK
    while code == OK:
        if p >= vm.cur.end:
            code = wait_for(vm, p, 1)
            break
        if p[0] == EMPTY_DICT:
            start = p
            code = fast_events(vm, &p)
            vm.cur.p = p
            if code != OK or p != start:
                continue
        code = run_opcode(vm, &p)
        vm.cur.p = p
    vm.cur.p = p
    if code > DONE:
        vm.tables.status.offset = cursor_offset(&vm.cur)
        vm.tables.status.opcode = p[0] if p < vm.cur.end else 0
    return code


cdef inline int run_sized(VM* vm, const uint8_t** pp, uint64_t head, uint64_t n,
                          bint text) noexcept nogil:
    # Execute an opcode of `head` bytes whose argument has n bytes: a string if `text`, else bytes,
    # which are dropped.
    cdef const uint8_t* p = pp[0]
    cdef int code
    if n > vm.limits.string_bytes:
        return fail_limit(&vm.tables.status, "string_bytes", n, vm.limits.string_bytes)
    if <uint64_t> (vm.cur.end - p) < head + n:
        return wait_for(vm, p, head + n)
    code = push_string(vm, p + head, n) if text else push_kind(vm, V_OPAQUE, 0, 0)
    if code == OK:
        pp[0] = p + head + n
    return code


cdef inline int run_opcode(VM* vm, const uint8_t** pp) noexcept nogil:
    # Run one opcode. On OK the cursor is after the opcode, else it's unchanged.
    cdef const uint8_t* p = pp[0]
    cdef uint64_t left = <uint64_t> (vm.cur.end - p)
    cdef uint8_t op = p[0]
    cdef Tables* t = vm.tables
    cdef Value v
    cdef uint64_t n
    cdef size_t at = 0
    cdef int code = OK
    cdef uint64_t used = 1
    cdef bint pairs

    if op == BINGET:
        if left < 2:
            return wait_for(vm, p, 2)
        code = op_get(vm, p[1])
        used = 2
    elif op == LONG_BINGET:
        if left < 5:
            return wait_for(vm, p, 5)
        code = op_get(vm, read_u32(p + 1))
        used = 5
    elif op == MEMOIZE or op == BINPUT or op == LONG_BINPUT:
        if op == MEMOIZE:
            n = vm.memo_used
        else:
            used = 2 if op == BINPUT else 5
            if left < used:
                return wait_for(vm, p, used)
            n = p[1] if op == BINPUT else read_u32(p + 1)
        code = op_put(vm, n)
    elif op == EMPTY_DICT:
        vm.binary = True
        code = op_empty(vm, False)
    elif op == EMPTY_LIST:
        vm.binary = True
        code = op_empty(vm, True)
        if code == OK and values(vm)[vm.stack.len - 1].kind == V_FRAMES:
            used = fast_list(vm, p + 1) - p
            code = t.status.code
    elif op == MARK:
        pairs = vm.stack.len and has_pairs(values(vm)[vm.stack.len - 1].kind)
        if pairs and left < PAIRS_ROOM and not vm.cur.eof:
            return wait_for(vm, p, PAIRS_ROOM)
        code = op_mark(vm)
        if code == OK and pairs:
            used = set_pairs(vm, p + 1) - p
    elif op == SETITEMS:
        code = op_setitems(vm)
    elif op == SETITEM:
        code = op_setitem(vm)
    elif op == APPENDS:
        code = op_appends(vm)
    elif op == APPEND:
        code = op_append(vm)
    elif op == BININT1:
        if left < 2:
            return wait_for(vm, p, 2)
        code = push_kind(vm, V_INT, p[1], 0)
        used = 2
    elif op == BININT2:
        if left < 3:
            return wait_for(vm, p, 3)
        code = push_kind(vm, V_INT, read_u16(p + 1), 0)
        used = 3
    elif op == BININT:
        if left < 5:
            return wait_for(vm, p, 5)
        code = push_kind(vm, V_INT, <uint64_t> <int64_t> <int32_t> read_u32(p + 1), 0)
        used = 5
    elif op == LONG1:
        if left < 2:
            return wait_for(vm, p, 2)
        used = 2 + <uint64_t> p[1]
        if left < used:
            return wait_for(vm, p, used)
        code = push_long(vm, p + 2, p[1])
    elif op == LONG4:
        if left < 5:
            return wait_for(vm, p, 5)
        n = read_u32(p + 1)
        if n > 0x7FFFFFFF:
            return fail(&t.status, ERR_STACK, "a negative length")
        if n > vm.limits.string_bytes:
            return fail_limit(&t.status, "string_bytes", n, vm.limits.string_bytes)
        used = 5 + n
        if left < used:
            return wait_for(vm, p, used)
        code = push_long(vm, p + 5, n)
    elif op == BINFLOAT:
        if left < 9:
            return wait_for(vm, p, 9)
        code = push_kind(vm, V_FLOAT, swapped_u64(p + 1), 0)
        used = 9
    elif op == NONE:
        code = push_kind(vm, V_NONE, 0, 0)
    elif op == NEWTRUE:
        code = push_kind(vm, V_TRUE, 0, 0)
    elif op == NEWFALSE:
        code = push_kind(vm, V_FALSE, 0, 0)
    elif op == SHORT_BINUNICODE or op == SHORT_BINSTRING:
        if left < 2:
            return wait_for(vm, p, 2)
        code = run_sized(vm, &p, 2, p[1], True)
        used = 0
    elif op == BINUNICODE or op == BINSTRING:
        if left < 5:
            return wait_for(vm, p, 5)
        code = run_sized(vm, &p, 5, read_u32(p + 1), True)
        used = 0
    elif op == BINUNICODE8:
        if left < 9:
            return wait_for(vm, p, 9)
        code = run_sized(vm, &p, 9, read_u64(p + 1), True)
        used = 0
    elif op == SHORT_BINBYTES:
        if left < 2:
            return wait_for(vm, p, 2)
        code = run_sized(vm, &p, 2, p[1], False)
        used = 0
    elif op == BINBYTES:
        if left < 5:
            return wait_for(vm, p, 5)
        code = run_sized(vm, &p, 5, read_u32(p + 1), False)
        used = 0
    elif op == BINBYTES8 or op == BYTEARRAY8:
        if left < 9:
            return wait_for(vm, p, 9)
        code = run_sized(vm, &p, 9, read_u64(p + 1), False)
        used = 0
    elif op == TUPLE1 or op == TUPLE2 or op == TUPLE3:
        n = op - TUPLE1 + 1
        if ends_call(vm, n):
            used = 2
            if left < used:
                return wait_for(vm, p, used)
            code = call_inert(vm, p, n, &used)
        else:
            code = need_values(vm, n)
            if code == OK:
                code = op_tuple(vm, vm.stack.len - n, vm.stack.len - n, n)
    elif op == EMPTY_TUPLE and ends_bytes(vm):
        used = 2
        if left < used:
            return wait_for(vm, p, used)
        code = call_inert(vm, p, 0, &used)
    elif op == EMPTY_TUPLE:
        code = op_tuple(vm, vm.stack.len, vm.stack.len, 0)
    elif op == EMPTY_SET:
        code = push_kind(vm, V_OPAQUE, 0, 0)
    elif op == TUPLE and marks_arguments(vm):
        used = 2
        if left < used:
            return wait_for(vm, p, used)
        n = vm.stack.len - floor_of(vm)
        vm.marks.len -= 1
        code = call_inert(vm, p, n, &used)
    elif op == TUPLE or op == LIST or op == DICT or op == FROZENSET:
        code = op_collect(vm, op)
    elif op == ADDITEMS or op == POP_MARK:
        code = pop_mark(vm, &at, 0)
        if code == OK:
            vm.stack.len = at
            code = need_values(vm, 1) if op == ADDITEMS else OK
    elif op == POP:
        if vm.stack.len > floor_of(vm):
            vm.stack.len -= 1
        else:
            code = pop_mark(vm, &at, 0)
            if code == OK:
                vm.stack.len = at
    elif op == DUP:
        code = need_values(vm, 1)
        if code == OK:
            v = values(vm)[vm.stack.len - 1]
            code = push_special(vm, &v) if v.kind == V_EVENT else push(vm, &v)
    elif op == FRAME:
        # A FRAME only reflects the writer's buffering, but STOP checks where the last FRAME ends.
        if left < 9:
            return wait_for(vm, p, 9)
        n = frame_end_at(vm, p)
        if n == 0:
            return fail(&t.status, ERR_SHAPE, "a FRAME longer than any possible file")
        vm.frame_end = n
        used = 9
    elif op == PROTO:
        if left < 2:
            return wait_for(vm, p, 2)
        if p[1] > 5:
            t.status.a = p[1]
            return fail(&t.status, ERR_OPCODE, "protocol")
        vm.protocol = p[1]
        used = 2
    elif op == STOP:
        code = need_values(vm, 1)
        if code == OK and vm.frame_end > vm.cur.origin + <uint64_t> (p - vm.cur.base) + 1:
            code = fail(&t.status, ERR_SHAPE, "a FRAME that ends after the pickle does")
        if code == OK:
            v = values(vm)[vm.stack.len - 1]
            if (v.kind != V_ROOT and v.kind != V_SEGMENTS and not t.unwrapped
                    and not (t.found and v.kind == V_OPAQUE)):
                code = fail(&t.status, ERR_SHAPE, "top")
                t.status.a = v.kind
            else:
                if v.kind == V_SEGMENTS:
                    t.has_segments = t.bare_list
                t.unwrapped |= v.kind == V_OPAQUE    # the first value of a tuple
                if vm.protocol < 0:
                    vm.protocol = 1 if vm.binary else 0
                pp[0] = p + 1
                return DONE
    elif op == REDUCE and takes_arguments(vm):
        vm.stack.len = top_mark(vm)
        vm.marks.len -= 1
        code = push_kind(vm, V_OPAQUE, 0, 0)
    elif (op == GLOBAL or op == STACK_GLOBAL or op == REDUCE or op == BUILD or op == INST
            or op == OBJ or op == NEWOBJ or op == NEWOBJ_EX or op == EXT1 or op == EXT2
            or op == EXT4 or op == PERSID or op == BINPERSID):
        if (op == GLOBAL or op == INST) and not vm.cur.eof and left < 512:
            return wait_for(vm, p, 512)
        return run_global(vm, pp) if op == GLOBAL else unsafe(vm, p, vm.cur.end)
    elif is_text_opcode(op):
        used = 0
        code = run_text(vm, &p)
    else:
        return fail(&t.status, ERR_OPCODE, "")
    if code == OK:
        pp[0] = p + used
    return code


cdef int vm_step_any(void* reader) noexcept nogil:
    return vm_step(<VM*> reader)
