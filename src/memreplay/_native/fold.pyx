"""Folding a live set into groups, largest first; linear in what is added, but for the sort.

What a stack is put down to is its innermost frame of the lowest rank: rank 0 is the user's code,
and higher ranks are plumbing that says less and less. Ranks come from the caller, a byte a string
id.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memset
from memreplay._native.growbuf cimport buf_free, buf_init, push_item, push_u32
from memreplay._native.hashmap cimport NONE32, span_at, spans_len
from memreplay._native.lives cimport alive, counts
from memreplay._native.status cimport ERR_MEMORY, OK
from memreplay._native.tables cimport EMPTY_STACK, Baseline, FrameKey, Tables


cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil:
    # The frame that a stack is put down to; NONE32 for the stack of no frames.
    cdef size_t n = 0
    cdef size_t i
    cdef const uint32_t* ids = <const uint32_t*> span_at(&r.tables.stacks, stack, &n)
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t best = NONE32
    cdef int best_rank = 256
    cdef int rank
    for i in range(n // 4):
        rank = file_rank[frames[ids[i]].file]
        if rank:
            rank = function_rank[frames[ids[i]].name]
        if rank < best_rank:
            best_rank = rank
            best = ids[i]
            if rank == 0:
                break
    return best


cdef uint32_t key_of(const Replay* r, uint32_t stack, int by, const uint8_t* file_rank,
                     const uint8_t* function_rank) noexcept nogil:
    # What a stack of any frames belongs to: itself, or the frame, file or function.
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t frame
    if by == BY_STACK:
        return stack
    frame = label_frame(r, stack, file_rank, function_rank)
    if by == BY_FRAME:
        return frame
    return frames[frame].file if by == BY_FILE else frames[frame].name


cdef int by_size(const void* a, const void* b) noexcept nogil:
    # Most bytes first, then most allocations, then the key: the same order every time.
    cdef const Group* x = <const Group*> a
    cdef const Group* y = <const Group*> b
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    if x.count != y.count:
        return -1 if x.count > y.count else 1
    return (x.key > y.key) - (x.key < y.key)


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    # Sizes of blocks in a file that is made up may be too large to add; they wrap.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef int folder_init(Folder* f, const Replay* r) noexcept nogil:
    f.replay = r
    f.stacks = spans_len(&r.tables.stacks)
    f.keys = NULL
    buf_init(&f.touched, 4)
    buf_init(&f.touched_keys, 4)
    f.sums = <Group*> calloc(<size_t> f.stacks + 1, sizeof(Group))
    return OK if f.sums != NULL else ERR_MEMORY


cdef void folder_free(Folder* f) noexcept nogil:
    free(f.sums)
    free(f.keys)
    f.sums = NULL
    f.keys = NULL
    buf_free(&f.touched)
    buf_free(&f.touched_keys)


cdef inline int add(Group* sums, Buf* touched, uint32_t row, int64_t bytes,
                    uint64_t count) noexcept nogil:
    cdef Group* g = &sums[row]
    if g.count == 0 and push_u32(touched, row) < 0:
        return ERR_MEMORY
    g.bytes = plus(g.bytes, bytes)
    g.count += count
    return OK


cdef inline uint32_t baseline_row(const Folder* f, uint32_t stack) noexcept nogil:
    # Baseline blocks that have no stack go to the row after the last stack.
    return stack if stack != EMPTY_STACK else f.stacks


cdef int add_live(Folder* f, const Lives* l, int64_t event) noexcept nogil:
    # All that is live after the event: one look at each event before it.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Baseline* base = <const Baseline*> r.baseline.data
    cdef const uint32_t* base_end = <const uint32_t*> l.base_end.data
    cdef const int64_t* base_bytes = <const int64_t*> l.base_bytes.data
    cdef int64_t i
    for i in range(event + 1):
        if counts(l, action, i) and alive(l.end[i], event):
            if add(f.sums, &f.touched, stack[i], l.bytes[i], 1) != OK:
                return ERR_MEMORY
    for i in range(<int64_t> l.base_end.len):
        if alive(base_end[i], event):
            if add(f.sums, &f.touched, baseline_row(f, base[i].stack), base_bytes[i], 1) != OK:
                return ERR_MEMORY
    return OK


cdef int add_listed(Folder* f, const Lives* l, const Buf* allocs,
                    const Buf* baseline) noexcept nogil:
    # The allocations (event indices) and baseline blocks (indices) of these lists.
    cdef const Replay* r = l.replay
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Baseline* base = <const Baseline*> r.baseline.data
    cdef const int64_t* base_bytes = <const int64_t*> l.base_bytes.data
    cdef const uint32_t* listed = <const uint32_t*> allocs.data
    cdef uint64_t i
    for i in range(allocs.len):
        if add(f.sums, &f.touched, stack[listed[i]], l.bytes[listed[i]], 1) != OK:
            return ERR_MEMORY
    listed = <const uint32_t*> baseline.data
    for i in range(baseline.len):
        if add(f.sums, &f.touched, baseline_row(f, base[listed[i]].stack), base_bytes[listed[i]],
               1) != OK:
            return ERR_MEMORY
    return OK


cdef int take(Group* sums, Buf* touched, Buf* groups) noexcept nogil:
    # Moves what was summed into `groups`, and leaves zeros.
    cdef const uint32_t* rows = <const uint32_t*> touched.data
    cdef uint64_t i
    cdef int code = OK
    for i in range(touched.len):
        # One that became part of another has no count any more.
        if sums[rows[i]].count and code == OK and push_item(groups, &sums[rows[i]]) < 0:
            code = ERR_MEMORY
        memset(&sums[rows[i]], 0, sizeof(Group))
    touched.len = 0
    return code


cdef int by_key(Folder* f, int by, const uint8_t* file_rank,
                const uint8_t* function_rank) noexcept nogil:
    # Sums stacks into the frame, file or function that each is put down to.
    cdef const Tables* t = f.replay.tables
    cdef const uint32_t* rows = <const uint32_t*> f.touched.data
    cdef uint64_t i
    cdef uint64_t n
    cdef uint32_t key
    cdef Group* g
    if f.keys == NULL:
        # One after the other may be asked for: room for either.
        n = max(spans_len(&t.frames), spans_len(&t.strings))
        f.keys = <Group*> calloc(n + 1, sizeof(Group))
        if f.keys == NULL:
            return ERR_MEMORY
    for i in range(f.touched.len):
        if rows[i] == EMPTY_STACK or rows[i] == f.stacks:
            continue
        g = &f.sums[rows[i]]
        key = key_of(f.replay, rows[i], by, file_rank, function_rank)
        if add(f.keys, &f.touched_keys, key, g.bytes, g.count) != OK:
            return ERR_MEMORY
        f.keys[key].key = key
        g.count = 0
    return OK


cdef int folder_groups(Folder* f, int by, const uint8_t* file_rank, const uint8_t* function_rank,
                       Buf* groups) noexcept nogil:
    # Fills `groups` (of Group) with what was added, grouped and sorted; the folder is empty then.
    cdef const uint32_t* rows = <const uint32_t*> f.touched.data
    cdef uint64_t i
    cdef int code = OK
    for i in range(f.touched.len):
        f.sums[rows[i]].key = (KEY_NO_STACK if rows[i] == EMPTY_STACK
                               else KEY_BASELINE if rows[i] == f.stacks else rows[i])
    if by != BY_STACK:
        code = by_key(f, by, file_rank, function_rank)
        if take(f.keys, &f.touched_keys, groups) != OK:
            code = ERR_MEMORY
    if take(f.sums, &f.touched, groups) != OK:
        code = ERR_MEMORY
    if code == OK and groups.len:
        qsort(groups.data, groups.len, sizeof(Group), by_size)
    return code


cdef int fold_live(const Lives* l, int64_t event, int by, const uint8_t* file_rank,
                   const uint8_t* function_rank, Buf* groups) noexcept nogil:
    # Fills `groups` (of Group) with the live set after `event`, grouped and sorted.
    cdef Folder f
    cdef int code = folder_init(&f, l.replay)
    if code == OK:
        code = add_live(&f, l, event)
    if code == OK:
        code = folder_groups(&f, by, file_rank, function_rank, groups)
    folder_free(&f)
    return code
