"""Without the value stack, read frames lists that have inline frames or are outside events.

fast.pxd handles lists of GETs that were seen before. This is a separate unit so that the compiler
still inlines all of fast.pxd.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from memreplay.engine.base.cursor cimport read_u32
from memreplay.engine.read.alike cimport alike_events
from memreplay.engine.read.fast cimport (
    FAST_FAIL, FAST_NO, FAST_ROOM, FAST_YES, RAW_LIMIT, ROOM, fast_follow, fast_frame_follows,
    fast_get, fast_int, fast_put, fast_skip, fast_stack, get_length, is_get, is_put,
)
from memreplay.engine.base.growbuf cimport Buf, buf_reserve, push_bytes, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, Spans, hash_span, spans_add, spans_find, spans_intern
)
from memreplay.engine.read.keys cimport (
    K_FILENAME, K_FX_NODE_NAME, K_FX_NODE_OP, K_FX_NODE_TARGET, K_LINE, K_NAME, S_EMPTY,
    is_frame_key,
)
from memreplay.engine.read.memo cimport INDEX_BITS, INDEX_MASK, memo_entry
from memreplay.engine.read.opcodes cimport (
    APPEND, APPENDS, BINGET, BINPUT, BINUNICODE, EMPTY_DICT, FRAME, LONG_BINPUT, MARK, NONE,
    SETITEMS, SHORT_BINUNICODE,
)
from memreplay.engine.read.parts cimport (
    flush_frame, flush_list, intern_frame, intern_stack, line_of, sealed_frame
)
from memreplay.engine.read.stack cimport frame_end_at, values
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail
from memreplay.engine.read.tables cimport EMPTY_STACK, SEALED, FrameKey, Tables
from memreplay.engine.read.value cimport V_FRAME, V_FRAMES, V_STR
from memreplay.engine.read.vm cimport VM, RawStack, Written


cdef int fast_decode(VM* vm, const uint8_t* p, const uint8_t* stop,
                     uint32_t* stack) noexcept nogil:
    # Turn the GETs in [p, stop) into interned frames, and intern the stack.
    cdef Tables* t = vm.tables
    cdef const uint32_t* memo = <const uint32_t*> vm.memo.data
    cdef uint64_t n = vm.memo.len
    cdef uint64_t index
    cdef uint32_t entry
    cdef uint32_t* ids
    cdef size_t count = 0
    if flush_list(t) != OK or flush_frame(t) != OK:
        return FAST_FAIL
    t.list.len = 0
    if buf_reserve(&t.list, <size_t> (stop - p) // 2 + 1) < 0:
        fail(&t.status, ERR_MEMORY, "stacks")
        return FAST_FAIL
    ids = <uint32_t*> t.list.data
    while p < stop:
        if p[0] == BINGET:
            index = p[1]
            p += 2
        else:
            index = read_u32(p + 1)
            p += 5
        entry = memo[index] if index < n else 0
        if entry >> INDEX_BITS != V_FRAME:
            return FAST_NO
        ids[count] = sealed_frame(t, entry & INDEX_MASK)
        count += 1
    t.list.len = count
    return fast_intern(vm, stack)


cdef int fast_intern(VM* vm, uint32_t* stack) noexcept nogil:
    # Intern the frames in `list` as a stack.
    cdef Tables* t = vm.tables
    stack[0] = intern_stack(t, <const uint32_t*> t.list.data, t.list.len)
    if stack[0] == NONE32:
        fail(&t.status, ERR_MEMORY, "stacks")
        return FAST_FAIL
    return FAST_YES


cdef int fast_keep(VM* vm, const uint8_t* p, size_t m, uint64_t h, uint32_t stack,
                   uint64_t memo_at, uint64_t puts) noexcept nogil:
    # Remember a frames list of m bytes, by hash.
    cdef RawStack row
    cdef uint32_t id
    if vm.raw.data.len + m > RAW_LIMIT:
        return FAST_YES
    row.stack = stack
    row.puts = <uint32_t> puts
    row.memo_at = memo_at
    id = spans_add(&vm.raw, p, m, h)
    if id == NONE32 or push_item(&vm.raw_info, &row) < 0:
        fail(&vm.tables.status, ERR_MEMORY, "stacks")
        return FAST_FAIL
    fast_follow(vm, id)
    return FAST_YES


cdef int fast_new(VM* vm, const uint8_t* p, size_t m, uint64_t h, uint32_t* stack) noexcept nogil:
    # Read a new list of m bytes (GETs and APPENDS) with this hash.
    cdef int code = fast_decode(vm, p, p + m - 1, stack)
    return fast_keep(vm, p, m, h, stack[0], 0, 0) if code == FAST_YES else code


cdef int fast_split(VM* vm, const uint8_t** pp, const uint8_t* end,
                    uint32_t* stack) noexcept nogil:
    # Like fast_stack, for a list of GETs with a FRAME among them: look up its other bytes. There's
    # a FRAME in every 64 KiB, and half of them are in lists.
    cdef const uint8_t* p = pp[0]
    cdef Buf* bytes = &vm.split
    cdef uint64_t frame_end = 0
    cdef size_t size = 0
    cdef uint64_t h
    cdef uint32_t id
    cdef int code = FAST_YES
    bytes.len = 0
    while p[0] != APPENDS:
        if end - p < ROOM:
            return FAST_ROOM
        if p[0] == FRAME:
            frame_end = frame_end_at(vm, p)
            if frame_end == 0:
                return FAST_NO
            p += 9
            continue
        if not is_get(p[0]):
            return FAST_NO
        size = get_length(p[0])
        if push_bytes(bytes, p, size) < 0:
            fail(&vm.tables.status, ERR_MEMORY, "stacks")
            return FAST_FAIL
        p += size
    if push_bytes(bytes, p, 1) < 0:
        fail(&vm.tables.status, ERR_MEMORY, "stacks")
        return FAST_FAIL
    p += 1
    if p[0] == MARK or fast_frame_follows(p, <const uint32_t*> vm.memo.data, vm.memo.len):
        return FAST_NO
    h = hash_span(<const uint8_t*> bytes.data, bytes.len, vm.raw.seed)
    id = spans_find(&vm.raw, bytes.data, bytes.len, h)
    if id == NONE32:
        code = fast_new(vm, <const uint8_t*> bytes.data, bytes.len, h, stack)
    else:
        stack[0] = (<const RawStack*> vm.raw_info.data)[id].stack
        fast_follow(vm, id)
    if code == FAST_YES:
        vm.frame_end = frame_end
        pp[0] = p
    return code


cdef int fast_repeat(VM* vm, uint32_t id, uint64_t n) noexcept nogil:
    # Copy the memo entries that the frames of raw stack `id` stored last time to the entries from n
    # on.
    cdef const RawStack* row = <const RawStack*> vm.raw_info.data + id
    cdef uint32_t* memo
    if row.memo_at + row.puts > vm.memo.len:
        return FAST_NO
    if (vm.memo.cap - n < row.puts + 4
            and buf_reserve(&vm.memo, n - vm.memo.len + row.puts + 4) < 0):
        fail(&vm.tables.status, ERR_MEMORY, "memo")
        return FAST_FAIL
    memo = <uint32_t*> vm.memo.data
    memcpy(memo + n, memo + row.memo_at, row.puts * 4)
    return FAST_YES


cdef enum:
    MISSES = 64     # prediction pauses after this many wrong predictions in a row
    AGAIN = 1000    # length of the pause, in frames


cdef int fast_written(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                      uint32_t* stack) noexcept nogil:
    # Like fast_stack, for a list with inline frames. A frame is inline if it occurs for the first
    # time, or if the writer doesn't share frames. If frames are stored by MEMOIZE or not at all,
    # equal bytes again mean equal stacks and equal memo entries.
    cdef Tables* t = vm.tables
    cdef const uint8_t* p = pp[0]
    cdef uint64_t first = n[0]
    cdef uint64_t h
    cdef uint32_t entry, id
    cdef RawStack* row
    cdef int code
    if flush_list(t) != OK or flush_frame(t) != OK:
        return FAST_FAIL
    t.list.len = 0
    vm.numbered = False
    while p[0] != APPENDS:
        if end - p < ROOM:
            return FAST_ROOM
        if p[0] == EMPTY_DICT:
            if not fast_next(vm, &p, end, n, &id):
                code = fast_frame(vm, &p, end, n, &id)
                if code != FAST_YES:
                    return code
        else:
            entry = fast_get(&p, <const uint32_t*> vm.memo.data, n[0])
            if entry >> INDEX_BITS != V_FRAME:
                return FAST_NO
            id = sealed_frame(t, entry & INDEX_MASK)
        if push_u32(&t.list, id) < 0:
            fail(&t.status, ERR_MEMORY, "stacks")
            return FAST_FAIL
    p += 1
    if (p[0] == MARK or p[0] == EMPTY_DICT
            or fast_frame_follows(p, <const uint32_t*> vm.memo.data, n[0])):
        return FAST_NO
    code = fast_intern(vm, stack)
    if code != FAST_YES or vm.numbered:
        pp[0] = p
        return code
    h = hash_span(pp[0], <size_t> (p - pp[0]), vm.raw.seed)
    id = spans_find(&vm.raw, pp[0], <size_t> (p - pp[0]), h)
    if id == NONE32:
        code = fast_keep(vm, pp[0], <size_t> (p - pp[0]), h, stack[0], first, n[0] - first)
    else:
        row = <RawStack*> vm.raw_info.data + id
        row.memo_at = first
        fast_follow(vm, id)
    pp[0] = p
    return code


cdef int fast_one(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                  uint32_t* stack) noexcept nogil:
    # Like fast_stack, for a list with a single frame, which is written with APPEND and without a
    # MARK.
    cdef Tables* t = vm.tables
    cdef const uint8_t* p = pp[0]
    cdef uint32_t entry, id
    cdef int code
    if flush_list(t) != OK or flush_frame(t) != OK:
        return FAST_FAIL
    t.list.len = 0
    if p[0] == EMPTY_DICT:
        if not fast_next(vm, &p, end, n, &id):
            code = fast_frame(vm, &p, end, n, &id)
            if code != FAST_YES:
                return code
    else:
        entry = fast_get(&p, <const uint32_t*> vm.memo.data, n[0])
        if entry >> INDEX_BITS != V_FRAME:
            return FAST_NO
        id = sealed_frame(t, entry & INDEX_MASK)
    if p[0] != APPEND:
        return FAST_NO
    p += 1
    if (p[0] == MARK or p[0] == EMPTY_DICT
            or fast_frame_follows(p, <const uint32_t*> vm.memo.data, n[0])):
        return FAST_NO
    if push_u32(&t.list, id) < 0:
        fail(&t.status, ERR_MEMORY, "stacks")
        return FAST_FAIL
    pp[0] = p
    return fast_intern(vm, stack)


cdef inline bint fast_next(VM* vm, const uint8_t** p, const uint8_t* end, uint64_t* n,
                           uint32_t* frame) noexcept nogil:
    # Whether this frame has the same bytes as the frame that last followed the previous frame.
    cdef const Written* rows = <const Written*> vm.written.data
    cdef const Written* row
    cdef uint32_t id
    if vm.written_last >= vm.written.len:
        return False
    if vm.written_missed > MISSES:
        # If frames can't be predicted, each try costs two cache misses, so only retry now and then.
        vm.written_missed -= 1
        return False
    id = rows[vm.written_last].next
    if id >= vm.written.len:
        return False
    row = &rows[id]
    if (row.size == 0 or row.at < vm.forgotten or end - p[0] < row.size + ROOM
            or vm.memo.cap - n[0] < 4 or memcmp(p[0], vm.written_bytes.data + row.at, row.size)):
        vm.written_missed += 1
        if vm.written_missed == MISSES:
            vm.written_missed = MISSES + AGAIN
        return False
    vm.written_missed = 0
    if row.puts:
        (<uint32_t*> vm.memo.data)[n[0]] = memo_entry(V_FRAME, row.row)
        n[0] += 1
    vm.written_last = id
    frame[0] = id
    p[0] += row.size
    return True


cdef int fast_frame(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                    uint32_t* frame) noexcept nogil:
    # Read one frame dict, starting at its EMPTY_DICT, and return its interned frame:
    #
    #     EMPTY_DICT [put] MARK  (key, value)*  SETITEMS [put]
    #
    # A key or string value is either a GET, or a string with its put.
    cdef Tables* t = vm.tables
    cdef FrameKey f
    cdef const uint8_t* p = pp[0] + 1
    cdef uint64_t at = n[0]
    cdef uint64_t after, before
    cdef uint32_t key, id, entry
    cdef bint numbered = vm.numbered
    vm.numbered = False
    memset(&f, 0, sizeof(FrameKey))
    if vm.memo.cap - at < 64 and buf_reserve(&vm.memo, at - vm.memo.len + 1024) < 0:
        fail(&t.status, ERR_MEMORY, "memo")
        return FAST_FAIL
    # Leave the frame's memo entry empty until the frame is complete, so that a GET fails before
    # that.
    if not frame_put(vm, &p, n, 0) or p[0] != MARK:
        return FAST_NO
    after = n[0]
    p += 1
    while p[0] != SETITEMS:
        if end - p < ROOM:
            return FAST_ROOM
        if vm.memo.cap - n[0] < 4:
            return FAST_NO
        key = frame_text(vm, &p, n)
        if key == NONE32:
            return FAST_NO
        if end - p < ROOM:
            return FAST_ROOM
        if key == K_LINE:
            if not fast_int(&p, &f.line):
                return FAST_NO
            f.line = line_of(f.line)
            continue
        if not is_frame_key(key):
            before = n[0]
            if not fast_skip(vm, &p, end, <uint32_t*> vm.memo.data, n):
                return FAST_NO
            # The skipped value may have been stored under an explicit memo index.
            vm.numbered |= n[0] != before
            continue
        if p[0] == NONE:
            id = S_EMPTY
            p += 1
        else:
            id = frame_text(vm, &p, n)
            if id == NONE32:
                return FAST_NO
        if key == K_FILENAME:
            f.file = id
        elif key == K_NAME:
            f.name = id
        elif key == K_FX_NODE_OP:
            f.fx_op = id
        elif key == K_FX_NODE_NAME:
            f.fx_name = id
        elif key == K_FX_NODE_TARGET:
            f.fx_target = id
        else:
            f.fx_trace = id
    p += 1
    id = intern_frame(t, &f)
    if id == NONE32:
        fail(&t.status, ERR_MEMORY, "frames")
        return FAST_FAIL
    frame[0] = id
    if written_row(vm, id) != OK:
        return FAST_FAIL
    if at != after or is_put(p[0]):
        if written_entry(vm, id, &entry) != FAST_YES:
            return FAST_NO if t.status.code == OK else FAST_FAIL
        if at != after:
            (<uint32_t*> vm.memo.data)[at] = entry
        if not frame_put(vm, &p, n, entry):
            return FAST_NO
    if not vm.numbered and n[0] == after:
        written_keep(vm, id, pp[0], <size_t> (p - pp[0]), n[0] - at)
    vm.numbered |= numbered
    (<Written*> vm.written.data)[vm.written_last].next = id
    vm.written_last = id
    pp[0] = p
    return FAST_YES


cdef inline int written_row(VM* vm, uint32_t id) noexcept nogil:
    # Create the rows up to that of frame `id`.
    cdef Written none
    none.row = NONE32
    none.next = NONE32
    none.at = 0
    none.size = 0
    none.puts = 0
    while vm.written.len <= id:
        if push_item(&vm.written, &none) < 0:
            return fail(&vm.tables.status, ERR_MEMORY, "frames")
    return OK


cdef inline int written_entry(VM* vm, uint32_t id, uint32_t* entry) noexcept nogil:
    # Return the memo entry for frame `id`. Frames are sealed when they are read, so that equal
    # dicts can share a frame_of row.
    cdef Tables* t = vm.tables
    cdef Written* row = <Written*> vm.written.data + id
    if row.row == NONE32:
        if t.frame_of.len >= t.max_rows:
            return FAST_NO
        if push_u32(&t.frame_of, id | SEALED) < 0:
            fail(&t.status, ERR_MEMORY, "frames")
            return FAST_FAIL
        row.row = <uint32_t> t.frame_of.len - 1
    entry[0] = memo_entry(V_FRAME, row.row)
    return FAST_YES


cdef inline void written_keep(VM* vm, uint32_t id, const uint8_t* p, size_t size,
                              uint64_t puts) noexcept nogil:
    # Remember how frame `id` was written, if it has only GETs and no explicit memo indices.
    cdef Written* row = <Written*> vm.written.data + id
    if (row.size and row.at >= vm.forgotten) or size > 0xFFFF:
        return
    if vm.written_bytes.len + size > RAW_LIMIT:
        return
    row.at = <uint32_t> vm.written_bytes.len
    # When out of memory, don't remember it.
    row.size = <uint16_t> size if push_bytes(&vm.written_bytes, p, size) == 0 else 0
    row.puts = <uint16_t> puts


cdef inline bint frame_put(VM* vm, const uint8_t** p, uint64_t* n, uint32_t entry) noexcept nogil:
    # Like fast_put, but record whether the put has an explicit index.
    vm.numbered |= p[0][0] == BINPUT or p[0][0] == LONG_BINPUT
    return fast_put(p, <uint32_t*> vm.memo.data, n, entry)


cdef inline uint32_t frame_text(VM* vm, const uint8_t** p, uint64_t* n) noexcept nogil:
    # Return the string id for a GET, or for a short string and its put; else NONE32.
    cdef const uint8_t* text = p[0] + 2
    cdef size_t size = p[0][1]
    cdef uint32_t id
    if is_get(p[0][0]):
        id = fast_get(p, <const uint32_t*> vm.memo.data, n[0])
        return id & INDEX_MASK if id >> INDEX_BITS == V_STR else NONE32
    if p[0][0] == BINUNICODE and read_u32(p[0] + 1) < 256:
        size = read_u32(p[0] + 1)
        text = p[0] + 5
    elif p[0][0] != SHORT_BINUNICODE:
        return NONE32
    # Leave this to the general path.
    if size > vm.limits.string_bytes or (size and text[0] == 0):
        return NONE32
    id = spans_intern(&vm.tables.strings, text, size)
    if id > INDEX_MASK:
        return NONE32
    p[0] = text + size
    return id if frame_put(vm, p, n, memo_entry(V_STR, id)) else NONE32


cdef const uint8_t* fast_list(VM* vm, const uint8_t* at) noexcept nogil:
    # Read the frames list on top of the stack (of a segment, a block, or an event on the general
    # path), starting after its EMPTY_LIST: its put, frames and APPENDS. Returns the position after
    # these, or `at` if they can't be read here; an error is in the status. More frames may be
    # appended to the list later.
    cdef Tables* t = vm.tables
    cdef const uint8_t* p = at
    cdef uint32_t row = values(vm)[vm.stack.len - 1].idx
    cdef uint64_t n = vm.memo.len
    cdef uint32_t stack = EMPTY_STACK
    cdef int code = FAST_NO
    if (n != vm.memo_used or n + 4 > vm.limits.memo or vm.marks.len + 2 > vm.limits.depth
            or vm.cur.end - p < ROOM):
        return at
    if vm.memo.cap - n < 4 and buf_reserve(&vm.memo, 4) < 0:
        fail(&t.status, ERR_MEMORY, "memo")
        return at
    if not fast_put(&p, <uint32_t*> vm.memo.data, &n, memo_entry(V_FRAMES, row)):
        return at
    t.list_owner = NONE32
    if p[0] == MARK:
        p += 1
        code = fast_stack(vm, &p, vm.cur.end, &n, &stack)
    elif p[0] == EMPTY_DICT or is_get(p[0]):
        code = fast_one(vm, &p, vm.cur.end, &n, &stack)
    if code == FAST_YES and n <= vm.limits.memo:
        (<uint32_t*> t.stack_of.data)[row] = stack
        vm.memo_used += n - vm.memo.len
        vm.memo.len = n
        return p
    t.list.len = 0
    t.list_owner = row
    return at


cdef uint32_t intern_other(Spans* t, const void* p, size_t n) noexcept nogil:
    # Like spans_intern(), for the hot path. Not inlined, because the span usually equals the
    # previous one.
    return spans_intern(t, p, n)


cdef int fast_alike(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil:
    # alike_events(), for the hot path. Not inlined, for the same reason as this unit.
    return alike_events(vm, pp, end)
