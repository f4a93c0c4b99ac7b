# The memo: four bytes per entry for a value's kind and index. Numbers are in a second table.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.cursor cimport cursor_offset
from memreplay.engine.base.growbuf cimport buf_reserve, push_item, push_u64
from memreplay.engine.base.hashmap cimport NONE32, spans_free, spans_init, spans_intern
from memreplay.engine.base.status cimport ERR_MEMO, ERR_MEMORY, OK, fail, fail_limit
from memreplay.engine.read.value cimport SCALARS_IN_MEMO, Value
from memreplay.engine.read.vm cimport VM, RawStack

cdef enum:
    INDEX_BITS = 27
    INDEX_MASK = (1 << 27) - 1
    INDEX_SLACK = 1 << 16


cdef inline uint32_t memo_entry(uint32_t kind, uint32_t idx) noexcept nogil:
    return (kind << INDEX_BITS) | idx


cdef inline int memo_reserve(VM* vm, uint64_t index) noexcept nogil:
    # Ensure that entry `index` exists. Storing an entry takes at least one byte of input, so an
    # index far above the number of bytes read so far is bogus.
    cdef size_t old = vm.memo.len
    cdef uint64_t most = cursor_offset(&vm.cur) + INDEX_SLACK
    if index < old:
        return OK
    if most > vm.limits.memo:
        most = vm.limits.memo
    if index >= most:
        return fail_limit(&vm.tables.status, "memo_entries", index + 1, most)
    if buf_reserve(&vm.memo, index + 1 - old) < 0:
        return fail(&vm.tables.status, ERR_MEMORY, "memo")
    memset(vm.memo.data + old * 4, 0, (index + 1 - old) * 4)
    vm.memo.len = index + 1
    return OK


cdef inline int raw_init(VM* vm, uint64_t seed) noexcept nogil:
    # Initialize the table in which frames lists are looked up by their bytes. Row 0 stands for the
    # start.
    cdef RawStack start
    start.stack = 0
    start.puts = 0
    start.memo_at = 0
    vm.raw_last = 0
    vm.raw_before = 0
    vm.raw_info.len = 0
    if spans_init(&vm.raw, seed) < 0 or spans_intern(&vm.raw, b"", 0) != 0:
        return -1
    return push_item(&vm.raw_info, &start)


cdef inline int raw_forget(VM* vm) noexcept nogil:
    # Discard all cached lists and frames, because equal bytes no longer mean equal frames and
    # stacks.
    cdef uint64_t seed = vm.raw.seed
    vm.forgotten = vm.written_bytes.len
    vm.layout.count = 0
    if vm.raw_info.len == 1:
        return 0
    spans_free(&vm.raw)
    return raw_init(vm, seed)


cdef inline int memo_put(VM* vm, uint64_t index, const Value* v) noexcept nogil:
    cdef uint32_t* slot
    cdef uint32_t idx = v.idx
    if memo_reserve(vm, index) != OK:
        return vm.tables.status.code
    if (<uint32_t> SCALARS_IN_MEMO >> v.kind) & 1:
        if vm.memo_num.len > INDEX_MASK:
            return fail_limit(&vm.tables.status, "memo_entries", vm.memo_num.len, INDEX_MASK)
        idx = <uint32_t> vm.memo_num.len
        if idx and (<uint64_t*> vm.memo_num.data)[idx - 1] == v.num:
            idx -= 1   # same number as before: share it
        elif push_u64(&vm.memo_num, v.num) < 0:
            return fail(&vm.tables.status, ERR_MEMORY, "memo")
    if idx > INDEX_MASK:
        return fail_limit(&vm.tables.status, "memo_entries", idx, INDEX_MASK)
    slot = <uint32_t*> vm.memo.data + index
    if slot[0] == 0:
        vm.memo_used += 1
    elif slot[0] != memo_entry(v.kind, idx) and raw_forget(vm) < 0:
        # No known writer reuses an entry, but a file may.
        return fail(&vm.tables.status, ERR_MEMORY, "memo")
    slot[0] = memo_entry(v.kind, idx)
    return OK


cdef inline int memo_get(VM* vm, uint64_t index, Value* out) noexcept nogil:
    cdef uint32_t entry = 0
    if index < vm.memo.len:
        entry = (<uint32_t*> vm.memo.data)[index]
    if entry == 0:
        vm.tables.status.a = index
        return fail(&vm.tables.status, ERR_MEMO, "")
    out.kind = entry >> INDEX_BITS
    out.idx = entry & INDEX_MASK
    out.num = 0
    if (<uint32_t> SCALARS_IN_MEMO >> out.kind) & 1:
        out.num = (<uint64_t*> vm.memo_num.data)[out.idx]
        out.idx = 0
    return OK
