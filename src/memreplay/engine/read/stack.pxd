# The value stack: values, MARKs, and checks that opcodes only take values from above the topmost
# MARK.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport read_long, read_u64
from memreplay.engine.base.growbuf cimport buf_reserve, push_u32
from memreplay.engine.base.hashmap cimport NONE32, spans_intern
from memreplay.engine.read.inert cimport BUILD_INTLIST, CODECS_ENCODE, EMPTY_BYTES
from memreplay.engine.read.memo cimport INDEX_MASK, memo_get, memo_put
from memreplay.engine.base.status cimport (
    ERR_MEMORY, ERR_SHAPE, ERR_STACK, ERR_TRUNCATED, ERR_UNSAFE, NEED_MORE, OK, fail, fail_limit
)
from memreplay.engine.read.value cimport (
    V_BIG, V_EVENT, V_INERT, V_INT, V_MARK, V_STR, V_UINT, Value,
)
from memreplay.engine.read.vm cimport VM, push_special

cdef extern from *:
    # In an entry of `marks`: the events above this MARK were already appended to the list below it.
    const uint32_t APPENDED "0x80000000u"
    # This isn't a MARK but an inert function that waits for its arguments (see op_inert).
    const uint32_t INERT "0x40000000u"
    # The items above this MARK were already set in the dict below it.
    const uint32_t ITEMS_SET "0x20000000u"
    # The other bits are the stack position.
    const uint32_t POSITION "0x1fffffffu"
    # larger than any file, yet small enough that sums can't wrap
    const uint64_t MAX_FRAME "(1ull << 62)"

cdef enum:
    ARGUMENTS = 1    # `num` of a V_OPAQUE right above CODECS_ENCODE, for valid arguments


cdef inline uint64_t frame_end_at(VM* vm, const uint8_t* p) noexcept nogil:
    # Return the offset at which the FRAME at p ends; 0 if it's longer than any file can be.
    cdef uint64_t size = read_u64(p + 1)
    return 0 if size > MAX_FRAME else vm.cur.origin + <uint64_t> (p - vm.cur.base) + 9 + size


cdef inline Value* values(VM* vm) noexcept nogil:
    return <Value*> vm.stack.data


cdef inline int push(VM* vm, const Value* v) noexcept nogil:
    if vm.stack.len >= vm.limits.values:
        return fail_limit(&vm.tables.status, "stack_values", vm.stack.len + 1, vm.limits.values)
    if vm.stack.len == vm.stack.cap and buf_reserve(&vm.stack, 1) < 0:
        return fail(&vm.tables.status, ERR_MEMORY, "stack")
    values(vm)[vm.stack.len] = v[0]
    vm.stack.len += 1
    return OK


cdef inline int push_kind(VM* vm, uint32_t kind, uint64_t num, uint32_t idx) noexcept nogil:
    cdef Value v
    v.kind = kind
    v.num = num
    v.idx = idx
    return push(vm, &v)


cdef inline size_t top_mark(VM* vm) noexcept nogil:
    return (<uint32_t*> vm.marks.data)[vm.marks.len - 1] & POSITION


cdef inline bint over_inert(VM* vm) noexcept nogil:
    # Whether the topmost MARK is an inert function.
    return vm.marks.len != 0 and (<uint32_t*> vm.marks.data)[vm.marks.len - 1] & INERT != 0


cdef inline int inert_misused(VM* vm) noexcept nogil:
    # Refuse any use of an inert function other than the calls that TorchScript and pickle write.
    cdef uint32_t which = values(vm)[top_mark(vm)].idx
    if which == BUILD_INTLIST:
        return fail(&vm.tables.status, ERR_UNSAFE, "torch.jit._pickle.build_intlist")
    if which == CODECS_ENCODE:
        return fail(&vm.tables.status, ERR_UNSAFE, "_codecs.encode")
    if which == EMPTY_BYTES:
        return fail(&vm.tables.status, ERR_UNSAFE, "__builtin__.bytes")
    return fail(&vm.tables.status, ERR_UNSAFE, "torch.jit._pickle.restore_type_tag")


cdef inline size_t floor_of(VM* vm) noexcept nogil:
    # Return the lowest stack position that opcodes may take values from, just above the topmost
    # MARK.
    return top_mark(vm) + 1 if vm.marks.len else 0


cdef inline int need_values(VM* vm, size_t n) noexcept nogil:
    # Require n values above the topmost MARK.
    if vm.stack.len < floor_of(vm) + n:
        if over_inert(vm):
            return inert_misused(vm)
        return fail(&vm.tables.status, ERR_STACK, "too few values")
    return OK


cdef inline int op_mark(VM* vm) noexcept nogil:
    if vm.marks.len >= vm.limits.depth:
        return fail_limit(&vm.tables.status, "nesting_depth", vm.marks.len + 1, vm.limits.depth)
    if push_u32(&vm.marks, <uint32_t> vm.stack.len) < 0:
        return fail(&vm.tables.status, ERR_MEMORY, "marks")
    return push_kind(vm, V_MARK, 0, 0)


cdef inline int op_inert(VM* vm, uint32_t which) noexcept nogil:
    # Push an inert function as a MARK, so that nothing can use the function or the values below it
    # until the call removes the MARK.
    if op_mark(vm) != OK:
        return vm.tables.status.code
    (<uint32_t*> vm.marks.data)[vm.marks.len - 1] |= INERT
    values(vm)[vm.stack.len - 1].idx = which
    return OK


cdef inline int op_put(VM* vm, uint64_t index) noexcept nogil:
    # Store the topmost value in the memo.
    cdef Value v
    if vm.stack.len == floor_of(vm) and over_inert(vm):
        v = values(vm)[vm.stack.len - 1]
        v.kind = V_INERT
        return memo_put(vm, index, &v)
    if need_values(vm, 1) != OK:
        return vm.tables.status.code
    return memo_put(vm, index, &values(vm)[vm.stack.len - 1])


cdef inline int op_get(VM* vm, uint64_t index) noexcept nogil:
    # Push a value from the memo.
    cdef Value v
    if memo_get(vm, index, &v) != OK:
        return vm.tables.status.code
    if v.kind == V_EVENT or v.kind == V_INERT:
        return push_special(vm, &v)
    return push(vm, &v)


cdef inline int pop_mark(VM* vm, size_t* at, uint32_t by) noexcept nogil:
    # Close the topmost MARK and return its position. The values above the MARK stay. `by` is
    # APPENDED for APPENDS, ITEMS_SET for SETITEMS, else 0.
    cdef uint32_t taken
    if vm.marks.len == 0:
        return fail(&vm.tables.status, ERR_STACK, "no MARK")
    if over_inert(vm):
        return inert_misused(vm)
    at[0] = top_mark(vm)
    vm.marks.len -= 1
    taken = (<uint32_t*> vm.marks.data)[vm.marks.len] & (APPENDED | ITEMS_SET)
    if taken & ~by:
        # The values above this MARK were already stored.
        if taken & APPENDED:
            return fail(&vm.tables.status, ERR_SHAPE, "events that aren't appended to their trace")
        return fail(&vm.tables.status, ERR_SHAPE, "items that aren't set in their dict")
    return OK


cdef inline int push_string(VM* vm, const uint8_t* p, uint64_t n) noexcept nogil:
    vm.tables.nul_strings |= n > 0 and p[0] == 0
    cdef uint32_t id = spans_intern(&vm.tables.strings, p, n)
    if id == NONE32:
        return fail(&vm.tables.status, ERR_MEMORY, "strings")
    if id > INDEX_MASK:
        return fail_limit(&vm.tables.status, "strings", id, INDEX_MASK)
    return push_kind(vm, V_STR, 0, id)


cdef inline int push_long(VM* vm, const uint8_t* p, uint64_t n) noexcept nogil:
    # Push a two's complement integer of n bytes. If it exceeds 64 bits, only that fact is kept.
    cdef uint8_t fill
    cdef uint64_t m = n
    if n <= 8:
        return push_kind(vm, V_INT, <uint64_t> read_long(p, n), 0)
    fill = 0xFF if p[n - 1] & 0x80 else 0
    while m > 8 and p[m - 1] == fill:
        m -= 1
    if m > 8:
        return push_kind(vm, V_BIG, 0, 0)
    if fill == 0 and p[7] & 0x80:
        return push_kind(vm, V_UINT, read_u64(p), 0)
    if fill and not p[7] & 0x80:
        return push_kind(vm, V_BIG, 0, 0)
    return push_kind(vm, V_INT, read_u64(p), 0)


cdef inline int wait_for(VM* vm, const uint8_t* p, uint64_t n) noexcept nogil:
    # The opcode at p takes n bytes, but the window has fewer left.
    cdef uint64_t left = <uint64_t> (vm.cur.end - p)
    if not vm.cur.eof:
        vm.need = n
        return NEED_MORE
    vm.tables.status.a = n
    vm.tables.status.b = left
    return fail(&vm.tables.status, ERR_TRUNCATED, "")
