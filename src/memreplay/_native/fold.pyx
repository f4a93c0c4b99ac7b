"""Folding a live set into groups, largest first; linear in events and stacks, but for the sort of
groups.

What a stack is put down to is its innermost frame of the lowest rank: rank 0 is the user's code,
and higher ranks are plumbing that says less and less. Ranks come from the caller, a byte a string
id.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from memreplay._native.growbuf cimport push_item
from memreplay._native.hashmap cimport NONE32, span_at, spans_len
from memreplay._native.lives cimport alive, counts
from memreplay._native.status cimport ERR_MEMORY, OK
from memreplay._native.tables cimport EMPTY_STACK, Baseline, FrameKey


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


cdef inline uint32_t key_of(const Replay* r, uint32_t stack, int by, const uint8_t* file_rank,
                            const uint8_t* function_rank) noexcept nogil:
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


cdef void add_live(const Lives* l, int64_t event, Group* sums, uint32_t stacks) noexcept nogil:
    # Sums a stack; baseline blocks that have none go to the row after the last stack.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const Baseline* base = <const Baseline*> r.baseline.data
    cdef const uint32_t* base_end = <const uint32_t*> l.base_end.data
    cdef const int64_t* base_bytes = <const int64_t*> l.base_bytes.data
    cdef Group* g
    cdef int64_t i
    for i in range(event + 1):
        if counts(l, action, i) and alive(l.end[i], event):
            g = &sums[stack[i]]
            g.bytes = plus(g.bytes, l.bytes[i])
            g.count += 1
    for i in range(<int64_t> l.base_end.len):
        if alive(base_end[i], event):
            g = &sums[base[i].stack if base[i].stack != EMPTY_STACK else stacks]
            g.bytes = plus(g.bytes, base_bytes[i])
            g.count += 1


cdef int fold_live(const Lives* l, int64_t event, int by, const uint8_t* file_rank,
                   const uint8_t* function_rank, Buf* groups) noexcept nogil:
    # Fills `groups` (of Group) with the live set after `event`, grouped and sorted.
    cdef const Replay* r = l.replay
    cdef uint32_t stacks = spans_len(&r.tables.stacks)
    cdef uint64_t keys = stacks
    cdef uint64_t i
    cdef uint32_t key
    cdef Group* sums = <Group*> calloc(<size_t> stacks + 1, sizeof(Group))
    cdef Group* folded = NULL
    cdef int code = OK
    if sums == NULL:
        return ERR_MEMORY
    add_live(l, event, sums, stacks)
    sums[EMPTY_STACK].key = KEY_NO_STACK
    sums[stacks].key = KEY_BASELINE
    for i in range(1, stacks):
        sums[i].key = <uint32_t> i
    if by != BY_STACK:
        keys = spans_len(&r.tables.frames) if by == BY_FRAME else spans_len(&r.tables.strings)
        folded = <Group*> calloc(keys, sizeof(Group))
        if folded == NULL:
            free(sums)
            return ERR_MEMORY
        for i in range(1, stacks):
            if sums[i].count:
                key = key_of(r, <uint32_t> i, by, file_rank, function_rank)
                folded[key].key = key
                folded[key].bytes = plus(folded[key].bytes, sums[i].bytes)
                folded[key].count += sums[i].count
                sums[i].count = 0
        code = push_groups(groups, folded, keys)
        free(folded)
    if code == OK:
        code = push_groups(groups, sums, <uint64_t> stacks + 1)
    free(sums)
    if code == OK and groups.len:
        qsort(groups.data, groups.len, sizeof(Group), by_size)
    return code


cdef int push_groups(Buf* groups, const Group* from_, uint64_t n) noexcept nogil:
    cdef uint64_t i
    for i in range(n):
        if from_[i].count and push_item(groups, &from_[i]) < 0:
            return ERR_MEMORY
    return OK
