"""List a simulation's segments and blocks as a snapshot does.

Segments and blocks are sorted by address. Each mapped range of an expandable segment counts as a
segment.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.tables cimport (
    EMPTY_STACK, STATE_ACTIVE_ALLOCATED, STATE_ACTIVE_PENDING_FREE, STATE_INACTIVE, Carried
)
from memreplay.engine.replay.replay cimport CARRIED, Replay
from memreplay.engine.simulate.heap cimport (
    FREE_BLOCK, NO_BLOCK, NO_EVENT, PENDING_BLOCK, UNMAPPED, USED_BLOCK, Allocator, Shelf, SimBlock,
    block_at, can_expand, pool_at, segment_at, shelf_at
)
from memreplay.engine.simulate.editing cimport like
from memreplay.engine.simulate.simulation cimport Simulation


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const FinalSegment*> a).address
    cdef uint64_t y = (<const FinalSegment*> b).address
    return (x > y) - (x < y)


cdef int add_segment(const Allocator* a, uint32_t first, Buf* segments) noexcept nogil:
    cdef const Shelf* shelf = shelf_at(a, block_at(a, first).shelf)
    cdef const SimBlock* b
    cdef uint64_t created_at = segment_at(a, block_at(a, first).segment).created_at
    cdef uint32_t i = first
    cdef FinalSegment row
    memset(&row, 0, sizeof(FinalSegment))
    row.address = block_at(a, first).address
    row.stream = shelf.stream
    row.created_at = -1 if created_at == NO_EVENT else <int64_t> created_at
    row.first = first
    row.pool = pool_at(a, shelf.pool).id
    row.small = shelf.small
    row.expandable = can_expand(a, block_at(a, first))
    while i != NONE32 and block_at(a, i).state != UNMAPPED:
        b = block_at(a, i)
        row.size += <int64_t> b.size
        if b.state == USED_BLOCK:
            row.allocated += <int64_t> b.size
        if b.state != FREE_BLOCK:
            row.active += <int64_t> b.size
            row.requested += b.requested
        i = b.next
    return push_item(segments, &row)


cdef uint32_t stack_of(const Simulation* s, uint32_t owner) noexcept nogil:
    # Return the stack of the event that allocated a block.
    cdef const Replay* r = s.arena.replay
    if owner == NONE32:
        return EMPTY_STACK
    if owner & CARRIED:
        return (<const Carried*> r.carried.data)[owner & ~CARRIED].stack
    return (<const uint32_t*> r.tables.stack.data)[r.first + like(&s.edit, owner, r.events)]


cdef int add_blocks(const Simulation* s, uint32_t first, uint32_t segment,
                    Buf* blocks) noexcept nogil:
    cdef const SimBlock* b
    cdef uint32_t i = first
    cdef FinalBlock row
    while i != NONE32 and block_at(&s.a, i).state != UNMAPPED:
        b = block_at(&s.a, i)
        memset(&row, 0, sizeof(FinalBlock))
        row.address = b.address
        row.size = <int64_t> b.size
        row.requested = b.requested
        row.segment = segment
        row.stack = stack_of(s, b.owner)
        row.state = STATE_INACTIVE
        if b.state == USED_BLOCK:
            row.state = STATE_ACTIVE_ALLOCATED
        elif b.state == PENDING_BLOCK:
            row.state = STATE_ACTIVE_PENDING_FREE
        if push_item(blocks, &row) < 0:
            return -1
        i = b.next
    return 0


cdef int list_final(const Simulation* s, Buf* segments, Buf* blocks) noexcept nogil:
    # Fill the buffers with FinalSegments and FinalBlocks. Returns -1 when out of memory.
    cdef const SimBlock* b
    cdef const FinalSegment* row
    cdef uint64_t i
    for i in range(s.a.blocks.len):
        b = block_at(&s.a, <uint32_t> i)
        if b.state == NO_BLOCK or b.state == UNMAPPED:
            continue
        if b.prev == NONE32 or block_at(&s.a, b.prev).state == UNMAPPED:
            if add_segment(&s.a, <uint32_t> i, segments) < 0:
                return -1
    if segments.len:
        qsort(segments.data, segments.len, sizeof(FinalSegment), by_address)
    row = <const FinalSegment*> segments.data
    for i in range(segments.len):
        if add_blocks(s, row[i].first, <uint32_t> i, blocks) < 0:
            return -1
    return 0
