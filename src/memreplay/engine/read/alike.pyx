"""Read events that are written like an event before them, without looking up their keys.

A file's events nearly always have the same keys in the same order, so most of an event's bytes are
those of the event before it: fast_event reads one, alike_learn notes its layout, and alike_events
compares the next events with that. An event that differs is left to fast_event.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from memreplay.engine.base.cursor cimport read_u64
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, hash_span, load64
from memreplay.engine.base.status cimport ERR_MEMORY, fail
from memreplay.engine.read.fast cimport (
    FAST_FAIL, FAST_NO, FAST_YES, ROOM, fast_action, fast_frames, fast_int, fast_put, fast_row,
    fast_value, get_length,
)
from memreplay.engine.read.keys cimport (
    K_ACTION, K_ADDR, K_COMPILE_CONTEXT, K_FRAMES, K_POOL_ID, K_SIZE, K_STREAM, K_TIME_US,
    K_USER_METADATA,
)
from memreplay.engine.read.memo cimport memo_entry
from memreplay.engine.read.opcodes cimport (
    BINPUT, EMPTY_DICT, EMPTY_LIST, LONG1, MARK, MEMOIZE, SETITEMS,
)
from memreplay.engine.read.tables cimport Event, MAX_BYTES, Tables, is_plain
from memreplay.engine.read.value cimport V_EVENT
from memreplay.engine.read.vm cimport (
    Layout, MAX_STEPS, STEP_ACTION, STEP_BYTES, STEP_FRAMES, STEP_INT, STEP_OTHER, STEP_SAME, Step,
    VM,
)

cdef enum:
    MOST = 1024         # more bytes than an event's steps take, without frames
    PUTS = 32           # more memo entries than an event's steps store
    MAX_VALUE = 16      # bytes of a value that can be part of a step
    KEY_BYTES = 7       # at most: a LONG_BINGET, and the start of a LONG1
    OTHER_KEYS = 63     # in sets of keys, the bit for all others
    USELESS = 8         # after this many useless layouts in a row, learning pauses
    PAUSE = 1000        # length of the pause, in events


cdef int other_value(VM* vm, uint32_t key, const uint8_t** p, const uint8_t* end,
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


cdef int alike_events(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil:
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


# ---- learning ------------------------------------------------------------------------------------

cdef bint alike_begin(VM* vm) noexcept nogil:
    # Begin to learn the layout of the event that fast_event reads next. False during a pause.
    cdef Layout* layout = &vm.layout
    if layout.pause:
        layout.pause -= 1
        return False
    if layout.count:
        layout.useless = 0 if layout.read else layout.useless + 1
    layout.count = 0
    layout.noted = 0
    layout.keys = 0
    layout.plain = True
    return True


cdef void alike_end(VM* vm) noexcept nogil:
    # Read the next events with the layout, if it's complete.
    cdef Layout* layout = &vm.layout
    layout.count = layout.noted if layout.noted <= MAX_STEPS else 0
    layout.read = 0
    layout.event = vm.event
    if layout.useless >= USELESS:
        layout.useless = 0
        layout.pause = PAUSE


cdef void alike_note(VM* vm, uint32_t key, const uint8_t* at, const uint8_t* stop,
                     uint32_t entry) noexcept nogil:
    # Learn a key and its value, which are the bytes from `at` to `stop`. `entry` is what the value
    # stored in the memo: 0 for nothing, NONE32 for several entries.
    cdef Layout* layout = &vm.layout
    cdef uint32_t place = key if key < OTHER_KEYS else OTHER_KEYS
    cdef uint64_t bit = <uint64_t> 1 << place
    cdef const uint8_t* value = at + get_length(at[0])
    cdef Step* step
    cdef bint same
    if layout.noted > MAX_STEPS or (key < OTHER_KEYS and layout.keys & bit):
        # There are too many keys, or this one occurs twice.
        layout.noted = MAX_STEPS + 1
        return
    layout.keys |= bit
    same = key != K_ACTION and key != K_FRAMES and is_same(value, stop, entry)
    if same:
        if varies(layout, place, value, stop):
            layout.varying |= bit
        same = not layout.varying & bit
    step = step_for(layout, <size_t> (stop - at) if same else 0, entry if same else 0)
    if step == NULL:
        return
    step.key = key
    if same:
        add_bytes(step, at, stop)
        step.entry |= entry
        return
    if key == K_COMPILE_CONTEXT or key == K_USER_METADATA or key == K_POOL_ID:
        layout.plain = False
    step.kind = kind_of(vm, key, value, step)
    if step.kind == STEP_BYTES:
        step.long_size = value[1]
        value += 2
    add_bytes(step, at, value)


cdef Step* step_for(Layout* layout, size_t size, uint32_t entry) noexcept nogil:
    # Return the last step if it's open and has room, else a new one; NULL if there are too many.
    cdef Step* step
    if layout.noted:
        step = &layout.steps[layout.noted - 1]
        if (step.kind == STEP_SAME and step.size + max(size, KEY_BYTES) <= sizeof(step.bytes)
                and not (step.entry and entry)):
            return step
    if layout.noted >= MAX_STEPS:
        layout.noted = MAX_STEPS + 1
        return NULL
    step = &layout.steps[layout.noted]
    layout.noted += 1
    memset(step, 0, sizeof(Step))
    step.kind = STEP_SAME
    return step


cdef bint varies(Layout* layout, uint32_t place, const uint8_t* value,
                 const uint8_t* stop) noexcept nogil:
    # Note a value, and return whether the key had another one before.
    cdef uint64_t before = layout.values[place]
    cdef uint64_t now = hash_span(value, <size_t> (stop - value), 0) | 1
    layout.values[place] = now
    return before != 0 and before != now


cdef bint is_same(const uint8_t* value, const uint8_t* stop, uint32_t entry) noexcept nogil:
    # Whether a value with equal bytes, including its key's, is the same value.
    if stop - value > MAX_VALUE or value[0] == EMPTY_LIST or entry == NONE32:
        return False
    # BINPUT has the memo entry's index, which is another one next time.
    return entry == 0 or (stop[-1] == MEMOIZE and stop[-2] != BINPUT)


cdef uint8_t kind_of(VM* vm, uint32_t key, const uint8_t* value, Step* step) noexcept nogil:
    # Return how to read values that vary.
    cdef const char* e = <const char*> &vm.event
    if key == K_ACTION:
        return STEP_ACTION
    if key == K_FRAMES:
        return STEP_FRAMES
    if key == K_ADDR:
        step.field = <uint16_t> (<const char*> &vm.event.address - e)
        return STEP_BYTES if value[0] == LONG1 else STEP_INT
    if key == K_SIZE:
        step.field = <uint16_t> (<const char*> &vm.event.size - e)
        return STEP_INT
    if key == K_STREAM:
        step.field = <uint16_t> (<const char*> &vm.event.stream - e)
        return STEP_INT
    if key == K_TIME_US:
        step.field = <uint16_t> (<const char*> &vm.event.time - e)
        # A time of eight bytes can be ABSENT_TIME, which must be checked.
        return STEP_BYTES if value[0] == LONG1 and value[1] < 8 else STEP_OTHER
    return STEP_OTHER


cdef void add_bytes(Step* step, const uint8_t* at, const uint8_t* stop) noexcept nogil:
    # Add bytes to compare.
    cdef size_t n = <size_t> (stop - at)
    memcpy(<uint8_t*> step.bytes + step.size, at, n)
    memset(<uint8_t*> step.mask + step.size, 0xFF, n)
    step.size += <uint8_t> n
