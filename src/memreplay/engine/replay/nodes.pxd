# The arena's blocks as linked nodes, and their segments' properties. All functions are inline.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena, ArenaNode, Origin
from memreplay.engine.base.growbuf cimport push_item, push_u32, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32, Map64, Slot64, map64_at, map64_get
from memreplay.engine.replay.sizes cimport MIN_BLOCK, to_alignment

cdef extern from *:
    uint32_t FREE_NODE "0xFFFFFFFFu"   # owner of a free block


# --- origins --------------------------------------------------------------------------------------

cdef inline Origin* origin_at(const Arena* a, uint32_t i) noexcept nogil:
    return <Origin*> a.origins.data + i


cdef inline int new_origin(Arena* a, const Origin* like) noexcept nogil:
    # Add an origin for a new segment at the end of `origins`.
    if push_item(&a.origins, like) < 0:
        return -1
    origin_at(a, <uint32_t> a.origins.len - 1).same = <uint32_t> a.origins.len - 1
    return 0


cdef inline uint32_t root(Arena* a, uint32_t i) noexcept nogil:
    # Return the origin that represents the segment, halving the chain on the way.
    while origin_at(a, i).same != i:
        origin_at(a, i).same = origin_at(a, origin_at(a, i).same).same
        i = origin_at(a, i).same
    return i


cdef inline void set_pool(Arena* a, uint32_t origin, uint32_t pool) noexcept nogil:
    # Set the whole segment's pool to one event's pool.
    origin = root(a, origin)
    if origin_at(a, origin).pool == NONE32:
        origin_at(a, origin).pool = pool


cdef inline void unite(Arena* a, uint32_t x, uint32_t y) noexcept nogil:
    # Unite two origins whose mapped ranges turn out to belong to one segment.
    x = root(a, x)
    y = root(a, y)
    set_pool(a, x, origin_at(a, y).pool)
    origin_at(a, y).same = x


# --- nodes ----------------------------------------------------------------------------------------

cdef inline ArenaNode* node(const Arena* a, uint32_t i) noexcept nogil:
    return <ArenaNode*> a.nodes.data + i


cdef inline Origin* origin_of(const Arena* a, uint32_t i) noexcept nogil:
    return <Origin*> a.origins.data + node(a, i).origin


cdef inline int put(Map64* m, uint64_t key, uint32_t value) noexcept nogil:
    cdef Slot64* slot = map64_at(m, key, value)
    if slot == NULL:
        return -1
    slot.value = value
    return 0


cdef inline uint32_t node_at(const Arena* a, uint64_t address) noexcept nogil:
    cdef uint32_t i = map64_get(&a.at, address, NONE32)
    if i == NONE32 or node(a, i).address != address or node(a, i).size == 0:
        return NONE32
    return i


cdef inline uint32_t new_node(Arena* a, uint64_t address, uint64_t size, uint32_t owner,
                              uint32_t origin) noexcept nogil:
    # Return an unlinked node; NONE32 when out of memory.
    cdef uint32_t i
    cdef ArenaNode* n
    if a.spare.len:
        a.spare.len -= 1
        i = (<uint32_t*> a.spare.data)[a.spare.len]
    else:
        i = <uint32_t> a.nodes.len
        if push_zeroed(&a.nodes) < 0:
            return NONE32
    n = node(a, i)
    n.address = address
    n.size = size
    n.prev = NONE32
    n.next = NONE32
    n.owner = owner
    n.origin = origin
    return i if put(&a.at, address, i) == 0 else NONE32


cdef inline int retire(Arena* a, uint32_t i) noexcept nogil:
    node(a, i).size = 0
    return push_u32(&a.spare, i)


cdef inline int note_end(Arena* a, uint32_t i) noexcept nogil:
    # Store where an expandable range ends, so that mapping the next range finds it.
    if node(a, i).next != NONE32 or not origin_of(a, i).expandable:
        return 0
    return put(&a.ends, node(a, i).address + node(a, i).size, i)


cdef inline void link(Arena* a, uint32_t left, uint32_t right) noexcept nogil:
    if left != NONE32:
        node(a, left).next = right
    if right != NONE32:
        node(a, right).prev = left


cdef inline int split(Arena* a, uint32_t i, uint64_t size) noexcept nogil:
    # Keep `size` bytes in node i; the rest becomes a free node after it.
    cdef uint32_t next = node(a, i).next
    cdef uint32_t rest = new_node(a, node(a, i).address + size, node(a, i).size - size, FREE_NODE,
                                  node(a, i).origin)
    if rest == NONE32:
        return -1
    node(a, i).size = size
    link(a, rest, next)
    link(a, i, rest)
    return note_end(a, rest)


cdef inline int release(Arena* a, uint32_t i) noexcept nogil:
    # Free node i, and merge it with free neighbours.
    cdef uint32_t other = node(a, i).next
    node(a, i).owner = FREE_NODE
    if other != NONE32 and node(a, other).owner == FREE_NODE:
        node(a, i).size += node(a, other).size
        link(a, i, node(a, other).next)
        if retire(a, other) < 0:
            return -1
    other = node(a, i).prev
    if other != NONE32 and node(a, other).owner == FREE_NODE:
        node(a, other).size += node(a, i).size
        link(a, other, node(a, i).next)
        if retire(a, i) < 0:
            return -1
        i = other
    return note_end(a, i)


cdef inline int begin_aligned(Arena* a, uint64_t address, uint64_t size,
                              uint32_t* found) noexcept nogil:
    # Find the free block in which an aligned large block begins at this address, which must be the
    # first possible address. The memory before it stays free. `found` becomes the free node that
    # begins there. Returns -1 when out of memory.
    cdef uint64_t before = MIN_BLOCK
    cdef uint32_t i = NONE32
    while i == NONE32 and before < <uint64_t> a.rules.align and before <= address:
        i = node_at(a, address - before)
        before += MIN_BLOCK
    if i == NONE32 or node(a, i).owner != FREE_NODE:
        return 0
    before = address - node(a, i).address
    if (to_alignment(&a.rules, origin_of(a, i).expandable or a.rules.expandable,
                     node(a, i).address, size) != before
            or node(a, i).size < before + size):
        return 0
    if split(a, i, before) < 0:
        return -1
    found[0] = node(a, i).next
    return 0
