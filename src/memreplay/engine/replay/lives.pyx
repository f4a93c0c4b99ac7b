"""Sum up a measure: bytes live after each event, and the live allocations.

Sums are unsigned, because sums computed from a forged file may wrap.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item, push_u32
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.slim cimport Slim, slim_at
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport Carried


cdef void lives_init(Lives* l) noexcept nogil:
    memset(l, 0, sizeof(Lives))
    buf_init(&l.carried_end, 4)
    buf_init(&l.carried_bytes, 8)
    buf_init(&l.keep, 1)


cdef int lives_requested(Lives* l, const Replay* r) noexcept nogil:
    # Set up the measure of requested bytes from alloc to free_completed.
    cdef const Carried* carried = <const Carried*> r.carried.data
    cdef uint64_t i
    l.replay = r
    l.end = <const uint32_t*> r.match.data
    l.size = <const int64_t*> r.tables.size.data + r.first
    if (buf_reserve(&l.carried_end, r.carried.len) < 0
            or buf_reserve(&l.carried_bytes, r.carried.len) < 0):
        return ERR_MEMORY
    l.carried_end.len = r.carried.len
    l.carried_bytes.len = r.carried.len
    for i in range(r.carried.len):
        (<uint32_t*> l.carried_end.data)[i] = carried[i].end
        (<int64_t*> l.carried_bytes.data)[i] = carried[i].size
    return OK


cdef void lives_hold(Lives* l, const uint32_t* end, const uint32_t* carried_end) noexcept nogil:
    # Count each allocation until these events instead.
    cdef uint64_t i
    l.end = end
    for i in range(l.carried_end.len):
        (<uint32_t*> l.carried_end.data)[i] = carried_end[i]


cdef void lives_weigh(Lives* l, const Weights* weights,
                      const int64_t* carried_bytes) noexcept nogil:
    # Count these bytes instead.
    cdef uint64_t i
    l.weights = weights
    for i in range(l.carried_bytes.len):
        (<int64_t*> l.carried_bytes.data)[i] = carried_bytes[i]


cdef void lives_free(Lives* l) noexcept nogil:
    buf_free(&l.carried_end)
    buf_free(&l.carried_bytes)
    buf_free(&l.keep)


cdef void weights_init(Weights* w) noexcept nogil:
    buf_init(&w.more, 4)
    buf_init(&w.unlike, sizeof(Weight))


cdef void weights_free(Weights* w) noexcept nogil:
    buf_free(&w.more)
    buf_free(&w.unlike)


cdef int weights_add(Weights* w, uint64_t event, int64_t size, int64_t n_bytes) noexcept nogil:
    # Add the byte count of the next event. Returns -1 when out of memory.
    cdef uint64_t more = <uint64_t> n_bytes - <uint64_t> size
    cdef Weight unlike
    if more < UNLIKE:
        return push_u32(&w.more, <uint32_t> more)
    unlike.event = event
    unlike.bytes = n_bytes
    return -1 if push_item(&w.unlike, &unlike) < 0 else push_u32(&w.more, UNLIKE)


cdef int64_t weight_of(const Weights* w, uint64_t event) noexcept nogil:
    # Look up the byte count for an UNLIKE alloc.
    cdef const Weight* unlike = <const Weight*> w.unlike.data
    cdef uint64_t lo = 0
    cdef uint64_t hi = w.unlike.len
    cdef uint64_t mid
    while lo < hi:
        mid = (lo + hi) // 2
        if unlike[mid].event < event:
            lo = mid + 1
        else:
            hi = mid
    return unlike[lo].bytes


cdef int lives_keep(Lives* l, const Slim* classes, const uint32_t* base_classes,
                    uint32_t wanted) noexcept nogil:
    # Limit the measure to allocations in this class.
    cdef uint64_t n = l.replay.events
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
        keep[i] = (fresh or keep[i]) and slim_at(classes, i) == wanted
    for i in range(l.carried_end.len):
        if base_classes[i] != wanted:
            carried_end[i] = NEVER
    return OK


cdef int lives_narrow(Lives* l, int64_t least, bint to_end, bint carried,
                      bint recorded) noexcept nogil:
    # Limit the measure to allocations of at least `least` bytes. `to_end` keeps only allocations
    # that were never freed, `carried` only those made before the first event, and `recorded` only
    # those made since then.
    cdef const uint8_t* action = <const uint8_t*> l.replay.tables.action.data + l.replay.first
    cdef uint64_t n = l.replay.events
    cdef uint32_t* carried_end = <uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint8_t* keep
    cdef uint64_t i
    cdef bint fresh = l.keep.len == 0
    if buf_reserve(&l.keep, n + 1 - l.keep.len) < 0:
        return ERR_MEMORY
    l.keep.len = n + 1
    keep = <uint8_t*> l.keep.data
    for i in range(n):
        keep[i] = (not carried and (fresh or keep[i]) and action[i] == A_ALLOC
                   and bytes_of(l, i) >= least and not (to_end and l.end[i] != NONE32))
    for i in range(l.carried_end.len):
        if recorded or carried_bytes[i] < least or (to_end and carried_end[i] != NONE32):
            carried_end[i] = NEVER
    return OK


cdef int64_t lives_start(const Lives* l) noexcept nogil:
    # Return the bytes before the first event.
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint64_t sum = 0
    cdef uint64_t i
    for i in range(l.carried_end.len):
        if carried_end[i] != NEVER:
            sum += <uint64_t> carried_bytes[i]
    return <int64_t> sum


cdef void lives_usage(const Lives* l, int64_t* out) noexcept nogil:
    # Store the bytes live after each event.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint64_t* change = <uint64_t*> out
    cdef uint64_t running = <uint64_t> lives_start(l)
    cdef uint64_t i
    if r.events == 0:
        return
    memset(out, 0, r.events * sizeof(int64_t))
    for i in range(l.carried_end.len):
        if carried_end[i] < NEVER:
            change[carried_end[i]] -= <uint64_t> carried_bytes[i]
    for i in range(r.events):
        # By now all changes at event i are known, because an allocation's end comes after its
        # alloc.
        if counts(l, action, i):
            running += <uint64_t> bytes_of(l, i)
            if l.end[i] != NONE32:
                change[l.end[i]] -= <uint64_t> bytes_of(l, i)
        running += change[i]
        out[i] = <int64_t> running


cdef int lives_at(const Lives* l, int64_t event, Buf* allocs, Buf* carried) noexcept nogil:
    # List the allocations (event indices) and carried-over blocks (indices) live after `event`.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef int64_t i
    for i in range(event + 1):
        if counts(l, action, i) and alive(l.end[i], event):
            if push_u32(allocs, <uint32_t> i) < 0:
                return ERR_MEMORY
    for i in range(<int64_t> l.carried_end.len):
        if alive(carried_end[i], event) and push_u32(carried, <uint32_t> i) < 0:
            return ERR_MEMORY
    return OK


cdef int64_t lives_end(const Lives* l) noexcept nogil:
    # Return the bytes live after the last event.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef uint64_t sum = 0
    cdef uint64_t i
    for i in range(r.events):
        if counts(l, action, i) and l.end[i] == NONE32:
            sum += <uint64_t> bytes_of(l, i)
    for i in range(l.carried_end.len):
        if carried_end[i] == NONE32:
            sum += <uint64_t> (<const int64_t*> l.carried_bytes.data)[i]
    return <int64_t> sum
