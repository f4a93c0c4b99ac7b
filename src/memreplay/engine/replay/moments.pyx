"""Find the allocations live after an event, that is, all that began by then and end later.

Allocations are in the order of their alloc events, so those that began by then are a prefix. A tree
over the events has the latest end in each part, so that parts that ended by then can be skipped.
Carried-over blocks are sorted by end. Building takes linear time, apart from the sort; a query
takes time proportional to its result.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_u32
from memreplay.engine.replay.lives cimport NEVER, counts
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef void moments_free(Moments* m) noexcept nogil:
    buf_free(&m.tree)
    buf_free(&m.blocks)


cdef int latest_first(const void* a, const void* b) noexcept nogil:
    # Pairs end << 32 | block.
    cdef uint64_t x = (<const uint64_t*> a)[0]
    cdef uint64_t y = (<const uint64_t*> b)[0]
    return (x < y) - (x > y)


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*> a)[0]
    cdef uint32_t y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef int sort_blocks(Moments* m) noexcept nogil:
    cdef const uint32_t* carried_end = <const uint32_t*> m.lives.carried_end.data
    cdef uint64_t n = m.lives.carried_end.len
    cdef uint64_t* pairs = <uint64_t*> malloc((n + 1) * sizeof(uint64_t))
    cdef uint64_t i
    cdef uint64_t kept = 0
    if pairs == NULL or buf_reserve(&m.blocks, n) < 0:
        free(pairs)
        return ERR_MEMORY
    for i in range(n):
        if carried_end[i] != NEVER:
            pairs[kept] = <uint64_t> carried_end[i] << 32 | i
            kept += 1
    qsort(pairs, kept, sizeof(uint64_t), latest_first)
    for i in range(kept):
        (<uint32_t*> m.blocks.data)[i] = <uint32_t> pairs[i]
    m.blocks.len = kept
    free(pairs)
    return OK


cdef int grow_tree(Moments* m) noexcept nogil:
    cdef const Lives* lives = m.lives
    cdef const uint8_t* action = (
        <const uint8_t*> lives.replay.tables.action.data + lives.replay.first)
    cdef uint64_t leaves = (lives.replay.events + LEAF - 1) // LEAF
    cdef uint32_t* tree
    cdef uint64_t i
    m.width = 1
    while m.width < leaves:
        m.width *= 2
    if buf_reserve(&m.tree, 2 * m.width) < 0:
        return ERR_MEMORY
    m.tree.len = 2 * m.width
    tree = <uint32_t*> m.tree.data
    memset(tree, 0, 2 * m.width * sizeof(uint32_t))
    for i in range(lives.replay.events):
        if counts(lives, action, i) and lives.end[i] > tree[m.width + i // LEAF]:
            tree[m.width + i // LEAF] = lives.end[i]
    for i in range(m.width - 1, 0, -1):
        tree[i] = max(tree[2 * i], tree[2 * i + 1])
    return OK


cdef int moments_init(Moments* m, const Lives* l) noexcept nogil:
    memset(m, 0, sizeof(Moments))
    m.lives = l
    buf_init(&m.tree, 4)
    buf_init(&m.blocks, 4)
    if grow_tree(m) != OK:
        return ERR_MEMORY
    return sort_blocks(m)


cdef int moments_live(const Moments* m, int64_t event, Buf* allocs, Buf* carried) noexcept nogil:
    # List the allocations (event indices) and carried-over blocks (indices) live after `event`,
    # both in ascending order.
    cdef const Lives* lives = m.lives
    cdef const uint8_t* action = (
        <const uint8_t*> lives.replay.tables.action.data + lives.replay.first)
    cdef const uint32_t* tree = <const uint32_t*> m.tree.data
    cdef const uint32_t* blocks = <const uint32_t*> m.blocks.data
    cdef const uint32_t* carried_end = <const uint32_t*> m.lives.carried_end.data
    cdef uint64_t n = <uint64_t> (event + 1)    # events so far
    cdef uint64_t node = 1
    cdef uint64_t depth_width = m.width    # number of leaves below the node
    cdef uint64_t first = 0                # the leftmost one
    cdef uint64_t i
    while n:
        if <int64_t> tree[node] > event and first * LEAF < n:
            if depth_width > 1:
                node *= 2
                depth_width //= 2
                continue
            for i in range(first * LEAF, min(n, (first + 1) * LEAF)):
                if (counts(lives, action, i) and <int64_t> lives.end[i] > event
                        and push_u32(allocs, <uint32_t> i) < 0):
                    return ERR_MEMORY
        # Go to the next node to the right: up while the node is a right child, then across.
        while node & 1:
            if node == 1:
                n = 0
                break
            node //= 2
            first -= first & (2 * depth_width - 1)
            depth_width *= 2
        if n:
            node += 1
            first += depth_width
    i = 0
    while i < m.blocks.len and <int64_t> carried_end[blocks[i]] > event:
        if push_u32(carried, blocks[i]) < 0:
            return ERR_MEMORY
        i += 1
    if carried.len:
        qsort(carried.data, carried.len, sizeof(uint32_t), ascending)
    return OK
