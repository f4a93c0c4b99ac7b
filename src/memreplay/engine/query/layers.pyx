"""Compute each group's bytes at many events in one pass, however many samples there are.

An allocation's bytes are added at the first sample in its lifetime and subtracted after the last
one. Prefix sums over the samples then give each group's bytes. At each sample, the rows add up to
the measure.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.classes cimport Classes, Only, has_event, has_region
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.query.keying cimport Keys, group_at, group_of_carried, group_of_event
from memreplay.engine.base.slim cimport slim_at
from memreplay.engine.replay.lives cimport NEVER, Lives, bytes_of, counts
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Region
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_SEGMENT_ALLOC, A_SEGMENT_MAP


cdef int layers_init(Layers* y, const int64_t* samples, uint64_t n_samples, uint64_t rows,
                     uint64_t events, int64_t* out) noexcept nogil:
    # `samples` are events in ascending order; -1 is the start.
    cdef uint64_t event
    cdef uint64_t before = 0
    y.out = out
    y.rows = rows
    y.samples = n_samples
    y.upto = <uint32_t*> malloc((events + 1) * sizeof(uint32_t))
    if y.upto == NULL:
        return ERR_MEMORY
    memset(out, 0, rows * n_samples * sizeof(int64_t))
    for event in range(events + 1):
        while before < n_samples and samples[before] < <int64_t> event:
            before += 1
        y.upto[event] = <uint32_t> before
    return OK


cdef void layers_free(Layers* y) noexcept nogil:
    free(y.upto)
    y.upto = NULL


cdef inline void note(Layers* y, uint32_t row, uint64_t sample, uint64_t bytes) noexcept nogil:
    # Add bytes from this sample on, which may be past the last one. Sums are unsigned, as in
    # lives.pyx.
    cdef uint64_t* out = <uint64_t*> y.out
    if sample < y.samples:
        out[row * y.samples + sample] += bytes


cdef inline void live(Layers* y, uint32_t row, uint64_t sample, uint32_t end,
                      int64_t bytes) noexcept nogil:
    # Count bytes from this sample on, until the event at which they are freed.
    note(y, row, sample, <uint64_t> bytes)
    if end != NONE32:
        note(y, row, y.upto[end], 0 - <uint64_t> bytes)


cdef void sum_up(Layers* y) noexcept nogil:
    cdef uint64_t* out = <uint64_t*> y.out
    cdef uint64_t row, i
    for row in range(y.rows):
        for i in range(row * y.samples + 1, (row + 1) * y.samples):
            out[i] += out[i - 1]


cdef uint32_t* rows_of(const uint32_t* keys, uint64_t n_keys, uint64_t known) noexcept nogil:
    # Return the row for each number below `known`: its own row if it's in `keys`, else the last
    # row. Returns NULL when out of memory.
    cdef uint32_t* rows = <uint32_t*> malloc((known + 1) * sizeof(uint32_t))
    cdef uint64_t i
    if rows == NULL:
        return NULL
    for i in range(known):
        rows[i] = <uint32_t> n_keys
    for i in range(n_keys):
        if keys[i] < known:
            rows[keys[i]] = <uint32_t> i
    return rows


cdef int layers_of_keys(Layers* y, Keys* k, const Lives* l, const uint32_t* wanted) noexcept nogil:
    # All groups in `wanted` must be known.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint32_t rest = <uint32_t> y.rows - 1
    cdef uint64_t known = k.names.len
    cdef uint32_t* rows = rows_of(wanted, rest, known)
    cdef uint32_t group = 0
    cdef uint64_t i
    if rows == NULL:
        return ERR_MEMORY
    for i in range(r.events):
        if counts(l, action, i):
            group = group_of_event(k, i)
            if group == NONE32:
                break
            live(y, rows[group] if group < known else rest, y.upto[i], l.end[i], bytes_of(l, i))
    for i in range(l.carried_end.len):
        if group != NONE32 and carried_end[i] != NEVER:
            group = group_of_carried(k, i)
            live(y, rows[group] if group < known else rest, 0, carried_end[i], carried_bytes[i])
    free(rows)
    if group == NONE32:
        return ERR_MEMORY
    sum_up(y)
    return OK


cdef int layers_of_reserved(Layers* y, const Classes* c, const Arena* a, const Only* only,
                            size_t n_only, const uint32_t* keys) noexcept nogil:
    # Like layers_of_keys, for reserved memory that matches each of `only`.
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* of_region = <const uint32_t*> c.of_region.data
    cdef const uint32_t* events = <const uint32_t*> a.reserve.events.data
    cdef const Region* regions = <const Region*> a.reserve.regions.data
    cdef uint32_t* rows = rows_of(keys, y.rows - 1, c.keys.len)
    cdef uint64_t i, at, bytes
    if rows == NULL:
        return ERR_MEMORY
    for i in range(a.reserve.regions.len):
        if has_region(only, n_only, i):
            note(y, rows[of_region[i]], 0, regions[i].end - regions[i].start)
    for i in range(a.reserve.events.len):
        at = events[i]
        if has_event(only, n_only, at):
            bytes = <uint64_t> size[at]
            if action[at] != A_SEGMENT_ALLOC and action[at] != A_SEGMENT_MAP:
                bytes = 0 - bytes
            note(y, rows[slim_at(&c.of_event, at)], y.upto[at], bytes)
    sum_up(y)
    free(rows)
    return OK


cdef int by_bytes(const void* a, const void* b) noexcept nogil:
    # Most bytes first, then earliest, then name, so that the order is deterministic.
    cdef const Best* x = <const Best*> a
    cdef const Best* y = <const Best*> b
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    if x.at != y.at:
        return -1 if x.at < y.at else 1
    if x.name != y.name:
        return -1 if x.name < y.name else 1
    return 0


cdef int find_all_groups(Keys* k, const Lives* l) noexcept nogil:
    # Find the group of every allocation and carried-over block that the measure counts.
    cdef const uint8_t* action = <const uint8_t*> k.replay.tables.action.data + k.replay.first
    cdef uint64_t i
    for i in range(k.replay.events):
        if counts(l, action, i) and group_at(k, i) == NONE32:
            return ERR_MEMORY
    for i in range(l.carried_end.len):
        if (<const uint32_t*> l.carried_end.data)[i] != NEVER and group_of_carried(k, i) == NONE32:
            return ERR_MEMORY
    return OK


cdef void run_bests(Keys* k, const Lives* l, const uint32_t* head, const uint32_t* following,
                    uint64_t* running, Best* best) noexcept nogil:
    # `head` is the first allocation that ends at each event, `following` the next one. Numbers
    # below `events` are alloc events, the others are carried-over blocks.
    cdef const uint8_t* action = <const uint8_t*> k.replay.tables.action.data + k.replay.first
    cdef uint64_t events = k.replay.events
    cdef uint64_t i
    cdef uint32_t one, group
    for i in range(events):
        one = head[i]
        while one != NONE32:
            if one < events:
                running[group_at(k, one)] -= <uint64_t> bytes_of(l, one)
            else:
                running[group_of_carried(k, one - events)] -= <uint64_t> (
                    (<const int64_t*> l.carried_bytes.data)[one - events])
            one = following[one]
        if counts(l, action, i):
            group = group_at(k, i)
            running[group] += <uint64_t> bytes_of(l, i)
            if <int64_t> running[group] > best[group].bytes:
                best[group].bytes = <int64_t> running[group]
                best[group].at = <int64_t> i


cdef int bests_of_keys(Keys* k, const Lives* l, Buf* out) noexcept nogil:
    # Fill `out` with a Best for each group that ever holds memory, largest first, in one pass over
    # the events.
    cdef const uint8_t* action = <const uint8_t*> k.replay.tables.action.data + k.replay.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint64_t events = k.replay.events
    cdef uint64_t rows = events + l.carried_end.len
    cdef uint64_t i, kept
    cdef uint32_t end, group
    cdef uint32_t* head
    cdef uint32_t* following
    cdef uint64_t* running
    cdef Best* best
    if find_all_groups(k, l) != OK or buf_reserve(out, k.names.len + 1) < 0:
        return ERR_MEMORY
    head = <uint32_t*> malloc((events + 1) * sizeof(uint32_t))
    following = <uint32_t*> malloc((rows + 1) * sizeof(uint32_t))
    running = <uint64_t*> malloc((k.names.len + 1) * sizeof(uint64_t))
    if head == NULL or following == NULL or running == NULL:
        free(head)
        free(following)
        free(running)
        return ERR_MEMORY
    memset(head, 0xFF, (events + 1) * sizeof(uint32_t))
    memset(running, 0, (k.names.len + 1) * sizeof(uint64_t))
    for i in range(rows):
        if i < events:
            end = l.end[i] if counts(l, action, i) else NONE32
        else:
            end = carried_end[i - events]
            if end == NEVER:
                continue
            group = group_of_carried(k, i - events)
            running[group] += <uint64_t> carried_bytes[i - events]
        if end != NONE32:
            following[i] = head[end]
            head[end] = <uint32_t> i
    best = <Best*> out.data
    for i in range(k.names.len):
        best[i].bytes = <int64_t> running[i]
        best[i].at = -1
        best[i].name = (<const uint64_t*> k.names.data)[i]
        best[i].group = <uint32_t> i
    run_bests(k, l, head, following, running, best)
    kept = 0
    for i in range(k.names.len):
        if best[i].bytes > 0:
            best[kept] = best[i]
            kept += 1
    out.len = kept
    if kept:
        qsort(best, kept, sizeof(Best), by_bytes)
    free(head)
    free(following)
    free(running)
    return OK
