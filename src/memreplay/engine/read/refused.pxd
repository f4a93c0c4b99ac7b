# Refuse opcodes that import or call something, except for functions that are read as data.
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, strlen
from memreplay.engine.base.hashmap cimport span_at
from memreplay.engine.base.status cimport ERR_UNSAFE, Status, set_detail_bytes
from memreplay.engine.read.opcodes cimport GLOBAL, INST, STACK_GLOBAL
from memreplay.engine.read.inert cimport INERTS, inert_global
from memreplay.engine.read.stack cimport inert_misused, op_inert, over_inert, values
from memreplay.engine.read.value cimport V_STR, Value
from memreplay.engine.read.vm cimport VM


cdef inline int unsafe(VM* vm, const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Report an opcode that imports or calls something, and stop.
    cdef Status* st = &vm.tables.status
    cdef Value* s = values(vm)
    cdef size_t n = vm.stack.len
    cdef size_t size = 0
    cdef size_t used = 0
    cdef const uint8_t* text
    cdef uint8_t[240] name
    st.code = ERR_UNSAFE
    st.detail[0] = 0
    if p[0] == GLOBAL or p[0] == INST:
        # The argument has two lines: module and name.
        text = p + 1
        while text < end and used < sizeof(name):
            if text[0] == 10:
                size += 1
                if size == 2:
                    break
                name[used] = 46
            else:
                name[used] = text[0]
            used += 1
            text += 1
        set_detail_bytes(st, name, used)
    elif p[0] == STACK_GLOBAL and n >= 2 and s[n - 1].kind == V_STR and s[n - 2].kind == V_STR:
        text = span_at(&vm.tables.strings, s[n - 2].idx, &size)
        used = size if size < 100 else 100
        memcpy(name, text, used)
        name[used] = 46
        used += 1
        text = span_at(&vm.tables.strings, s[n - 1].idx, &size)
        if size > 100:
            size = 100
        memcpy(name + used, text, size)
        set_detail_bytes(st, name, used + size)
    elif over_inert(vm):
        return inert_misused(vm)
    return ERR_UNSAFE


cdef inline int run_global(VM* vm, const uint8_t** pp) noexcept nogil:
    # GLOBAL: accept only the inert functions, spelled exactly.
    cdef uint32_t which
    cdef const char* name
    cdef size_t n
    for which in range(INERTS):
        name = inert_global(which)
        n = strlen(name)
        if <size_t> (vm.cur.end - pp[0]) >= n and memcmp(pp[0], name, n) == 0:
            pp[0] += n
            return op_inert(vm, which)
    return unsafe(vm, pp[0], vm.cur.end)
