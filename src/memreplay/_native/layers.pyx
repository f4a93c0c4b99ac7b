"""Layers: bytes of groups at many events, in one pass over the events, however many there are.

Whatever lives from one event to another counts at the samples between: it is noted where it begins
and taken back where it ends, and sums along the samples make bytes of that. So the rows add up to
the measure at each sample.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from memreplay._native.arena cimport Arena
from memreplay._native.classes cimport Classes, Only, has_event, has_region
from memreplay._native.hashmap cimport NONE32
from memreplay._native.keying cimport Keys, group_of_base, group_of_event
from memreplay._native.lives cimport NEVER, Lives, counts
from memreplay._native.replay cimport Replay
from memreplay._native.reserve cimport Region
from memreplay._native.status cimport ERR_MEMORY, OK
from memreplay._native.tables cimport A_SEGMENT_ALLOC, A_SEGMENT_MAP


cdef int layers_init(Layers* y, const int64_t* samples, uint64_t n_samples, uint64_t rows,
                     uint64_t events, int64_t* out) noexcept nogil:
    # `samples` are events, none before the one in front of it; -1 is the start.
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
    # From this sample on; may be past the last. Unsigned, as lives.pyx has it.
    cdef uint64_t* out = <uint64_t*> y.out
    if sample < y.samples:
        out[row * y.samples + sample] += bytes


cdef inline void live(Layers* y, uint32_t row, uint64_t sample, uint32_t end,
                      int64_t bytes) noexcept nogil:
    # From this sample to the event that ends it.
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
    # Of each key below `known` its row, the last one for those that are not wanted; NULL when
    # memory is out.
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
    # `wanted` are groups that have been met.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* base_end = <const uint32_t*> l.base_end.data
    cdef const int64_t* base_bytes = <const int64_t*> l.base_bytes.data
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
            live(y, rows[group] if group < known else rest, y.upto[i], l.end[i], l.bytes[i])
    for i in range(l.base_end.len):
        if group != NONE32 and base_end[i] != NEVER:
            group = group_of_base(k, i)
            live(y, rows[group] if group < known else rest, 0, base_end[i], base_bytes[i])
    free(rows)
    if group == NONE32:
        return ERR_MEMORY
    sum_up(y)
    return OK


cdef int layers_of_reserved(Layers* y, const Classes* c, const Arena* a, const Only* only,
                            size_t n_only, const uint32_t* keys) noexcept nogil:
    # The same of reserved memory, of what is in each of `only`.
    cdef const Replay* r = a.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const int64_t* size = <const int64_t*> r.tables.size.data + r.first
    cdef const uint32_t* of_event = <const uint32_t*> c.of_event.data
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
            note(y, rows[of_event[at]], y.upto[at], bytes)
    sum_up(y)
    free(rows)
    return OK
