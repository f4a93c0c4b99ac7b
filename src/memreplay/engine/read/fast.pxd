# The hot path: read an event dict in the layout that all known writers use, without the value
# stack.
#
#     EMPTY_DICT [put] MARK  (GET key, value)*  SETITEMS [put]
#
# A value is an integer, a GET of a string, a short string, TUPLE2 of integers, or a frames list:
#
#     EMPTY_LIST [put] MARK  (GET frame)*  APPENDS [put]
#
# New lists and lists with inline frames continue in frames.pyx. Anything else is left to the
# general path. Nothing is changed before the event is complete, except memo entries past the memo's
# end and interned frames and stacks, which are harmless.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from memreplay.engine.base.cursor cimport read_u16, read_u32, read_u64
from memreplay.engine.read.layouts cimport alike_begin, alike_end, alike_note
from memreplay.engine.read.frames cimport (
    fast_new, fast_one, fast_repeat, fast_split, fast_written, intern_other,
)
from memreplay.engine.base.growbuf cimport Buf, buf_reserve, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, Spans, hash_span, span_at, span_is, spans_find
)
from memreplay.engine.read.memo cimport INDEX_BITS, INDEX_MASK, memo_entry
from memreplay.engine.read.opcodes cimport (
    APPEND, APPENDS, BINGET, BININT, BININT1, BININT2, BINPUT, EMPTY_DICT, EMPTY_LIST, FRAME, LONG1,
    LONG_BINGET, LONG_BINPUT, MARK, MEMOIZE, NEWFALSE, NEWTRUE, NONE, SETITEMS, SHORT_BINUNICODE,
    TUPLE2,
)
from memreplay.engine.read.keys cimport (
    K_ACTION, K_ADDR, K_CARRIED, K_COMPILE_CONTEXT, K_DEVICE_FREE, K_FRAMES, K_POOL_ID, K_SIZE,
    K_STREAM, K_TIME_US, K_USER_METADATA, S_ACTION,
)
from memreplay.engine.read.parts cimport stack_id
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.tables cimport (
    ABSENT_TIME, A_KNOWN, EMPTY_STACK, Event, MAX_BYTES, Tables, event_clear, push_event,
    push_plain,
)
from memreplay.engine.read.value cimport (
    V_EVENT, V_FRAME, V_FRAMES, V_PAIR, V_SKIP_DICT, V_SKIP_LIST, V_STACK, V_STR,
)
from memreplay.engine.read.vm cimport GUESS_BITS, ROUGH_GUESS_BITS, VM, RawStack

cdef enum Fast:
    FAST_NO = 0       # another layout
    FAST_YES = 1
    FAST_ROOM = 2     # the window ends inside the event
    FAST_FAIL = 3     # an error; see the status
    FAST_OTHER = 4    # a wrong guess

cdef enum:
    ROOM = 320                 # maximum size of a key and its value, except for frames lists
    RAW_LIMIT = 32 << 20       # maximum total size of the frames lists to remember


cdef inline bint is_get(uint8_t op) noexcept nogil:
    # BINGET or LONG_BINGET: 0x68 and 0x6a.
    return op & 0xFD == BINGET


cdef inline uint32_t get_is_long(uint8_t op) noexcept nogil:
    return op >> 1 & 1


cdef inline size_t get_length(uint8_t op) noexcept nogil:
    # Branchless, because the opcode is unpredictable.
    return 2 + 3 * get_is_long(op)


cdef inline bint is_put(uint8_t op) noexcept nogil:
    return op == MEMOIZE or op == BINPUT or op == LONG_BINPUT


cdef inline bint fast_put(const uint8_t** p, uint32_t* memo, uint64_t* n,
                          uint32_t entry) noexcept nogil:
    # Accept an optional MEMOIZE, or a BINPUT or LONG_BINPUT with the next index. False for another
    # index.
    cdef uint8_t op = p[0][0]
    if op == MEMOIZE:
        p[0] += 1
    elif op == BINPUT:
        if p[0][1] != n[0]:
            return False
        p[0] += 2
    elif op == LONG_BINPUT:
        if read_u32(p[0] + 1) != n[0]:
            return False
        p[0] += 5
    else:
        return True
    memo[n[0]] = entry
    n[0] += 1
    return True


cdef inline uint32_t fast_get(const uint8_t** p, const uint32_t* memo, uint64_t n) noexcept nogil:
    # Return the memo entry of a BINGET or LONG_BINGET; 0 for another opcode or an unset entry.
    cdef uint64_t index
    if p[0][0] == BINGET:
        index = p[0][1]
        p[0] += 2
    elif p[0][0] == LONG_BINGET:
        index = read_u32(p[0] + 1)
        p[0] += 5
    else:
        return 0
    return memo[index] if index < n else 0


cdef inline bint fast_int(const uint8_t** p, int64_t* out) noexcept nogil:
    # Read LONG1 of up to 8 bytes, BININT, BININT1 or BININT2. False for another opcode.
    cdef uint8_t op = p[0][0]
    cdef uint8_t n
    if op == LONG1:
        n = p[0][1]
        if n == 0 or n > 8:
            return False
        out[0] = (<int64_t> (read_u64(p[0] + 2) << (64 - 8 * n))) >> (64 - 8 * n)
        p[0] += 2 + n
    elif op == BININT1:
        out[0] = p[0][1]
        p[0] += 2
    elif op == BININT:
        out[0] = <int32_t> read_u32(p[0] + 1)
        p[0] += 5
    elif op == BININT2:
        out[0] = read_u16(p[0] + 1)
        p[0] += 3
    else:
        return False
    return True


cdef inline uint32_t fast_text(VM* vm, const uint8_t** p, uint32_t* memo, uint64_t* n,
                               uint32_t* last) noexcept nogil:
    # Return the string id for a GET or a SHORT_BINUNICODE, or NONE32. Writers that don't memoize
    # "N/A" repeat it, so the string is compared with `last` first.
    cdef uint32_t entry, id
    if vm.tables.nul_strings:
        return NONE32
    if p[0][0] != SHORT_BINUNICODE:
        entry = fast_get(p, memo, n[0])
        return entry & INDEX_MASK if entry >> INDEX_BITS == V_STR else NONE32
    if p[0][1] and p[0][2] == 0:
        return NONE32
    if not span_is(&vm.tables.strings, last[0], p[0] + 2, p[0][1]):
        last[0] = intern_other(&vm.tables.strings, p[0] + 2, p[0][1])
    id = last[0]
    p[0] += 2 + p[0][1]
    if id > INDEX_MASK or not fast_put(p, memo, n, memo_entry(V_STR, id)):
        return NONE32
    return id


cdef inline uint32_t* guess_at(VM* vm) noexcept nogil:
    # Return where the list is noted that followed the last two lists in an event like this.
    cdef const Event* e = &vm.event
    cdef uint64_t h = (<uint64_t> vm.raw_last << 32 | vm.raw_before) * <uint64_t> 0x9E3779B97F4A7C15
    h ^= (<uint64_t> e.size << 8 | e.action) * <uint64_t> 0xE7037ED1A0B428DB
    return &vm.guesses[(h * <uint64_t> 0x8EBC6AF09C88C6E3) >> (64 - GUESS_BITS)]


cdef inline uint32_t* rough_guess_at(VM* vm) noexcept nogil:
    # The same for the last list only, and an event with this action.
    cdef uint64_t h = <uint64_t> vm.raw_last << 8 | vm.event.action
    return &vm.rough_guesses[(h * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - ROUGH_GUESS_BITS)]


cdef inline void fast_follow(VM* vm, uint32_t id) noexcept nogil:
    # Remember that raw stack `id` followed.
    guess_at(vm)[0] = id
    rough_guess_at(vm)[0] = id
    vm.raw_before = vm.raw_last
    vm.raw_last = id


cdef inline int fast_known(VM* vm, uint32_t id, uint64_t* n, uint32_t* stack) noexcept nogil:
    # Reuse raw stack `id`: return its stack, and store its inline frames' memo entries again.
    # FAST_NO if those entries were dropped.
    cdef const RawStack* row = <const RawStack*> vm.raw_info.data + id
    stack[0] = row.stack
    if row.puts:
        if fast_repeat(vm, id, n[0]) != FAST_YES:
            return FAST_NO if vm.tables.status.code == OK else FAST_FAIL
        n[0] += row.puts
    return FAST_YES


cdef inline int fast_guess(VM* vm, uint32_t id, const uint8_t** pp, const uint8_t* end,
                           uint64_t* n, uint32_t* stack) noexcept nogil:
    # Read a frames list if it has the bytes of raw stack `id`; FAST_OTHER if it hasn't.
    cdef size_t m = 0
    cdef const uint8_t* q
    cdef int code
    if id == 0 or id >= vm.raw_info.len:
        return FAST_OTHER
    q = span_at(&vm.raw, id, &m)
    if m + ROOM > <size_t> (end - pp[0]) or memcmp(pp[0], q, m):
        return FAST_OTHER
    code = fast_known(vm, id, n, stack)
    if code == FAST_YES:
        pp[0] += m
    return code if code != FAST_NO else FAST_OTHER


cdef inline int fast_stack(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                           uint32_t* stack) noexcept nogil:
    # Read a frames list, from after its MARK up to APPENDS. Memo ids are absolute, so equal bytes
    # mean equal stacks. First try the lists that followed in similar places, then look up the hash.
    cdef const uint8_t* p = pp[0]
    cdef const uint8_t* q
    cdef uint32_t* guess = guess_at(vm)
    cdef uint32_t id = guess[0]
    cdef size_t m = 0
    cdef uint64_t h, at
    cdef const uint8_t* written = p
    cdef uint32_t found = EMPTY_STACK
    cdef int code = fast_guess(vm, id, pp, end, n, stack)
    if code == FAST_YES:
        vm.raw_before = vm.raw_last
        vm.raw_last = id
    if code != FAST_OTHER:
        return code
    id = rough_guess_at(vm)[0]
    if id != guess[0]:
        code = fast_guess(vm, id, pp, end, n, stack)
        if code == FAST_YES:
            fast_follow(vm, id)
        if code != FAST_OTHER:
            return code
    q = p
    while True:
        if end - q < ROOM:
            return FAST_ROOM
        if q[0] == BINGET:
            q += 2
        elif q[0] == LONG_BINGET:
            q += 5
        else:
            break
    if q[0] == EMPTY_DICT:
        # Use copies, because the compiler keeps variables in memory if another unit gets their
        # address.
        at = n[0]
        code = fast_written(vm, &written, end, &at, &found)
        n[0] = at
        stack[0] = found
        pp[0] = written
        return code
    if q[0] == FRAME:
        code = fast_split(vm, &written, end, &found)
        stack[0] = found
        pp[0] = written
        return code
    if q[0] != APPENDS:
        return FAST_NO
    q += 1
    m = <size_t> (q - p)
    h = hash_span(p, m, vm.raw.seed)
    id = spans_find(&vm.raw, p, m, h)
    if id == NONE32:
        # If another batch or item follows, this batch isn't a whole stack, so don't remember it.
        if q[0] == MARK or fast_frame_follows(q, <const uint32_t*> vm.memo.data, n[0]):
            return FAST_NO
        code = fast_new(vm, p, m, h, &found)
        stack[0] = found
        pp[0] = q
        return code
    stack[0] = (<RawStack*> vm.raw_info.data)[id].stack
    fast_follow(vm, id)
    pp[0] = q
    return FAST_YES


cdef inline bint fast_skip(VM* vm, const uint8_t** p, const uint8_t* end, uint32_t* memo,
                           uint64_t* n) noexcept nogil:
    # Skip an unused key's value: a string, an integer, a constant, or a list of strings
    # (forward_frames). False for anything else.
    cdef int64_t number = 0
    cdef uint8_t op = p[0][0]
    cdef uint32_t entry
    if op == NONE or op == NEWTRUE or op == NEWFALSE:
        p[0] += 1
        return True
    if op == SHORT_BINUNICODE:
        return fast_text(vm, p, memo, n, &vm.last_unknown) != NONE32
    if op == EMPTY_LIST:
        p[0] += 1
        if not fast_put(p, memo, n, memo_entry(V_SKIP_LIST, 0)):
            return False
        if p[0][0] == MARK:
            p[0] += 1
            while p[0][0] != APPENDS:
                if end - p[0] < ROOM or fast_get(p, memo, n[0]) >> INDEX_BITS != V_STR:
                    return False
            p[0] += 1
        # A list with another batch or a further single item has a different layout.
        return p[0][0] != MARK and not fast_item_follows(p[0], memo, n[0])
    if op == BINGET or op == LONG_BINGET:
        entry = fast_get(p, memo, n[0]) >> INDEX_BITS
        return entry == V_STR or entry == V_SKIP_LIST or entry == V_SKIP_DICT or entry == V_PAIR
    return fast_int(p, &number)


cdef inline bint fast_item_follows(const uint8_t* p, const uint32_t* memo,
                                   uint64_t n) noexcept nogil:
    # Whether a GET and APPEND follow, that is, a list's only item, written without a MARK.
    return fast_get(&p, memo, n) != 0 and p[0] == APPEND


cdef inline int fast_frames(VM* vm, const uint8_t** pp, const uint8_t* end,
                            uint64_t* np) noexcept nogil:
    # Read an event's frames: a list, or a GET of a list.
    cdef Tables* t = vm.tables
    cdef const uint8_t* p = pp[0]
    cdef const uint8_t* single
    cdef uint32_t* memo = <uint32_t*> vm.memo.data
    cdef uint64_t n = np[0]
    cdef uint64_t before, after
    cdef uint32_t stack = EMPTY_STACK
    cdef uint32_t entry
    cdef bint named
    cdef int code
    if p[0] != EMPTY_LIST:
        entry = fast_get(&p, memo, n)
        if entry >> INDEX_BITS == V_STACK:
            stack = entry & INDEX_MASK
        elif entry >> INDEX_BITS != V_FRAMES:
            return FAST_NO
        elif stack_id(t, entry & INDEX_MASK, &stack) != OK:
            return FAST_FAIL
        vm.event.stack = stack
        pp[0] = p
        return FAST_YES
    p += 1
    # Reserve the list's memo entry. Its stack id is filled in further down.
    before = n
    if not fast_put(&p, memo, &n, memo_entry(V_STACK, EMPTY_STACK)):
        return FAST_NO
    named = n != before
    if p[0] == MARK or p[0] == EMPTY_DICT or fast_frame_follows(p, memo, n):
        # Use copies, because the compiler keeps variables in memory if another unit has their
        # address.
        single = p
        after = n
        if p[0] == MARK:
            single += 1
            code = fast_stack(vm, &single, end, &after, &stack)
        else:
            code = fast_one(vm, &single, end, &after, &stack)
        p = single
        n = after
        if code != FAST_YES:
            return code
        if stack > INDEX_MASK:
            return FAST_NO
        memo = <uint32_t*> vm.memo.data   # may have moved
        if named:
            memo[before] = memo_entry(V_STACK, stack)
        elif not fast_put(&p, memo, &n, memo_entry(V_STACK, stack)):
            return FAST_NO
    # If another batch of frames or a single frame follows, this is another layout.
    if p[0] == MARK or fast_frame_follows(p, memo, n):
        return FAST_NO
    vm.event.stack = stack
    pp[0] = p
    np[0] = n
    return FAST_YES


cdef inline bint fast_action(VM* vm, const uint8_t** p, uint64_t n) noexcept nogil:
    # Read an event's action. False unless it's a GET of a known one.
    cdef uint32_t entry = fast_get(p, <const uint32_t*> vm.memo.data, n)
    cdef uint32_t action = (entry & INDEX_MASK) - S_ACTION
    vm.event.action = <uint8_t> action
    return entry >> INDEX_BITS == V_STR and action < A_KNOWN


cdef inline int fast_pool(VM* vm, const uint8_t** p, uint64_t* n) noexcept nogil:
    # Read an event's pool id: two integers and TUPLE2, or a GET.
    cdef Tables* t = vm.tables
    cdef uint32_t* memo = <uint32_t*> vm.memo.data
    cdef uint32_t entry
    cdef int64_t[2] pair
    if not fast_int(p, &pair[0]):
        entry = fast_get(p, memo, n[0])
        vm.event.pool = entry & INDEX_MASK
        return FAST_YES if entry >> INDEX_BITS == V_PAIR else FAST_NO
    if not fast_int(p, &pair[1]) or p[0][0] != TUPLE2:
        return FAST_NO
    p[0] += 1
    if not span_is(&t.pairs, vm.last_pool, pair, sizeof(pair)):
        vm.last_pool = intern_other(&t.pairs, pair, sizeof(pair))
    vm.event.pool = vm.last_pool
    if vm.last_pool == NONE32:
        fail(&t.status, ERR_MEMORY, "pools")
        return FAST_FAIL
    if vm.last_pool > INDEX_MASK or not fast_put(p, memo, n, memo_entry(V_PAIR, vm.last_pool)):
        return FAST_NO
    return FAST_YES


cdef inline int fast_value(VM* vm, uint32_t key, const uint8_t** p, const uint8_t* end,
                           uint64_t* n) noexcept nogil:
    # Read the value of an event's key into vm.event, except for frames.
    cdef Event* e = &vm.event
    cdef uint32_t* memo = <uint32_t*> vm.memo.data
    cdef bint known = True
    if key == K_DEVICE_FREE or key == K_CARRIED:
        return FAST_NO
    if key == K_POOL_ID:
        return fast_pool(vm, p, n)
    if key == K_ACTION:
        known = fast_action(vm, p, n[0])
    elif key == K_ADDR:
        known = fast_int(p, <int64_t*> &e.address)
    elif key == K_SIZE:
        known = fast_int(p, &e.size) and 0 <= e.size and e.size <= MAX_BYTES
    elif key == K_STREAM:
        known = fast_int(p, <int64_t*> &e.stream)
    elif key == K_TIME_US:
        known = fast_int(p, &e.time) and e.time != ABSENT_TIME
    elif key == K_COMPILE_CONTEXT:
        e.compile_context = fast_text(vm, p, memo, n, &vm.last_context)
        known = e.compile_context != NONE32
    elif key == K_USER_METADATA:
        e.user_metadata = fast_text(vm, p, memo, n, &vm.last_metadata)
        known = e.user_metadata != NONE32
    else:
        known = fast_skip(vm, p, end, memo, n)
    return FAST_YES if known else FAST_NO


cdef inline int fast_event(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil:
    # Read one event into a row, starting at its EMPTY_DICT.
    cdef Tables* t = vm.tables
    cdef const uint8_t* p = pp[0] + 1
    cdef const uint8_t* at
    cdef uint64_t n = vm.memo.len
    cdef uint64_t before
    cdef uint32_t entry, key
    cdef bint learning
    cdef int code
    if end - p < 2 * ROOM:
        return FAST_ROOM
    if vm.memo.cap - n < 4 and buf_reserve(&vm.memo, 4) < 0:
        fail(&t.status, ERR_MEMORY, "memo")
        return FAST_FAIL
    if n + 4 > vm.limits.memo:
        return FAST_NO
    event_clear(&vm.event)
    if (not fast_put(&p, <uint32_t*> vm.memo.data, &n,
                     memo_entry(V_EVENT, <uint32_t> t.read_events)) or p[0] != MARK):
        return FAST_NO
    p += 1
    if p[0] == SETITEMS:
        # An empty event takes more memory than its input, so leave it to the general path, which
        # limits such events.
        return FAST_NO
    learning = alike_begin(vm)
    while p[0] != SETITEMS:
        if end - p < ROOM:
            return FAST_ROOM
        at = p
        before = n
        entry = fast_get(&p, <const uint32_t*> vm.memo.data, n)
        if entry >> INDEX_BITS != V_STR:
            return FAST_NO
        key = entry & INDEX_MASK
        if key == K_FRAMES:
            code = fast_frames(vm, &p, end, &n)
        else:
            code = fast_value(vm, key, &p, end, &n)
        if code != FAST_YES:
            return code
        if learning:
            entry = (<const uint32_t*> vm.memo.data)[before] if n > before else 0
            alike_note(vm, key, at, p, entry if n - before < 2 else NONE32)
        # A repeated key can store more entries than were reserved.
        if vm.memo.cap - n < 4:
            return FAST_NO
    code = fast_row(vm, pp, p, n, False)
    if learning and code == FAST_YES:
        alike_end(vm)
    return code


cdef inline int fast_row(VM* vm, const uint8_t** pp, const uint8_t* p, uint64_t n,
                         bint plain) noexcept nogil:
    # Complete an event at its SETITEMS at p: add its row, and move pp behind it. `plain` if
    # push_plain() may be used.
    cdef Tables* t = vm.tables
    p += 1
    if not fast_put(&p, <uint32_t*> vm.memo.data, &n,
                    memo_entry(V_EVENT, <uint32_t> t.read_events)):
        return FAST_NO
    if n > vm.limits.memo or fast_goes_on(p):
        return FAST_NO
    if not (plain and push_plain(t, &vm.event)) and push_event(t, &vm.event) != OK:
        return FAST_FAIL
    vm.memo_used += n - vm.memo.len
    vm.memo.len = n
    vm.fast_events += 1
    pp[0] = p
    return FAST_YES


cdef inline bint fast_goes_on(const uint8_t* p) noexcept nogil:
    # Whether the next opcodes may need the event on the stack (more keys, POP). Only the next event
    # and the end of the batch never do. A FRAME has no effect.
    if p[0] == FRAME:
        p += 9
    return p[0] != EMPTY_DICT and p[0] != APPENDS


cdef inline bint fast_frame_follows(const uint8_t* p, const uint32_t* memo,
                                    uint64_t n) noexcept nogil:
    # Whether a GET of a frame follows, that is, a list's only item, written without a MARK.
    return fast_get(&p, memo, n) >> INDEX_BITS == V_FRAME
