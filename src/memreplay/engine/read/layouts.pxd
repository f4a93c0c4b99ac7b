# Note how an event was written, so that alike.pxd can read events that are written alike.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from memreplay.engine.base.hashmap cimport NONE32, hash_span
from memreplay.engine.read.keys cimport (
    K_ACTION, K_ADDR, K_COMPILE_CONTEXT, K_FRAMES, K_POOL_ID, K_SIZE, K_STREAM, K_TIME_US,
    K_USER_METADATA,
)
from memreplay.engine.read.opcodes cimport BINGET, BINPUT, EMPTY_LIST, LONG1, MEMOIZE
from memreplay.engine.read.vm cimport (
    Layout, MAX_STEPS, STEP_ACTION, STEP_BYTES, STEP_FRAMES, STEP_INT, STEP_OTHER, STEP_SAME, Step,
    VM,
)

cdef enum:
    MAX_VALUE = 16      # bytes of a value that can be part of a step
    KEY_BYTES = 7       # at most: a LONG_BINGET, and the start of a LONG1
    OTHER_KEYS = 63     # in sets of keys, the bit for all others
    USELESS = 8         # after this many useless layouts in a row, learning pauses
    PAUSE = 1000        # length of the pause, in events


cdef inline bint alike_begin(VM* vm) noexcept nogil:
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


cdef inline void alike_end(VM* vm) noexcept nogil:
    # Read the next events with the layout, if it's complete.
    cdef Layout* layout = &vm.layout
    layout.count = layout.noted if layout.noted <= MAX_STEPS else 0
    layout.read = 0
    layout.event = vm.event
    if layout.useless >= USELESS:
        layout.useless = 0
        layout.pause = PAUSE


cdef inline bint is_same(const uint8_t* value, const uint8_t* stop, uint32_t entry) noexcept nogil:
    # Whether a value with equal bytes, including its key's, is the same value.
    if stop - value > MAX_VALUE or value[0] == EMPTY_LIST or entry == NONE32:
        return False
    # BINPUT has the memo entry's index, which is another one next time.
    return entry == 0 or (stop[-1] == MEMOIZE and stop[-2] != BINPUT)


cdef inline uint8_t kind_of(VM* vm, uint32_t key, const uint8_t* value, Step* step) noexcept nogil:
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


cdef inline Step* step_for(Layout* layout, size_t size, uint32_t entry) noexcept nogil:
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


cdef inline bint varies(Layout* layout, uint32_t place, const uint8_t* value,
                        const uint8_t* stop) noexcept nogil:
    # Note a value, and return whether the key had another one before.
    cdef uint64_t before = layout.values[place]
    cdef uint64_t now = hash_span(value, <size_t> (stop - value), 0) | 1
    layout.values[place] = now
    return before != 0 and before != now


cdef inline void add_bytes(Step* step, const uint8_t* at, const uint8_t* stop) noexcept nogil:
    # Add bytes to compare.
    cdef size_t n = <size_t> (stop - at)
    memcpy(<uint8_t*> step.bytes + step.size, at, n)
    memset(<uint8_t*> step.mask + step.size, 0xFF, n)
    step.size += <uint8_t> n


cdef inline void alike_note(VM* vm, uint32_t key, const uint8_t* at, const uint8_t* stop,
                            uint32_t entry) noexcept nogil:
    # Learn a key and its value, which are the bytes from `at` to `stop`. `entry` is the memo
    # entry that the value stored: 0 for none, NONE32 for several.
    cdef Layout* layout = &vm.layout
    cdef uint32_t place = key if key < OTHER_KEYS else OTHER_KEYS
    cdef uint64_t bit = <uint64_t> 1 << place
    cdef const uint8_t* value = at + (2 if at[0] == BINGET else 5)
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
