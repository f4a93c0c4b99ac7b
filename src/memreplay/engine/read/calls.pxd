# Calls that are read as data: recognise the opcodes that end such a call, and produce its result.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from memreplay.engine.base.hashmap cimport span_at
from memreplay.engine.base.status cimport OK
from memreplay.engine.read.inert cimport BUILD_INTLIST, CODECS_ENCODE, EMPTY_BYTES
from memreplay.engine.read.opcodes cimport REDUCE
from memreplay.engine.read.stack cimport (
    ARGUMENTS, INERT, POSITION, floor_of, inert_misused, over_inert, push_kind, top_mark, values
)
from memreplay.engine.read.value cimport V_OPAQUE, V_STR, Value, is_dict, is_list
from memreplay.engine.read.vm cimport VM


cdef inline bint ends_call(VM* vm, size_t n) noexcept nogil:
    # Whether exactly n values are above an inert function.
    return over_inert(vm) and vm.stack.len == floor_of(vm) + n


cdef inline bint ends_bytes(VM* vm) noexcept nogil:
    # Whether an EMPTY_TUPLE is the argument tuple for EMPTY_BYTES.
    return ends_call(vm, 0) and values(vm)[top_mark(vm)].idx == EMPTY_BYTES


cdef inline bint is_latin1(VM* vm, const Value* v) noexcept nogil:
    cdef size_t size = 0
    cdef const uint8_t* text
    if v.kind != V_STR:
        return False
    text = span_at(&vm.tables.strings, v.idx, &size)
    return size == 6 and memcmp(text, b"latin1", 6) == 0


cdef inline bint takes_arguments(VM* vm) noexcept nogil:
    # Whether only REDUCE is missing from a call of CODECS_ENCODE, because its arguments are right
    # above it.
    cdef Value* s = values(vm)
    cdef size_t at
    if not over_inert(vm):
        return False
    at = top_mark(vm)
    return (s[at].idx == CODECS_ENCODE and vm.stack.len == at + 2
            and s[at + 1].kind == V_OPAQUE and s[at + 1].num == ARGUMENTS)


cdef inline int call_inert(VM* vm, const uint8_t* p, size_t n, uint64_t* used) noexcept nogil:
    # The tuple opcode at p makes the n topmost values the arguments for the inert function below
    # them. If REDUCE follows, the call's result is its first argument. `used` is set to the number
    # of bytes read. The arguments for CODECS_ENCODE may be stored in the memo before REDUCE, so for
    # that function REDUCE isn't read here.
    cdef size_t at = top_mark(vm)
    cdef Value* s = values(vm)
    cdef Value* first = &s[vm.stack.len - n]
    cdef bint fits
    if s[at].idx == CODECS_ENCODE:
        if n != 2 or first.kind != V_STR or not is_latin1(vm, &first[1]):
            return inert_misused(vm)
        used[0] = 1
        vm.stack.len = at + 1
        return push_kind(vm, V_OPAQUE, ARGUMENTS, 0)
    if s[at].idx == EMPTY_BYTES:
        if n or p[1] != REDUCE:
            return inert_misused(vm)
        vm.stack.len = at
        vm.marks.len -= 1
        return push_kind(vm, V_OPAQUE, 0, 0)
    if s[at].idx == BUILD_INTLIST:
        fits = n == 1 and is_list(first.kind)
    else:
        fits = n == 2 and first[1].kind == V_STR and (is_list(first.kind) or is_dict(first.kind))
    if not fits or p[1] != REDUCE:
        return inert_misused(vm)
    s[at] = first[0]
    vm.stack.len = at + 1
    vm.marks.len -= 1
    return OK


cdef inline bint marks_arguments(VM* vm) noexcept nogil:
    # Whether the topmost MARK is directly above an inert function.
    cdef uint32_t* marks = <uint32_t*> vm.marks.data
    cdef size_t k = vm.marks.len
    return k >= 2 and marks[k - 2] & INERT and top_mark(vm) == (marks[k - 2] & POSITION) + 1
