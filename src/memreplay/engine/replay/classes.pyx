"""Sum up each pool or stream in one pass over the events."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from memreplay.engine.replay.arena cimport Origin
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, buf_reserve, push_u32, push_u64, push_zeroed
)
from memreplay.engine.base.hashmap cimport NONE32, Map64, Slot64, map64_at, map64_free, map64_init
from memreplay.engine.base.slim cimport slim_at, slim_free, slim_init, slim_set, slim_unset
from memreplay.engine.replay.lives cimport NEVER, bytes_of, counts
from memreplay.engine.replay.replay cimport CARRIED, Replay
from memreplay.engine.replay.reserve cimport Region
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, A_SEGMENT_ALLOC, A_SEGMENT_MAP, A_SEGMENT_UNMAP
from memreplay.engine.read.sparse cimport sparse_at


cdef void classes_init(Classes* c) noexcept nogil:
    buf_init(&c.keys, 8)
    slim_init(&c.of_event)
    buf_init(&c.of_carried, 4)
    buf_init(&c.of_region, 4)


cdef void classes_free(Classes* c) noexcept nogil:
    buf_free(&c.keys)
    slim_free(&c.of_event)
    buf_free(&c.of_carried)
    buf_free(&c.of_region)


cdef inline uint32_t class_of(Classes* c, Map64* known, uint64_t key) noexcept nogil:
    # Return the class for a key, adding it if new; NONE32 when out of memory.
    cdef Slot64* slot = map64_at(known, key, NONE32)
    if slot == NULL:
        return NONE32
    if slot.value == NONE32:
        slot.value = <uint32_t> c.keys.len
        if push_u64(&c.keys, key) < 0:
            return NONE32
    return slot.value


cdef int classify(Classes* c, const Arena* a, bint by_pool, Map64* known) noexcept nogil:
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_origin = <const uint32_t*> a.carried_origin.data
    cdef const Origin* origins = <const Origin*> a.origins.data
    cdef const Region* regions = <const Region*> a.reserve.regions.data
    cdef uint64_t i, key
    cdef uint64_t last_key = 0
    cdef uint32_t last = NONE32
    cdef uint32_t found
    if (push_u64(&c.keys, 0) < 0 or slim_unset(&c.of_event, r.events) < 0
            or buf_reserve(&c.of_carried, r.carried.len) < 0
            or buf_reserve(&c.of_region, a.reserve.regions.len) < 0):
        return ERR_MEMORY
    for i in range(r.events):
        found = UNKNOWN_CLASS
        if action[i] == A_ALLOC or A_SEGMENT_ALLOC <= action[i] <= A_SEGMENT_UNMAP:
            key = slim_at(&a.pool, i) if by_pool else sparse_at(&r.tables.stream, r.first + i)
            if not by_pool or key != NONE32:
                # Adjacent events usually share a class.
                if last == NONE32 or key != last_key:
                    last = class_of(c, known, key)
                    last_key = key
                    if last == NONE32:
                        return ERR_MEMORY
                found = last
        if slim_set(&c.of_event, i, found) < 0:
            return ERR_MEMORY
    for i in range(r.carried.len):
        found = UNKNOWN_CLASS
        if carried_origin[i] != NONE32:
            key = origins[carried_origin[i]].pool if by_pool else origins[carried_origin[i]].stream
            if not by_pool or key != NONE32:
                found = class_of(c, known, key)
                if found == NONE32:
                    return ERR_MEMORY
        if push_u32(&c.of_carried, found) < 0:
            return ERR_MEMORY
    for i in range(a.reserve.regions.len):
        found = UNKNOWN_CLASS
        key = origins[i].pool if by_pool else regions[i].stream
        if not by_pool or key != NONE32:
            found = class_of(c, known, key)
            if found == NONE32:
                return ERR_MEMORY
        if push_u32(&c.of_region, found) < 0:
            return ERR_MEMORY
    return OK


cdef int classes_of_pools(Classes* c, const Arena* a) noexcept nogil:
    return with_map(c, a, True, 0)


cdef int classes_of_streams(Classes* c, const Arena* a, uint64_t seed) noexcept nogil:
    return with_map(c, a, False, seed)


cdef int with_map(Classes* c, const Arena* a, bint by_pool, uint64_t seed) noexcept nogil:
    cdef Map64 known
    cdef int code
    if map64_init(&known, seed) < 0:
        return ERR_MEMORY
    code = classify(c, a, by_pool, &known)
    map64_free(&known)
    return code


cdef inline void add(ClassSum* s, uint64_t bytes, int64_t event) noexcept nogil:
    s.final = <int64_t> (<uint64_t> s.final + bytes)
    s.blocks += 1
    s.live += 1
    if s.final > s.peak:
        s.peak = s.final
        s.peak_at = event


cdef inline void take(ClassSum* s, uint64_t bytes) noexcept nogil:
    s.final = <int64_t> (<uint64_t> s.final - bytes)
    s.live -= 1


cdef int begin(const Classes* c, Buf* out) noexcept nogil:
    cdef uint64_t i
    for i in range(c.keys.len):
        if push_zeroed(out) < 0:
            return ERR_MEMORY
        (<ClassSum*> out.data)[i].peak_at = -1
    return OK


cdef void settle_start(Buf* out) noexcept nogil:
    # At this point, everything that existed at the start has been added.
    cdef ClassSum* sums = <ClassSum*> out.data
    cdef uint64_t i
    for i in range(out.len):
        sums[i].start = sums[i].final
        sums[i].peak = sums[i].final
        sums[i].peak_at = -1


cdef void note_then(Buf* out) noexcept nogil:
    cdef ClassSum* sums = <ClassSum*> out.data
    cdef uint64_t i
    for i in range(out.len):
        sums[i].then = sums[i].final
        sums[i].live_then = sums[i].live


cdef int sum_lives(const Classes* c, const Lives* l, int64_t event, Buf* out) noexcept nogil:
    # Fill `out` (of ClassSum) with each class's sums. An event ends at most one allocation.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* of_carried = <const uint32_t*> c.of_carried.data
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef ClassSum* sums
    cdef uint32_t* ended   # per event: the alloc, or CARRIED | block, that it ended
    cdef uint64_t i
    cdef uint32_t which
    if begin(c, out) != OK:
        return ERR_MEMORY
    sums = <ClassSum*> out.data
    ended = <uint32_t*> malloc((r.events + 1) * sizeof(uint32_t))
    if ended == NULL:
        return ERR_MEMORY
    memset(ended, 0xFF, (r.events + 1) * sizeof(uint32_t))
    for i in range(r.carried.len):
        if carried_end[i] == NEVER:
            continue
        add(&sums[of_carried[i]], <uint64_t> carried_bytes[i], -1)
        if carried_end[i] != NONE32:
            ended[carried_end[i]] = CARRIED | <uint32_t> i
    settle_start(out)
    if event < 0:
        note_then(out)
    for i in range(r.events):
        which = ended[i]
        if which != NONE32:
            if which & CARRIED:
                which &= ~CARRIED
                take(&sums[of_carried[which]], <uint64_t> carried_bytes[which])
            else:
                take(&sums[slim_at(&c.of_event, which)], <uint64_t> bytes_of(l, which))
        if counts(l, action, i):
            add(&sums[slim_at(&c.of_event, i)], <uint64_t> bytes_of(l, i), <int64_t> i)
            if l.end[i] != NONE32:
                ended[l.end[i]] = <uint32_t> i
        if <int64_t> i == event:
            note_then(out)
    free(ended)
    return OK


cdef int sum_listed(const Classes* c, const Lives* l, const uint32_t* allocs, uint64_t n_allocs,
                    const uint32_t* blocks, uint64_t n_blocks, Buf* out) noexcept nogil:
    # For these allocations and carried-over blocks, only fill in `then` and `live_then`.
    cdef const uint32_t* of_carried = <const uint32_t*> c.of_carried.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef ClassSum* sums
    cdef uint64_t i
    if begin(c, out) != OK:
        return ERR_MEMORY
    sums = <ClassSum*> out.data
    for i in range(n_allocs):
        add(&sums[slim_at(&c.of_event, allocs[i])], <uint64_t> bytes_of(l, allocs[i]), 0)
    for i in range(n_blocks):
        add(&sums[of_carried[blocks[i]]], <uint64_t> carried_bytes[blocks[i]], 0)
    note_then(out)
    return OK


cdef int sum_reserved(const Classes* c, const Arena* a, const Only* only, size_t n_only,
                      int64_t event, Buf* out) noexcept nogil:
    # Like sum_lives, for reserved memory that matches each of `only`.
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* of_region = <const uint32_t*> c.of_region.data
    cdef const uint32_t* events = <const uint32_t*> a.reserve.events.data
    cdef const Region* regions = <const Region*> a.reserve.regions.data
    cdef ClassSum* sums
    cdef uint64_t i, at
    cdef bint noted = event < 0
    if begin(c, out) != OK:
        return ERR_MEMORY
    sums = <ClassSum*> out.data
    for i in range(a.reserve.regions.len):
        if has_region(only, n_only, i):
            add(&sums[of_region[i]], regions[i].end - regions[i].start, -1)
    settle_start(out)
    if noted:
        note_then(out)
    for i in range(a.reserve.events.len):
        at = events[i]
        if not noted and <int64_t> at > event:
            note_then(out)
            noted = True
        if not has_event(only, n_only, at):
            continue
        if action[at] == A_SEGMENT_ALLOC or action[at] == A_SEGMENT_MAP:
            add(&sums[slim_at(&c.of_event, at)], <uint64_t> size[at], <int64_t> at)
        else:
            take(&sums[slim_at(&c.of_event, at)], <uint64_t> size[at])
    if not noted:
        note_then(out)
    return OK


cdef int64_t reserved_of(const Arena* a, const Only* only, size_t n_only,
                         int64_t* out) noexcept nogil:
    # Return the reserved bytes at the start that match each of `only`, and store the bytes after
    # each event in `out`.
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* events = <const uint32_t*> a.reserve.events.data
    cdef const Region* regions = <const Region*> a.reserve.regions.data
    cdef uint64_t running = 0
    cdef uint64_t start, i
    cdef uint64_t at = 0
    for i in range(a.reserve.regions.len):
        if has_region(only, n_only, i):
            running += regions[i].end - regions[i].start
    start = running
    for i in range(r.events):
        if at < a.reserve.events.len and events[at] == i:
            at += 1
            if has_event(only, n_only, i):
                if action[i] == A_SEGMENT_ALLOC or action[i] == A_SEGMENT_MAP:
                    running += <uint64_t> size[i]
                else:
                    running -= <uint64_t> size[i]
        out[i] = <int64_t> running
    return <int64_t> start
