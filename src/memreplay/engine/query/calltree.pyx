"""Fold stacks into a call tree, in time linear in their frames plus one sort.

A hash table maps a parent and a frame to a call's number. No function here is recursive, because a
recorded stack may be deeper than this thread's own stack allows.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from memreplay.engine.replay.label cimport CODE, label_frame
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, buf_reserve, push_item, push_u32, push_u64, push_zeroed
)
from memreplay.engine.base.hashmap cimport NONE32, Slot64, map64_at, map64_free, map64_init, span_at
from memreplay.engine.query.keying cimport NAME_CARRIED, NAME_NO_STACK, Sum
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport FrameKey


cdef int calltree_init(CallTree* t, const Replay* r, uint64_t seed) noexcept nogil:
    # `t` is zeroed.
    t.replay = r
    buf_init(&t.calls, sizeof(Call))
    buf_init(&t.order, sizeof(Call*))
    buf_init(&t.open, 8)
    buf_init(&t.lines, sizeof(Line))
    buf_init(&t.frames, 4)
    if map64_init(&t.known, seed) < 0 or push_zeroed(&t.calls) < 0:
        return ERR_MEMORY
    return OK


cdef void calltree_free(CallTree* t) noexcept nogil:
    buf_free(&t.calls)
    buf_free(&t.order)
    buf_free(&t.open)
    buf_free(&t.lines)
    buf_free(&t.frames)
    map64_free(&t.known)


cdef inline Call* call_at(CallTree* t, uint32_t number) noexcept nogil:
    return <Call*> t.calls.data + number


cdef inline void add(Call* call, const Sum* sum) noexcept nogil:
    # Sums computed from a forged file may wrap.
    call.bytes = <int64_t> (<uint64_t> call.bytes + <uint64_t> sum.bytes)
    call.count += sum.count


cdef uint32_t step(CallTree* t, uint32_t parent, uint32_t frame, const Sum* sum) noexcept nogil:
    # Add a sum to a callee, and return the callee; NONE32 when out of memory.
    cdef Slot64* slot = map64_at(&t.known, (<uint64_t> parent << 32) | frame, NONE32)
    if slot == NULL:
        return NONE32
    if slot.value == NONE32:
        if push_zeroed(&t.calls) < 0:
            return NONE32
        slot.value = <uint32_t> t.calls.len - 1
        call_at(t, slot.value).parent = parent
        call_at(t, slot.value).frame = frame
        call_at(t, parent).n_children += 1
    add(call_at(t, slot.value), sum)
    return slot.value


cdef uint32_t walk(CallTree* t, const Sum* sum, bint whole, bint inverted) noexcept nogil:
    # Add a stack and return its last call (the outermost one if `inverted`); NONE32 when out of
    # memory.
    cdef const FrameKey* frames = <const FrameKey*> t.replay.tables.frames.data.data
    cdef const uint32_t* ids
    cdef uint32_t at = 0
    cdef uint32_t stack
    cdef size_t n = 0
    cdef size_t i
    cdef uint32_t frame
    if sum.name == NAME_NO_STACK:
        return step(t, 0, CALL_NO_STACK, sum)
    if sum.name == NAME_CARRIED:
        return step(t, 0, CALL_CARRIED, sum)
    stack = <uint32_t> sum.name
    ids = <const uint32_t*> span_at(&t.replay.tables.stacks, stack, &n)
    n //= 4
    for i in range(n):
        frame = ids[i if inverted else n - 1 - i]    # a stack's first frame is the innermost one
        if at != NONE32 and (whole or t.file_rank[frames[frame].file] <= CODE):
            at = step(t, at, frame, sum)
    if at == 0:
        # If no frame is code, use the most informative frame.
        at = step(t, 0, label_frame(t.replay, stack, t.file_rank, t.function_rank), sum)
    return at


cdef int by_parent(const void* a, const void* b) noexcept nogil:
    # Sort by parent, then most bytes, then most allocations, then frame, so that the order is
    # deterministic.
    cdef const Call* x = (<const Call**> a)[0]
    cdef const Call* y = (<const Call**> b)[0]
    if x.parent != y.parent:
        return -1 if x.parent < y.parent else 1
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    if x.count != y.count:
        return -1 if x.count > y.count else 1
    return (x.frame > y.frame) - (x.frame < y.frame)


cdef int calltree_fold(CallTree* t, const Buf* sums, bint whole, bint inverted) noexcept nogil:
    # Fold `sums` (of Sum, grouped by stack) from the outermost call inward, or with `inverted` from
    # the innermost outward. Unless `whole`, only the user's frames are used.
    cdef const Sum* sum = <const Sum*> sums.data
    cdef Call* calls
    cdef Call** order
    cdef uint32_t end
    cdef uint64_t i
    for i in range(sums.len):
        end = walk(t, &sum[i], whole, inverted)
        if end == NONE32:
            return ERR_MEMORY
        add(call_at(t, 0), &sum[i])
        call_at(t, end).own_bytes = <int64_t> (<uint64_t> call_at(t, end).own_bytes
                                               + <uint64_t> sum[i].bytes)
        call_at(t, end).own_count += sum[i].count
    if buf_reserve(&t.order, t.calls.len) < 0:
        return ERR_MEMORY
    t.order.len = t.calls.len - 1
    calls = <Call*> t.calls.data
    order = <Call**> t.order.data
    for i in range(t.order.len):
        order[i] = &calls[i + 1]
    if t.order.len:
        qsort(order, t.order.len, sizeof(Call*), by_parent)
    for i in range(t.order.len, 0, -1):
        calls[order[i - 1].parent].children = <uint32_t> i - 1
    return OK


cdef int open_children(CallTree* t, const Call* call, uint64_t level,
                       int64_t least) noexcept nogil:
    # Push the children with at least `least` bytes, so that the largest is popped first.
    cdef Call* calls = <Call*> t.calls.data
    cdef Call** order = <Call**> t.order.data
    cdef uint32_t i
    for i in range(call.children + call.n_children, call.children, -1):
        if order[i - 1].bytes >= least:
            if push_u64(&t.open, (level << 32) | <uint64_t> (order[i - 1] - calls)) < 0:
                return ERR_MEMORY
    return OK


cdef int calltree_lines(CallTree* t, uint64_t depth, int64_t least) noexcept nogil:
    # Fill `lines` down to this level (0: all), with calls of at least `least` bytes.
    cdef Call** order = <Call**> t.order.data
    cdef Call* call = call_at(t, 0)
    cdef Line line
    cdef uint64_t top, level
    if open_children(t, call, 1, least) != OK:
        return ERR_MEMORY
    while t.open.len:
        t.open.len -= 1
        top = (<uint64_t*> t.open.data)[t.open.len]
        level = top >> 32
        call = call_at(t, <uint32_t> top)
        line.frames = t.frames.len
        line.level = <uint32_t> level
        if push_u32(&t.frames, call.frame) < 0:
            return ERR_MEMORY
        while call.n_children == 1 and call.own_count == 0:
            call = order[call.children]
            if push_u32(&t.frames, call.frame) < 0:
                return ERR_MEMORY
        line.n_frames = <uint32_t> (t.frames.len - line.frames)
        line.bytes = call.bytes
        line.count = call.count
        line.own_bytes = call.own_bytes
        line.own_count = call.own_count
        line.n_children = call.n_children
        if push_item(&t.lines, &line) < 0:
            return ERR_MEMORY
        if (depth == 0 or level < depth) and open_children(t, call, level + 1, least) != OK:
            return ERR_MEMORY
    return OK
