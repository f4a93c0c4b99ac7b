"""Find each allocation's group.

A stack's group is computed on first use, because most stacks of a file never occur in a live set of
interest. For groups of rows (streams, pools, sizes, annotations), the caller gives each row's
group. Any two groupings can be combined as a pair, and more than two as pairs of pairs.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.replay.label cimport CODE, label_frame
from memreplay.engine.base.bits cimport ctz64
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, buf_reserve, push_item, push_u32, push_u64, push_zeroed
)
from memreplay.engine.base.hashmap cimport (
    NONE32, Slot64, map64_at, map64_free, map64_init, span_at, spans_free, spans_init,
    spans_intern, spans_len
)
from memreplay.engine.base.slim cimport slim_at, slim_free, slim_init, slim_set, slim_unset
from memreplay.engine.replay.lives cimport NEVER, bytes_of
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, Carried, EMPTY_STACK, FrameKey


cdef void keys_free(Keys* k) noexcept nogil:
    buf_free(&k.of_stack)
    slim_free(&k.of_event)
    buf_free(&k.of_group)
    buf_free(&k.of_carried)
    buf_free(&k.names)
    buf_free(&k.path)
    buf_free(&k.first_stack)
    buf_free(&k.renamed)
    buf_free(&k.sums)
    buf_free(&k.touched)
    map64_free(&k.known)
    spans_free(&k.paths)


cdef int unset(Buf* b, uint64_t n) noexcept nogil:
    if buf_reserve(b, n) < 0:
        return -1
    b.len = n
    if n:
        memset(b.data, 0xFF, n * sizeof(uint32_t))
    return 0


cdef int keys_init(Keys* k, const Replay* r, int kind, uint64_t seed) noexcept nogil:
    # `k` must be zeroed. Afterwards the caller sets the other fields that the kind needs (ranks,
    # other Keys).
    k.replay = r
    k.kind = kind
    k.every = NONE32
    buf_init(&k.of_stack, 4)
    slim_init(&k.of_event)
    buf_init(&k.of_group, 4)
    buf_init(&k.of_carried, 4)
    buf_init(&k.names, 8)
    buf_init(&k.path, 4)
    buf_init(&k.first_stack, 4)
    buf_init(&k.renamed, 8)
    buf_init(&k.sums, sizeof(Sum))
    buf_init(&k.touched, 4)
    if map64_init(&k.known, seed) < 0 or spans_init(&k.paths, seed + 1) < 0:
        return ERR_MEMORY
    return OK


cdef uint32_t named(Keys* k, uint64_t name) noexcept nogil:
    # Return the group with this name, adding it if new; NONE32 when out of memory.
    cdef Slot64* slot = map64_at(&k.known, name, NONE32)
    if slot == NULL:
        return NONE32
    if slot.value == NONE32:
        # Reserve space in both buffers first, because a name without a sum would shift the sums of
        # all later groups.
        if buf_reserve(&k.names, 1) < 0 or buf_reserve(&k.sums, 1) < 0:
            return NONE32
        push_u64(&k.names, name)
        push_zeroed(&k.sums)
        slot.value = <uint32_t> k.names.len - 1
    return slot.value


cdef int keys_begin_rows(Keys* k) noexcept nogil:
    # Afterwards, call `keys_set` for each event.
    k.by_row = True
    k.last_group = NONE32
    return OK if slim_unset(&k.of_event, k.replay.events) == 0 else ERR_MEMORY


cdef int keys_set(Keys* k, uint64_t event, uint64_t name) noexcept nogil:
    # Adjacent events usually share a group.
    if k.last_group == NONE32 or name != k.last_name:
        k.last_name = name
        k.last_group = named(k, name)
        if k.last_group == NONE32:
            return ERR_MEMORY
    return OK if slim_set(&k.of_event, event, k.last_group) == 0 else ERR_MEMORY


cdef int keys_rows(Keys* k, const uint32_t* of_event, uint32_t of_all,
                   const uint32_t* of_carried) noexcept nogil:
    # Set the group of each row. `of_event` holds one (arbitrary) number per event; if it's NULL,
    # every event gets `of_all` unless keys_set sets the groups. `of_carried` holds one number per
    # carried-over block.
    cdef uint64_t i
    cdef uint32_t group
    k.by_row = True
    if unset(&k.of_carried, k.replay.carried.len) < 0:
        return ERR_MEMORY
    if of_event == NULL:
        if k.replay.events and k.of_event.items.len == 0:
            k.every = named(k, of_all)
            if k.every == NONE32:
                return ERR_MEMORY
    elif keys_begin_rows(k) != OK:
        return ERR_MEMORY
    else:
        for i in range(k.replay.events):
            if keys_set(k, i, of_event[i]) != OK:
                return ERR_MEMORY
    for i in range(k.replay.carried.len):
        group = named(k, of_carried[i])
        if group == NONE32:
            return ERR_MEMORY
        (<uint32_t*> k.of_carried.data)[i] = group
    return OK


cdef int modules_of(Keys* k, uint32_t stack, uint64_t* path) noexcept nogil:
    # Build the path of forward functions in a stack, outermost first. Consecutive frames with the
    # same id are kept, because a module may call another one of its kind. Returns -1 when out of
    # memory.
    cdef size_t n = 0
    cdef size_t i
    cdef const uint32_t* ids = <const uint32_t*> span_at(&k.replay.tables.stacks, stack, &n)
    cdef uint32_t id
    k.path.len = 0
    for i in range(n // 4, 0, -1):
        id = k.forwards[ids[i - 1]]
        if id != NONE32 and push_u32(&k.path, id) < 0:
            return -1
    id = spans_intern(&k.paths, k.path.data if k.path.len else <const void*> &k.kind,
                      k.path.len * sizeof(uint32_t))
    path[0] = id
    return 0 if id != NONE32 else -1


cdef int push_shown(Keys* k, uint32_t stack) noexcept nogil:
    # Push the frames of a stack that users see, outermost first: code frames, and the operator that
    # the innermost code frame called. Without code frames, push the outermost autograd node and the
    # outermost operator. If there is neither, push all frames.
    cdef const FrameKey* frames = <const FrameKey*> k.replay.tables.frames.data.data
    cdef size_t n = 0
    cdef size_t i
    cdef const uint32_t* ids = <const uint32_t*> span_at(&k.replay.tables.stacks, stack, &n)
    cdef uint32_t node = NONE32
    cdef uint32_t called = NONE32
    cdef uint32_t id
    k.path.len = 0
    for i in range(n // 4, 0, -1):
        id = ids[i - 1]
        if k.file_rank[frames[id].file] <= CODE:
            called = NONE32
            if push_u32(&k.path, id) < 0:
                return -1
            continue
        id = k.forwards[id]
        if id == NONE32:
            continue
        if id & NODE_BIT:
            if node == NONE32:
                node = id
        elif called == NONE32:
            called = id
    if k.path.len == 0 and node != NONE32 and push_u32(&k.path, node) < 0:
        return -1
    if called != NONE32:
        return push_u32(&k.path, called)
    for i in range(n // 4 if k.path.len == 0 else 0):
        if push_u32(&k.path, ids[i]) < 0:
            return -1
    return 0


cdef int shown_stack(Keys* k, uint32_t stack, uint64_t* like) noexcept nogil:
    # Return the first stack that looks the same as this stack; -1 when out of memory.
    cdef uint32_t id
    # Reserve first, because every path must have a stack.
    if push_shown(k, stack) < 0 or buf_reserve(&k.first_stack, 1) < 0:
        return -1
    id = spans_intern(&k.paths, k.path.data, k.path.len * sizeof(uint32_t))
    if id == NONE32:
        return -1
    if id == k.first_stack.len:
        push_u32(&k.first_stack, stack)
    like[0] = (<const uint32_t*> k.first_stack.data)[id]
    return 0


cdef uint64_t rules_of(Keys* k, uint32_t stack) noexcept nogil:
    # Return the rules that a stack's frames match. `renamed` may hold the rules that can apply to
    # allocations with a stack, to recorded allocations without a stack, and to carried-over blocks
    # without a stack.
    cdef size_t n = 0
    cdef size_t i
    cdef const uint32_t* ids
    cdef uint64_t found = k.always
    cdef const uint64_t* mask = <const uint64_t*> k.renamed.data
    if stack == EMPTY_STACK:
        return found & mask[1] if k.renamed.len else found
    if stack == spans_len(&k.replay.tables.stacks):
        return found & mask[2] if k.renamed.len else found
    ids = <const uint32_t*> span_at(&k.replay.tables.stacks, stack, &n)
    for i in range(n // 4):
        found |= k.any_frame[ids[i]]
    found |= k.own_frame[label_frame(k.replay, stack, k.file_rank, k.function_rank)]
    return found & mask[0] if k.renamed.len else found


cdef inline uint64_t name_in(const Keys* k, uint32_t group) noexcept nogil:
    return (<const uint64_t*> k.names.data)[group]


cdef uint64_t derived(Keys* k, uint32_t first, uint32_t second) noexcept nogil:
    # For a derived kind, return the name of the group that combines a group of `k.first` and a
    # group of `k.second`.
    cdef uint64_t rules
    if k.kind == BY_PAIR:
        return (<uint64_t> first << 32) | second
    if k.kind == BY_BOTH:
        return name_in(k.first, first) & name_in(k.second, second)
    if k.kind == BY_FIRST:
        rules = name_in(k.first, first)
        if rules == 0:
            return NO_RULE
        # Several rules may have the same name.
        if k.renamed.len:
            return (<const uint64_t*> k.renamed.data)[ctz64(rules)]
        return ctz64(rules)
    # Groups created after the renaming have no name.
    if first < k.renamed.len:
        return (<const uint64_t*> k.renamed.data)[first]
    return NAME_NO_STACK


cdef int name_of_stack(Keys* k, uint32_t stack, uint64_t* name) noexcept nogil:
    # Returns -1 when out of memory, except for BY_MASK, for which any number can be a name.
    cdef size_t n = 0
    cdef const uint32_t* ids
    cdef const FrameKey* frames = <const FrameKey*> k.replay.tables.frames.data.data
    cdef uint32_t frame
    if k.kind == BY_MASK:
        name[0] = rules_of(k, stack)
    elif stack == EMPTY_STACK:
        name[0] = NAME_NO_STACK
    elif stack == spans_len(&k.replay.tables.stacks):
        name[0] = NAME_CARRIED
    elif k.kind == BY_STACK:
        name[0] = stack
    elif k.kind == BY_SHOWN:
        return shown_stack(k, stack, name)
    elif k.kind == BY_MODULES:
        return modules_of(k, stack, name)
    elif k.kind == BY_INNERMOST:
        ids = <const uint32_t*> span_at(&k.replay.tables.stacks, stack, &n)
        name[0] = ids[0]
    else:
        frame = label_frame(k.replay, stack, k.file_rank, k.function_rank)
        if k.kind == BY_FRAME:
            name[0] = frame
        else:
            name[0] = frames[frame].file if k.kind == BY_FILE else frames[frame].name
    return 0


cdef uint32_t group_of_stack(Keys* k, uint32_t stack) noexcept nogil:
    # For carried-over blocks without a stack, `stack` is the number of stacks. Returns NONE32 when
    # out of memory.
    cdef uint32_t* at
    cdef uint32_t first
    cdef uint32_t second = 0
    cdef uint64_t name = 0
    if k.of_stack.len == 0 and unset(&k.of_stack, spans_len(&k.replay.tables.stacks) + 1) < 0:
        return NONE32
    at = <uint32_t*> k.of_stack.data + stack
    if at[0] == NONE32 and k.first != NULL:
        first = group_of_stack(k.first, stack)
        if k.second != NULL:
            second = group_of_stack(k.second, stack)
        if first != NONE32 and second != NONE32:
            at[0] = named(k, derived(k, first, second))
    elif at[0] == NONE32:
        if name_of_stack(k, stack, &name) == 0:
            at[0] = named(k, name)
    return at[0]


cdef uint32_t group_of_first(Keys* k, uint32_t first) noexcept nogil:
    # Return the group that a group of `k.first` determines; NONE32 when out of memory.
    cdef uint32_t* at
    if first == NONE32:
        return NONE32
    while k.of_group.len <= first:
        if push_u32(&k.of_group, NONE32) < 0:
            return NONE32
    at = <uint32_t*> k.of_group.data + first
    if at[0] == NONE32:
        at[0] = named(k, derived(k, first, 0))
    return at[0]


cdef uint32_t group_of_event(Keys* k, uint64_t event) noexcept nogil:
    # Return an alloc event's group; NONE32 when out of memory.
    cdef uint32_t first, second, group
    if not k.by_row:
        return group_of_stack(
            k, (<const uint32_t*> k.replay.tables.stack.data)[k.replay.first + event])
    if k.every != NONE32:
        return k.every
    if by_group(k):
        return group_of_first(k, group_of_event(k.first, event))
    if k.of_event.items.len == 0 and slim_unset(&k.of_event, k.replay.events) < 0:
        return NONE32
    group = slim_at(&k.of_event, event)
    if group == NONE32:
        first = group_of_event(k.first, event)
        second = group_of_event(k.second, event)
        if first != NONE32 and second != NONE32:
            group = named(k, derived(k, first, second))
        if group != NONE32 and slim_set(&k.of_event, event, group) < 0:
            return NONE32
    return group


cdef uint32_t group_of_carried(Keys* k, uint64_t block) noexcept nogil:
    # Return a carried-over block's group; NONE32 when out of memory.
    cdef uint32_t* at
    cdef uint32_t first, second, stack
    if not k.by_row:
        stack = (<const Carried*> k.replay.carried.data)[block].stack
        if stack == EMPTY_STACK:
            stack = spans_len(&k.replay.tables.stacks)
        return group_of_stack(k, stack)
    if by_group(k):
        return group_of_first(k, group_of_carried(k.first, block))
    if k.of_carried.len == 0 and unset(&k.of_carried, k.replay.carried.len) < 0:
        return NONE32
    at = <uint32_t*> k.of_carried.data + block
    if at[0] == NONE32:
        first = group_of_carried(k.first, block)
        second = group_of_carried(k.second, block)
        if first != NONE32 and second != NONE32:
            at[0] = named(k, derived(k, first, second))
    return at[0]


cdef int by_size(const void* a, const void* b) noexcept nogil:
    # Most bytes first, then most allocations, then name, so that the order is deterministic.
    cdef const Sum* x = <const Sum*> a
    cdef const Sum* y = <const Sum*> b
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    if x.count != y.count:
        return -1 if x.count > y.count else 1
    return (x.name > y.name) - (x.name < y.name)


cdef inline int add(Keys* k, uint32_t group, int64_t n_bytes, uint32_t stack) noexcept nogil:
    cdef Sum* sum
    if group == NONE32:
        return ERR_MEMORY
    sum = <Sum*> k.sums.data + group
    if sum.count == 0:
        if push_u32(&k.touched, group) < 0:
            return ERR_MEMORY
        sum.stack = stack
    # Sums computed from a forged file may wrap.
    sum.bytes = <int64_t> (<uint64_t> sum.bytes + <uint64_t> n_bytes)
    sum.count += 1
    return OK


cdef int keys_sum(Keys* k, const Lives* l, const Buf* allocs, const Buf* blocks,
                  Buf* out) noexcept nogil:
    # Fill `out` (of Sum) with the groups of these allocations (event indices) and carried-over
    # blocks (indices), largest first.
    cdef const uint32_t* stack = <const uint32_t*> k.replay.tables.stack.data + k.replay.first
    cdef const Carried* carried = <const Carried*> k.replay.carried.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef const uint32_t* listed = <const uint32_t*> allocs.data
    cdef uint64_t i
    cdef uint32_t group
    cdef int code = OK
    for i in range(allocs.len):
        if code == OK:
            code = add(k, group_of_event(k, listed[i]), bytes_of(l, listed[i]),
                       stack[listed[i]])
    listed = <const uint32_t*> blocks.data
    for i in range(blocks.len):
        if code == OK:
            code = add(k, group_of_carried(k, listed[i]), carried_bytes[listed[i]],
                       carried[listed[i]].stack)
    for i in range(k.touched.len):
        group = (<const uint32_t*> k.touched.data)[i]
        (<Sum*> k.sums.data)[group].name = (<const uint64_t*> k.names.data)[group]
        (<Sum*> k.sums.data)[group].group = group
        if code == OK and push_item(out, <Sum*> k.sums.data + group) < 0:
            code = ERR_MEMORY
        memset(<Sum*> k.sums.data + group, 0, sizeof(Sum))
    k.touched.len = 0
    if code == OK and out.len:
        qsort(out.data, out.len, sizeof(Sum), by_size)
    return code


cdef int keys_find_all(Keys* k) noexcept nogil:
    # Find the group of every allocation and carried-over block.
    cdef const uint8_t* action = <const uint8_t*> k.replay.tables.action.data + k.replay.first
    cdef uint64_t i
    if not k.by_row:
        # Visit all stacks, because there are far fewer stacks than events. Visiting the stacks of
        # frees does no harm.
        for i in range(<uint64_t> spans_len(&k.replay.tables.stacks) + 1):
            if group_of_stack(k, <uint32_t> i) == NONE32:
                return ERR_MEMORY
        return OK
    for i in range(k.replay.events):
        if action[i] == A_ALLOC and group_of_event(k, i) == NONE32:
            return ERR_MEMORY
    for i in range(k.replay.carried.len):
        if group_of_carried(k, i) == NONE32:
            return ERR_MEMORY
    return OK


cdef int keys_keep(Keys* k, Lives* l, const uint8_t* wanted) noexcept nogil:
    # Limit the measure to allocations of the wanted groups. All groups must be known.
    cdef const uint8_t* action = <const uint8_t*> k.replay.tables.action.data + k.replay.first
    cdef uint64_t n = k.replay.events
    cdef uint32_t* carried_end = <uint32_t*> l.carried_end.data
    cdef uint8_t* keep
    cdef uint64_t i
    cdef bint fresh = l.keep.len == 0
    if buf_reserve(&l.keep, n + 1 - l.keep.len) < 0:
        return ERR_MEMORY
    # Use one item more than there are events, because an empty array means that all allocations
    # count.
    l.keep.len = n + 1
    keep = <uint8_t*> l.keep.data
    for i in range(n):
        keep[i] = ((fresh or keep[i]) and action[i] == A_ALLOC
                   and wanted[group_of_event(k, i)])
    for i in range(l.carried_end.len):
        if not wanted[group_of_carried(k, i)]:
            carried_end[i] = NEVER
    return OK
