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
from memreplay.engine.read.frames cimport (
    fast_new, fast_one, fast_repeat, fast_written, intern_other,
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
)
from memreplay.engine.read.value cimport (
    V_EVENT, V_FRAME, V_FRAMES, V_PAIR, V_SKIP_DICT, V_SKIP_LIST, V_STACK, V_STR,
)
from memreplay.engine.read.vm cimport VM, RawStack

cdef enum Fast:
    FAST_NO = 0       # another layout
    FAST_YES = 1
    FAST_ROOM = 2     # the window ends inside the event
    FAST_FAIL = 3     # an error; see the status

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


cdef inline void fast_follow(VM* vm, uint32_t id) noexcept nogil:
    # Remember that raw stack `id` followed the previous raw stack.
    cdef RawStack* last = <RawStack*> vm.raw_info.data + vm.raw_last
    if last.next != id:
        last.after_next = last.next
        last.next = id
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


cdef inline int fast_stack(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                           uint32_t* stack) noexcept nogil:
    # Read a frames list, from after its MARK up to APPENDS. Memo ids are absolute, so equal bytes
    # mean equal stacks. First try the two stacks that most recently followed the previous one, then
    # look up the hash.
    cdef const uint8_t* p = pp[0]
    cdef const uint8_t* q
    cdef RawStack* info = <RawStack*> vm.raw_info.data
    cdef uint32_t id = info[vm.raw_last].next
    cdef size_t m = 0
    cdef uint64_t h, at
    cdef const uint8_t* written = p
    cdef uint32_t found = EMPTY_STACK
    cdef int code
    if id != NONE32:
        q = span_at(&vm.raw, id, &m)
        if m + ROOM <= <size_t> (end - p) and memcmp(p, q, m) == 0:
            code = fast_known(vm, id, n, stack)
            if code == FAST_YES:
                vm.raw_last = id
                pp[0] = p + m
            return code
        id = info[vm.raw_last].after_next
        if id != NONE32:
            q = span_at(&vm.raw, id, &m)
            if m + ROOM <= <size_t> (end - p) and memcmp(p, q, m) == 0:
                code = fast_known(vm, id, n, stack)
                if code == FAST_YES:
                    fast_follow(vm, id)
                    pp[0] = p + m
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


cdef inline int fast_event(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil:
    # Read one event into a row, starting at its EMPTY_DICT.
    cdef Tables* t = vm.tables
    cdef Event e
    cdef const uint8_t* p = pp[0] + 1
    cdef uint32_t* memo
    cdef uint64_t n = vm.memo.len
    cdef uint64_t before, after
    cdef const uint8_t* single
    cdef uint32_t alone = EMPTY_STACK
    cdef bint named
    cdef uint32_t entry, key
    cdef int64_t[2] pair
    cdef int code
    if end - p < 2 * ROOM:
        return FAST_ROOM
    if vm.memo.cap - n < 4 and buf_reserve(&vm.memo, 4) < 0:
        fail(&t.status, ERR_MEMORY, "memo")
        return FAST_FAIL
    if n + 4 > vm.limits.memo:
        return FAST_NO
    memo = <uint32_t*> vm.memo.data
    event_clear(&e)
    if not fast_put(&p, memo, &n, memo_entry(V_EVENT, <uint32_t> t.read_events)) or p[0] != MARK:
        return FAST_NO
    p += 1
    if p[0] == SETITEMS:
        # An empty event takes more memory than its input, so leave it to the general path, which
        # limits such events.
        return FAST_NO
    while p[0] != SETITEMS:
        if end - p < ROOM:
            return FAST_ROOM
        entry = fast_get(&p, memo, n)
        if entry >> INDEX_BITS != V_STR:
            return FAST_NO
        key = entry & INDEX_MASK
        if key == K_DEVICE_FREE or key == K_CARRIED:
            return FAST_NO
        if key == K_ACTION:
            entry = fast_get(&p, memo, n)
            key = (entry & INDEX_MASK) - S_ACTION
            if entry >> INDEX_BITS != V_STR or key >= A_KNOWN:
                return FAST_NO
            e.action = <uint8_t> key
        elif key == K_ADDR:
            if not fast_int(&p, <int64_t*> &e.address):
                return FAST_NO
        elif key == K_SIZE:
            if not fast_int(&p, &e.size) or e.size < 0 or e.size > MAX_BYTES:
                return FAST_NO
        elif key == K_STREAM:
            if not fast_int(&p, <int64_t*> &e.stream):
                return FAST_NO
        elif key == K_TIME_US:
            if not fast_int(&p, &e.time) or e.time == ABSENT_TIME:
                return FAST_NO
        elif key == K_COMPILE_CONTEXT:
            e.compile_context = fast_text(vm, &p, memo, &n, &vm.last_context)
            if e.compile_context == NONE32:
                return FAST_NO
        elif key == K_USER_METADATA:
            e.user_metadata = fast_text(vm, &p, memo, &n, &vm.last_metadata)
            if e.user_metadata == NONE32:
                return FAST_NO
        elif key == K_FRAMES:
            if p[0] != EMPTY_LIST:
                entry = fast_get(&p, memo, n)
                if entry >> INDEX_BITS == V_STACK:
                    e.stack = entry & INDEX_MASK
                elif entry >> INDEX_BITS != V_FRAMES:
                    return FAST_NO
                elif stack_id(t, entry & INDEX_MASK, &e.stack) != OK:
                    return FAST_FAIL
                continue
            p += 1
            e.stack = EMPTY_STACK
            # Reserve the list's memo entry. Its stack id is filled in further down.
            before = n
            if not fast_put(&p, memo, &n, memo_entry(V_STACK, EMPTY_STACK)):
                return FAST_NO
            named = n != before
            if p[0] == MARK or p[0] == EMPTY_DICT or fast_frame_follows(p, memo, n):
                if p[0] == MARK:
                    p += 1
                    code = fast_stack(vm, &p, end, &n, &e.stack)
                else:
                    # Use copies, because the compiler keeps variables in memory if another unit has
                    # their address.
                    single = p
                    after = n
                    code = fast_one(vm, &single, end, &after, &alone)
                    p = single
                    n = after
                    e.stack = alone
                if code != FAST_YES:
                    return code
                if e.stack > INDEX_MASK:
                    return FAST_NO
                memo = <uint32_t*> vm.memo.data   # may have moved
                if named:
                    memo[before] = memo_entry(V_STACK, e.stack)
                elif not fast_put(&p, memo, &n, memo_entry(V_STACK, e.stack)):
                    return FAST_NO
            # If another batch of frames or a single frame follows, this is another layout.
            if p[0] == MARK or fast_frame_follows(p, memo, n):
                return FAST_NO
        elif key == K_POOL_ID:
            if fast_int(&p, &pair[0]):
                if not fast_int(&p, &pair[1]) or p[0] != TUPLE2:
                    return FAST_NO
                p += 1
                if not span_is(&t.pairs, vm.last_pool, pair, sizeof(pair)):
                    vm.last_pool = intern_other(&t.pairs, pair, sizeof(pair))
                e.pool = vm.last_pool
                if e.pool == NONE32:
                    fail(&t.status, ERR_MEMORY, "pools")
                    return FAST_FAIL
                if e.pool > INDEX_MASK or not fast_put(&p, memo, &n, memo_entry(V_PAIR, e.pool)):
                    return FAST_NO
            else:
                entry = fast_get(&p, memo, n)
                if entry >> INDEX_BITS != V_PAIR:
                    return FAST_NO
                e.pool = entry & INDEX_MASK
        elif not fast_skip(vm, &p, end, memo, &n):
            return FAST_NO
        # A repeated key can store more entries than were reserved.
        if vm.memo.cap - n < 4:
            return FAST_NO
    p += 1
    if not fast_put(&p, memo, &n, memo_entry(V_EVENT, <uint32_t> t.read_events)):
        return FAST_NO
    if n > vm.limits.memo or fast_goes_on(p):
        return FAST_NO
    if push_event(t, &e) != OK:
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
