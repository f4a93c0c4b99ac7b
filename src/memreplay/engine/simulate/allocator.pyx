"""PyTorch's caching allocator, after c10/cuda/CUDACachingAllocator.cpp (docs/allocator.md).

A request takes the smallest free block that is large enough. If there is none, the driver is called
for new memory. If the driver has too little memory, cached memory is returned and the driver is
called again. The caller identifies blocks by their owner.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve, push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.read.tables cimport (
    A_ALLOC, A_FREE_COMPLETED, A_FREE_REQUESTED, A_SEGMENT_ALLOC
)
from memreplay.engine.replay.sizes cimport (
    SMALL_LIMIT, leaves_rest, max_split, round_size, segment_size, to_alignment
)
from memreplay.engine.simulate.driver cimport driver_take
from memreplay.engine.simulate.heap cimport (
    DONE_OK, FREE_BLOCK, NO_MEMORY, PENDING_BLOCK, UNMAPPED, USED_BLOCK, Shelf, SimBlock,
    add_segment, block_at,
    can_expand, cut, give_back, handle_size, has_room, is_whole, join, lookups_of, map_block,
    note, pool_at, pool_number, rank, shelf_at, shelf_for, shelve, add_trace_event, unmap_block,
    unshelve, unshelve_at
)
from memreplay.engine.simulate.ordered cimport (
    Entry, Place, ordered_before, ordered_entry, ordered_first, ordered_from, ordered_next
)


# --- finding a block ------------------------------------------------------------------------------

cdef inline uint64_t could_grow_to(const Allocator* a, const SimBlock* b) noexcept nogil:
    if b.next != NONE32 and block_at(a, b.next).state == UNMAPPED:
        return b.size + block_at(a, b.next).size
    return b.size


cdef uint32_t best_fit(Allocator* a, uint32_t shelf, uint64_t size, Place* place) noexcept nogil:
    # Return the smallest free block that is large enough, and store its place on the shelf; NONE32
    # if there is none. For a block that can grow, the size to which it could grow counts.
    cdef Shelf* s = shelf_at(a, shelf)
    cdef Place p = ordered_from(&s.free, &a.chunks, size, 0)
    cdef const Entry* e = ordered_entry(&s.free, &a.chunks, p)
    cdef const Entry* other
    cdef uint32_t best
    cdef uint64_t limit = max_split(&a.rules)
    if a.limits.collect_from >= 0:
        lookups_of(a, shelf)[0] += 1
    if e == NULL:
        return NONE32
    best = e.id
    place[0] = p
    if can_expand(a, block_at(a, best)):
        if a.rules.expandable:
            ordered_next(&s.free, &a.chunks, &p)
            other = ordered_entry(&s.free, &a.chunks, p)
            while (other != NULL and can_expand(a, block_at(a, best))
                   and could_grow_to(a, block_at(a, other.id))
                   < could_grow_to(a, block_at(a, best))):
                best = other.id
                place[0] = p
                ordered_next(&s.free, &a.chunks, &p)
                other = ordered_entry(&s.free, &a.chunks, p)
        else:
            # Expandable segments are off now, so their memory can't serve these requests.
            while e != NULL and can_expand(a, block_at(a, e.id)):
                ordered_next(&s.free, &a.chunks, &p)
                e = ordered_entry(&s.free, &a.chunks, p)
            if e == NULL:
                return NONE32
            best = e.id
            place[0] = p
    if size < limit <= block_at(a, best).size:
        return NONE32
    if (size >= limit
            and block_at(a, best).size >= size + <uint64_t> a.rules.max_non_split):
        return NONE32
    return best


cdef int find_expandable(Allocator* a, uint32_t shelf, uint64_t size,
                         uint32_t* found) noexcept nogil:
    # Find the lowest addresses at which consecutive free and unmapped blocks have enough room.
    # `found` becomes the first of these blocks, or the first block of a new segment.
    cdef Shelf* s = shelf_at(a, shelf)
    cdef Place p = ordered_first(&s.unmapped)
    cdef const Entry* e = ordered_entry(&s.unmapped, &a.chunks, p)
    cdef uint64_t room, handle, space
    cdef uint32_t at
    while e != NULL:
        found[0] = e.id
        at = block_at(a, e.id).prev
        if at != NONE32 and block_at(a, at).state == FREE_BLOCK:
            found[0] = at
        room = 0
        at = found[0]
        while (room < size and at != NONE32
               and (block_at(a, at).state == FREE_BLOCK or block_at(a, at).state == UNMAPPED)):
            room += block_at(a, at).size
            at = block_at(a, at).next
        if room >= size:
            return DONE_OK
        ordered_next(&s.unmapped, &a.chunks, &p)
        e = ordered_entry(&s.unmapped, &a.chunks, p)
    handle = handle_size(a, shelf)
    space = (a.limits.space + handle - 1) // handle * handle
    found[0] = add_segment(a, driver_take(&a.driver, space), space, shelf, handle, UNMAPPED)
    return NO_MEMORY if found[0] == NONE32 else shelve(a, found[0])


cdef int expand(Allocator* a, uint32_t shelf, uint64_t size, uint32_t* found) noexcept nogil:
    cdef uint32_t i, more
    cdef bint mapped
    found[0] = NONE32
    if find_expandable(a, shelf, size, &i) < 0:
        return NO_MEMORY
    if block_at(a, i).state == UNMAPPED:
        if map_block(a, i, min(block_at(a, i).size, size), &mapped) < 0:
            return NO_MEMORY
        if not mapped:
            return DONE_OK
    while block_at(a, i).size < size:
        more = block_at(a, i).next
        if more == NONE32 or block_at(a, more).state != UNMAPPED:
            return DONE_OK
        if map_block(a, more, min(size - block_at(a, i).size, block_at(a, more).size),
                     &mapped) < 0:
            return NO_MEMORY
        if not mapped:
            return DONE_OK
        i = more  # merged with the free block before it
    found[0] = i
    return DONE_OK


cdef int ask_driver(Allocator* a, uint32_t shelf, uint64_t size, uint32_t* found) noexcept nogil:
    # Get new memory from the driver, as a free block on its shelf. `found` is NONE32 if the driver
    # has too little memory.
    cdef uint64_t wanted = segment_size(&a.rules, size)
    found[0] = NONE32
    if a.limits.allowed >= 0 and a.reserved + <int64_t> wanted > a.limits.allowed:
        return DONE_OK
    if a.rules.expandable:
        return expand(a, shelf, size, found)
    if not has_room(a, wanted):
        return DONE_OK
    found[0] = add_segment(a, driver_take(&a.driver, wanted), wanted, shelf, 0, FREE_BLOCK)
    if found[0] == NONE32:
        return NO_MEMORY
    if note(a, A_SEGMENT_ALLOC, block_at(a, found[0]).address, wanted, shelf) < 0:
        return NO_MEMORY
    return shelve(a, found[0])


# --- returning cached memory ----------------------------------------------------------------------

cdef int list_free(Allocator* a, uint32_t shelf, Buf* found) noexcept nogil:
    # Append a shelf's free blocks, smallest first.
    cdef Shelf* s = shelf_at(a, shelf)
    cdef Place p = ordered_first(&s.free)
    cdef const Entry* e = ordered_entry(&s.free, &a.chunks, p)
    while e != NULL:
        if push_u32(found, e.id) < 0:
            return NO_MEMORY
        ordered_next(&s.free, &a.chunks, &p)
        e = ordered_entry(&s.free, &a.chunks, p)
    return DONE_OK


cdef int release_oversize(Allocator* a, uint32_t shelf, uint64_t size,
                          bint* enough) noexcept nogil:
    # Release one oversize block that is large enough, or else the largest blocks until enough is
    # released.
    cdef Shelf* s = shelf_at(a, shelf)
    cdef uint64_t limit = max_split(&a.rules)
    cdef uint64_t wanted = max(size, limit)
    cdef uint64_t released = 0
    cdef const Entry* e
    cdef uint32_t i
    cdef Place p
    enough[0] = False
    if a.rules.max_split < 0:
        return DONE_OK
    p = ordered_from(&s.free, &a.chunks, wanted, 0)
    e = ordered_entry(&s.free, &a.chunks, p)
    if e != NULL and not can_expand(a, block_at(a, e.id)):
        enough[0] = True
        return give_back(a, e.id) if is_whole(a, e.id) else DONE_OK
    while released < wanted and ordered_before(&s.free, &a.chunks, &p):
        e = ordered_entry(&s.free, &a.chunks, p)
        if e.size < limit:
            break
        i = e.id
        if can_expand(a, block_at(a, i)) or not is_whole(a, i):
            continue
        released += block_at(a, i).size
        if give_back(a, i) < 0:
            return NO_MEMORY
        # any larger block is expandable or was released
        p = ordered_from(&s.free, &a.chunks, wanted, 0)
    enough[0] = released >= wanted
    return DONE_OK


cdef int collect(Allocator* a) noexcept nogil:
    # Release large cached segments in the default pool that haven't been used for long, until
    # enough memory is free.
    cdef uint64_t wanted, age
    cdef uint64_t released = 0
    cdef uint64_t i, k
    cdef double total = 0
    cdef int64_t there = 0
    cdef double least
    cdef bint any_freed = True
    cdef Shelf* s
    cdef SimBlock* b
    cdef Buf found
    cdef uint32_t id
    if a.limits.collect_from < 0 or a.reserved <= a.limits.collect_from:
        return DONE_OK
    wanted = <uint64_t> (a.reserved - a.limits.collect_from)
    buf_init(&found, 4)
    for i in range(a.loose.len):
        id = (<const uint32_t*> a.loose.data)[i]
        s = shelf_at(a, id)
        if s.small or pool_at(a, s.pool).private_pool:
            continue
        if list_free(a, id, &found) < 0:
            buf_free(&found)
            return NO_MEMORY
    for k in range(found.len):
        id = (<const uint32_t*> found.data)[k]
        if is_whole(a, id):
            b = block_at(a, id)
            total += <double> (lookups_of(a, b.shelf)[0] - b.born)
            there += 1
    while there > 0 and released < wanted and any_freed:
        least = total / <double> there
        any_freed = False
        for k in range(found.len):
            id = (<const uint32_t*> found.data)[k]
            if id == NONE32 or not is_whole(a, id):
                continue
            b = block_at(a, id)
            age = lookups_of(a, b.shelf)[0] - b.born
            if can_expand(a, b) or <double> age < least:
                continue
            any_freed = True
            released += b.size
            total -= <double> age
            there -= 1
            (<uint32_t*> found.data)[k] = NONE32
            if give_back(a, id) < 0:
                buf_free(&found)
                return NO_MEMORY
    buf_free(&found)
    return DONE_OK


cdef int release_shelves(Allocator* a, const uint32_t* shelves, uint64_t n) noexcept nogil:
    # Release memory from these shelves, all of one pool and kind: first the segments that are a
    # single free block, then handles of expandable segments.
    cdef Buf found
    cdef uint64_t i
    cdef uint32_t id
    cdef int code = DONE_OK
    buf_init(&found, 4)
    for i in range(n):
        if code == DONE_OK:
            code = list_free(a, shelves[i], &found)
    for i in range(found.len):
        id = (<const uint32_t*> found.data)[i]
        if code == DONE_OK and not can_expand(a, block_at(a, id)) and is_whole(a, id):
            (<uint32_t*> found.data)[i] = NONE32
            code = give_back(a, id)
    for i in range(found.len):
        id = (<const uint32_t*> found.data)[i]
        if code == DONE_OK and id != NONE32 and can_expand(a, block_at(a, id)):
            code = unmap_block(a, id)
    buf_free(&found)
    return code


cdef int end_pending(Allocator* a, uint32_t pool) noexcept nogil:
    # Wait for all streams, or only for the streams on which this pool's frees wait.
    cdef uint32_t i = a.first_pending
    cdef uint32_t later
    while i != NONE32:
        later = block_at(a, i).later
        if pool == NONE32 or shelf_at(a, block_at(a, i).shelf).pool == pool:
            if complete(a, i) < 0:
                return NO_MEMORY
            a.waited_for += 1
        i = later
    return DONE_OK


cdef int release_all(Allocator* a, const uint32_t* order, uint64_t n, uint32_t only) noexcept nogil:
    # Release as much as possible from these shelves, one combination of pool and kind at a time.
    cdef uint64_t first = 0
    cdef uint64_t stop
    cdef Shelf* s
    cdef Shelf* other
    while first < n:
        s = shelf_at(a, order[first])
        stop = first
        while stop < n:
            other = shelf_at(a, order[stop])
            if (rank(a, s) != rank(a, other)
                    or (pool_at(a, s.pool).private_pool and s.pool != other.pool)):
                break
            stop += 1
        if (s.pool == only if only != NONE32 else
                not pool_at(a, s.pool).private_pool or pool_at(a, s.pool).released):
            if release_shelves(a, order + first, stop - first) < 0:
                return NO_MEMORY
        first = stop
    return DONE_OK


cdef int empty_cache(Allocator* a, uint32_t pool) noexcept nogil:
    # Return all cached memory that can be released. If `pool` isn't NONE32, return only this
    # private pool's memory.
    cdef Buf order
    cdef uint32_t only = NONE32
    cdef int code
    if pool != NONE32:
        only = pool_number(a, pool, True)
        if only == NONE32:
            return NO_MEMORY
    if end_pending(a, only) < 0:
        return NO_MEMORY
    if a.loose.len == 0:
        return DONE_OK
    # Use a copy, because releasing memory changes which shelves are loose.
    buf_init(&order, 4)
    code = buf_reserve(&order, a.loose.len)
    if code == 0:
        memcpy(order.data, a.loose.data, a.loose.len * sizeof(uint32_t))
        code = release_all(a, <const uint32_t*> order.data, a.loose.len, only)
    buf_free(&order)
    return NO_MEMORY if code < 0 else DONE_OK


cdef int release_pool(Allocator* a, uint32_t pool) noexcept nogil:
    # Note that this private pool is no longer in use.
    cdef uint32_t i = pool_number(a, pool, True)
    if i == NONE32:
        return NO_MEMORY
    pool_at(a, i).released = True
    return DONE_OK


# --- the program's calls --------------------------------------------------------------------------

cdef int serve(Allocator* a, uint32_t i, uint32_t owner, int64_t requested, uint64_t size,
               uint32_t* block) noexcept nogil:
    # Use a free block that isn't on a shelf. Part of the block may stay free.
    cdef SimBlock* b
    cdef uint64_t before = to_alignment(&a.rules, a.rules.expandable, block_at(a, i).address, size)
    if before and before + size <= block_at(a, i).size:
        if cut(a, i, before) < 0 or shelve(a, i) < 0:
            return NO_MEMORY
        i = block_at(a, i).next
    if leaves_rest(&a.rules, size <= SMALL_LIMIT, a.rules.expandable, block_at(a, i).size, size):
        if cut(a, i, size) < 0 or shelve(a, block_at(a, i).next) < 0:
            return NO_MEMORY
    b = block_at(a, i)
    b.state = USED_BLOCK
    b.owner = owner
    b.requested = requested
    a.requested += requested
    if a.requested > a.requested_peak:
        a.requested_peak = a.requested
        a.requested_peak_at = <int64_t> a.at
    a.active += <int64_t> b.size
    if a.active > a.active_peak:
        a.active_peak = a.active
        a.active_peak_at = <int64_t> a.at
    block[0] = i
    return add_trace_event(a, A_ALLOC, b.address, requested, b.shelf)


cdef int take(Allocator* a, uint32_t owner, int64_t requested, uint64_t stream, uint32_t pool,
              bint private_pool, bint retries, uint32_t* block) noexcept nogil:
    # Allocate a block. `block` is NONE32 if neither the cache nor the driver has enough memory.
    # `retries` says whether cached memory may be returned to serve the request.
    cdef uint64_t size = round_size(&a.rules, <uint64_t> requested)
    cdef bint small = size <= SMALL_LIMIT
    cdef uint32_t shelf = shelf_for(a, stream, pool, private_pool, small)
    cdef bint enough
    cdef uint32_t i
    cdef Place place
    block[0] = NONE32
    if shelf == NONE32:
        return NO_MEMORY
    i = best_fit(a, shelf, size, &place)
    if i != NONE32:
        if unshelve_at(a, i, place) < 0:
            return NO_MEMORY
        return serve(a, i, owner, requested, size, block)
    if collect(a) < 0 or ask_driver(a, shelf, size, &i) < 0:
        return NO_MEMORY
    if i == NONE32:
        if release_oversize(a, shelf, size, &enough) < 0:
            return NO_MEMORY
        if enough and ask_driver(a, shelf, size, &i) < 0:
            return NO_MEMORY
    if i == NONE32 and retries:
        if empty_cache(a, NONE32) < 0:
            return NO_MEMORY
        a.retries += 1
        if ask_driver(a, shelf, size, &i) < 0:
            return NO_MEMORY
    if i == NONE32:
        return DONE_OK
    if unshelve(a, i) < 0:
        return NO_MEMORY
    return serve(a, i, owner, requested, size, block)


cdef int request_free(Allocator* a, uint32_t block) noexcept nogil:
    # Mark the block as pending: its free was requested and waits for a stream.
    cdef SimBlock* b = block_at(a, block)
    if b.state != USED_BLOCK:
        return DONE_OK
    b.state = PENDING_BLOCK
    b.earlier = a.last_pending
    b.later = NONE32
    if a.last_pending != NONE32:
        block_at(a, a.last_pending).later = block
    else:
        a.first_pending = block
    a.last_pending = block
    return add_trace_event(a, A_FREE_REQUESTED, b.address, b.requested, b.shelf)


cdef int complete(Allocator* a, uint32_t block) noexcept nogil:
    # Free the block.
    cdef SimBlock* b = block_at(a, block)
    if b.state == PENDING_BLOCK:
        if b.earlier != NONE32:
            block_at(a, b.earlier).later = b.later
        else:
            a.first_pending = b.later
        if b.later != NONE32:
            block_at(a, b.later).earlier = b.earlier
        else:
            a.last_pending = b.earlier
    elif add_trace_event(a, A_FREE_REQUESTED, b.address, b.requested, b.shelf) < 0:
        return NO_MEMORY
    if add_trace_event(a, A_FREE_COMPLETED, b.address, b.requested, b.shelf) < 0:
        return NO_MEMORY
    a.active -= <int64_t> b.size
    a.requested -= b.requested
    b.state = FREE_BLOCK
    b.owner = NONE32
    b.requested = 0
    return NO_MEMORY if join(a, block) < 0 else shelve(a, block)
