# Read events that are written like an event before them, without looking up their keys.
#
# A file's events nearly always have the same keys in the same order, so most bytes are equal to the
# bytes of the event before: fast_event reads one, layouts.pxd notes how it was written, and
# alike_events compares the next events with that. An event that differs is left to fast_event.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport read_u64
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport load64
from memreplay.engine.base.status cimport ERR_MEMORY, fail
from memreplay.engine.read.fast cimport (
    FAST_FAIL, FAST_NO, FAST_YES, ROOM, fast_action, fast_frames, fast_int, fast_put, fast_row,
    fast_value,
)
from memreplay.engine.read.memo cimport memo_entry
from memreplay.engine.read.opcodes cimport EMPTY_DICT, MARK, SETITEMS
from memreplay.engine.read.tables cimport Event, MAX_BYTES, Tables, is_plain
from memreplay.engine.read.value cimport V_EVENT
from memreplay.engine.read.vm cimport (
    STEP_ACTION, STEP_BYTES, STEP_FRAMES, STEP_INT, STEP_SAME, Step, VM,
)

cdef enum:
    MOST = 1024         # more bytes than an event's steps take, without frames
    PUTS = 32           # more memo entries than an event's steps store


cdef inline int other_value(VM* vm, uint32_t key, const uint8_t** p, const uint8_t* end,
                            uint64_t* n) noexcept nogil:
    return fast_value(vm, key, p, end, n)


cdef inline bint differs(const Step* step, const uint8_t* p, int at) noexcept nogil:
    # Whether 16 bytes at p, from word `at` on, aren't the step's.
    return ((load64(p + 8 * at) ^ step.bytes[at]) & step.mask[at]
            | (load64(p + 8 * at + 8) ^ step.bytes[at + 1]) & step.mask[at + 1]) != 0


cdef inline int alike_event(VM* vm, const uint8_t** pp, const uint8_t* end,
                            bint plain) noexcept nogil:
    # Read one event that has the learned layout into a row, starting at its EMPTY_DICT. `plain` if
    # push_plain() may be used.
    cdef Tables* t = vm.tables
    cdef Event* e = &vm.event
    cdef const Step* step = vm.layout.steps
    cdef const Step* last = step + vm.layout.count
    cdef const uint8_t* p = pp[0] + 1
    cdef const uint8_t* at
    cdef uint32_t* memo
    cdef uint64_t n = vm.memo.len
    cdef uint64_t after
    cdef int code
    if vm.memo.cap - n < PUTS and buf_reserve(&vm.memo, PUTS) < 0:
        fail(&t.status, ERR_MEMORY, "memo")
        return FAST_FAIL
    memo = <uint32_t*> vm.memo.data
    if not fast_put(&p, memo, &n, memo_entry(V_EVENT, <uint32_t> t.read_events)) or p[0] != MARK:
        return FAST_NO
    p += 1
    while step != last:
        if differs(step, p, 0) or (step.size > 16 and differs(step, p, 2)):
            return FAST_NO
        p += step.size
        if step.entry:
            memo[n] = step.entry
            n += 1
        if step.kind == STEP_BYTES:
            after = 64 - 8 * step.long_size
            (<int64_t*> (<char*> e + step.field))[0] = (<int64_t> (read_u64(p) << after)) >> after
            p += step.long_size
        elif step.kind == STEP_INT:
            if not fast_int(&p, <int64_t*> (<char*> e + step.field)):
                return FAST_NO
        elif step.kind == STEP_ACTION:
            if not fast_action(vm, &p, n):
                return FAST_NO
        elif step.kind != STEP_SAME:
            if end - p < ROOM:
                return FAST_NO
            # Use copies, because the compiler keeps variables in memory if another unit has their
            # address.
            at = p
            after = n
            if step.kind == STEP_FRAMES:
                code = fast_frames(vm, &at, end, &after)
            else:
                code = other_value(vm, step.key, &at, end, &after)
            if code != FAST_YES:
                return code
            p = at
            n = after
            memo = <uint32_t*> vm.memo.data   # may have moved
            if end - p < MOST or vm.memo.cap - n < PUTS:
                return FAST_NO
        step += 1
    if p[0] != SETITEMS or e.size < 0 or e.size > MAX_BYTES:
        return FAST_NO
    return fast_row(vm, pp, p, n, plain)


cdef inline int alike_events(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil:
    # Read as many events as have the learned layout. Returns FAST_NO at one that may have another.
    cdef int code = FAST_YES
    cdef uint64_t before = vm.fast_events
    cdef bint plain
    if vm.layout.count == 0 or vm.tables.nul_strings:
        return FAST_NO
    vm.event = vm.layout.event
    plain = vm.layout.plain and is_plain(vm.tables, &vm.event)
    while code == FAST_YES:
        if end - pp[0] < MOST or pp[0][0] != EMPTY_DICT:
            code = FAST_NO
        else:
            code = alike_event(vm, pp, end, plain)
    before = vm.fast_events - before
    vm.layout.read += before
    vm.alike_events += before
    return code if code == FAST_FAIL or before == 0 else FAST_YES
