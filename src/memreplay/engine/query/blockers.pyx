"""Find the blocks in use that prevent free memory from being returned to the driver.

The free bytes of a unit are divided equally among its blocks in use (docs/fragmentation.md).
blockmap defines the units.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.replay.blockmap cimport (
    TILE_IN_USE, Tile, Unit, next_unit, segments_of, tiles_of
)
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item, push_zeroed
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.query.keying cimport group_at, group_of_carried
from memreplay.engine.replay.replay cimport CARRIED
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef inline uint32_t group_of(Keys* keys, Buf* sums, const Tile* t) noexcept nogil:
    # Return the group of a block's allocation, after making sure that the group has a sum; NONE32
    # when out of memory.
    cdef uint32_t group
    if t.owner & CARRIED:
        group = group_of_carried(keys, t.owner & ~CARRIED)
    else:
        group = group_at(keys, t.owner)
    while group != NONE32 and sums.len <= group:
        if push_zeroed(sums) < 0:
            return NONE32
    return group


cdef int share_out(const BlockMap* m, Keys* keys, uint32_t segment, const Unit* u,
                   uint32_t* counted, Buf* sums) noexcept nogil:
    # Divide a unit's free bytes among its blocks in use; the first blocks get the remainder.
    cdef const Tile* t = tiles_of(m) + segments_of(m)[segment].first
    cdef uint64_t odd = u.free % u.in_use
    cdef uint32_t i, group
    cdef uint32_t first = NONE32
    cdef bint alone = True
    cdef Blocker* blocker
    for i in range(u.first, u.stop):
        if t[i].state != TILE_IN_USE:
            continue
        group = group_of(keys, sums, &t[i])
        if group == NONE32:
            return ERR_MEMORY
        alone = alone and (first == NONE32 or first == group)
        first = group
        blocker = <Blocker*> sums.data + group
        blocker.bytes += u.free // u.in_use
        if odd:
            blocker.bytes += 1
            odd -= 1
        # A block that spans two handles occurs twice.
        if i >= counted[0]:
            blocker.blocks += 1
            counted[0] = i + 1
        if blocker.seen != segment + 1:
            blocker.seen = segment + 1
            blocker.segments += 1
    if alone:
        (<Blocker*> sums.data)[first].alone += u.free
    return OK


cdef int most_blocked(const void* x, const void* y) noexcept nogil:
    cdef const Blocker* p = <const Blocker*> x
    cdef const Blocker* q = <const Blocker*> y
    if p.bytes != q.bytes:
        return -1 if p.bytes > q.bytes else 1
    if p.blocks != q.blocks:
        return -1 if p.blocks > q.blocks else 1
    return (p.name > q.name) - (p.name < q.name)


cdef int blockmap_blockers(const BlockMap* m, Keys* keys, Buf* out) noexcept nogil:
    # Fill `out` (of Blocker) with the groups that block free bytes, most bytes first. The groups'
    # bytes add up to m.blocked.
    cdef Buf sums
    cdef Unit u
    cdef uint32_t counted
    cdef uint64_t i
    cdef int code = OK
    cdef Blocker* blocker
    buf_init(&sums, sizeof(Blocker))
    for i in range(m.segments.len):
        memset(&u, 0, sizeof(Unit))
        counted = 0
        while code == OK and next_unit(m, segments_of(m) + i, &u):
            if u.free and u.in_use:
                code = share_out(m, keys, <uint32_t> i, &u, &counted, &sums)
    for i in range(sums.len):
        blocker = <Blocker*> sums.data + i
        if code == OK and blocker.blocks:
            blocker.name = (<const uint64_t*> keys.names.data)[i]
            if push_item(out, blocker) < 0:
                code = ERR_MEMORY
    buf_free(&sums)
    if code == OK and out.len:
        qsort(out.data, out.len, sizeof(Blocker), most_blocked)
    return code
