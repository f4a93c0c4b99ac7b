"""Compute the extremes, separate maxima, buckets and ranges of a series, each in one pass.

Two maxima are separate if the series falls by a given number of bytes (below both) between them, so
that a rippled plateau doesn't count as hundreds of peaks.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort
from memreplay.engine.base.growbuf cimport push_item
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef void series_extremes(const int64_t* usage, uint64_t n, int64_t start, const int64_t* times,
                          int64_t absent, Extremes* out) noexcept nogil:
    # `times` has one time per event (`absent` if it has none), or is NULL. A value lasts until the
    # next event with a later time; the start has no duration.
    cdef uint64_t i
    cdef int64_t now = absent
    cdef double weight = 0
    cdef double sum = 0
    cdef double span
    out.peak = start
    out.minimum = start
    out.peak_at = -1
    out.minimum_at = -1
    out.end = usage[n - 1] if n else start
    for i in range(n):
        if usage[i] > out.peak:
            out.peak = usage[i]
            out.peak_at = <int64_t> i
        if usage[i] < out.minimum:
            out.minimum = usage[i]
            out.minimum_at = <int64_t> i
    if times != NULL:
        for i in range(n):
            if times[i] == absent:
                continue
            if now == absent:
                now = times[i]
            elif times[i] > now:
                span = <double> times[i] - <double> now
                weight += span
                sum += span * <double> usage[i - 1]
                now = times[i]
    out.timed = weight > 0
    out.mean = sum / weight if weight > 0 else 0


cdef int highest_first(const void* a, const void* b) noexcept nogil:
    cdef const Maximum* x = <const Maximum*> a
    cdef const Maximum* y = <const Maximum*> b
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    return (x.at > y.at) - (x.at < y.at)


cdef inline bint far(int64_t high, int64_t low, uint64_t drop) noexcept nogil:
    return high > low and <uint64_t> high - <uint64_t> low >= drop


cdef int series_maxima(const int64_t* usage, uint64_t n, int64_t start, uint64_t drop,
                       Buf* out) noexcept nogil:
    # Fill `out` (of Maximum) with the maxima that are separated by falls of at least `drop` bytes,
    # highest first, and earlier maxima first on a tie. The first entry is always the peak.
    cdef Maximum top
    cdef int64_t low = start
    cdef bint rising = True    # since the last accepted maximum
    cdef int64_t i, value
    top.bytes = start
    top.at = -1
    for i in range(<int64_t> n):
        value = usage[i]
        if rising:
            if value > top.bytes:
                top.bytes = value
                top.at = i
            elif far(top.bytes, value, drop):
                if push_item(out, &top) < 0:
                    return ERR_MEMORY
                rising = False
                low = value
        elif value < low:
            low = value
        elif far(value, low, drop):
            rising = True
            top.bytes = value
            top.at = i
    if rising and push_item(out, &top) < 0:
        return ERR_MEMORY
    if out.len:
        qsort(out.data, out.len, sizeof(Maximum), highest_first)
    return OK


cdef bint series_never_falls(const int64_t* values, uint64_t n) noexcept nogil:
    cdef uint64_t i
    cdef bint falls = False
    for i in range(1, n):
        falls |= values[i] < values[i - 1]
    return not falls


cdef void series_highest_so_far(const int64_t* values, uint64_t n, int64_t* out) noexcept nogil:
    # Store the highest value up to each event.
    cdef uint64_t i
    for i in range(n):
        out[i] = values[i] if i == 0 or values[i] > out[i - 1] else out[i - 1]


cdef inline uint64_t position(const int64_t* clock, int64_t origin, uint64_t i) noexcept nogil:
    # Return event i's position: its index, or its time since the origin. Events before the first
    # time are at the origin.
    if clock == NULL:
        return i
    return <uint64_t> clock[i] - <uint64_t> origin if clock[i] > origin else 0


cdef void series_buckets(const int64_t* usage, uint64_t n, int64_t start, const int64_t* clock,
                         int64_t origin, uint64_t whole, uint64_t parts,
                         Bucket* out) noexcept nogil:
    # Cut positions 0 to `whole` - 1 into `parts` equal buckets; bucket b begins at whole * b //
    # parts. If `clock` is NULL, positions are events: a bucket has the values after its events, and
    # the first bucket also has the start. Otherwise, positions are times: a bucket has all values
    # that occur in it, including the value at its start. `clock` must never decrease.
    cdef uint64_t step = whole // parts
    cdef uint64_t rest = whole % parts     # below 2**32, like `parts`
    cdef uint64_t i = 0
    cdef uint64_t b, stop
    cdef Bucket* x
    cdef bint empty
    for b in range(parts):
        x = &out[b]
        stop = step * (b + 1) + rest * (b + 1) // parts
        x.events = 0
        x.first = <int64_t> i - 1
        empty = clock == NULL and b > 0
        x.low = usage[i - 1] if i else start
        x.high = x.low
        x.high_at = x.first
        while i < n and (b == parts - 1 or position(clock, origin, i) < stop):
            if x.events == 0:
                x.first = <int64_t> i
            x.events += 1
            if empty or usage[i] > x.high:
                x.high = usage[i]
                x.high_at = <int64_t> i
            if empty or usage[i] < x.low:
                x.low = usage[i]
            empty = False
            i += 1


cdef extern from *:
    # number of events, a multiple of four because four are compared in parallel
    const int64_t RANGE_BLOCK "32"


cdef inline int64_t lower(int64_t a, int64_t b) noexcept nogil:
    return b if b < a else a


cdef inline int64_t higher(int64_t a, int64_t b) noexcept nogil:
    return b if b > a else a


cdef inline void range_extremes(const int64_t* usage, int64_t first, int64_t stop,
                                Range* out) noexcept nogil:
    # Find the extremes of events `first` to `stop` - 1, at least one. Each block's extremes are
    # computed in four independent chains and without branches, which would often be mispredicted.
    # The maximum's position is only searched for at the end, in one block.
    cdef int64_t low = usage[first]
    cdef int64_t high = low
    cdef int64_t at = first    # start of the block with the maximum, or the maximum itself
    cdef int64_t i = first
    cdef int64_t j, top
    cdef int64_t low0, low1, low2, low3, high0, high1, high2, high3
    while stop - i >= RANGE_BLOCK:
        low0 = high0 = usage[i]
        low1 = high1 = usage[i + 1]
        low2 = high2 = usage[i + 2]
        low3 = high3 = usage[i + 3]
        for j in range(i + 4, i + RANGE_BLOCK, 4):
            low0 = lower(low0, usage[j])
            high0 = higher(high0, usage[j])
            low1 = lower(low1, usage[j + 1])
            high1 = higher(high1, usage[j + 1])
            low2 = lower(low2, usage[j + 2])
            high2 = higher(high2, usage[j + 2])
            low3 = lower(low3, usage[j + 3])
            high3 = higher(high3, usage[j + 3])
        low = lower(low, lower(lower(low0, low1), lower(low2, low3)))
        top = higher(higher(high0, high1), higher(high2, high3))
        at = i if top > high else at
        high = higher(high, top)
        i += RANGE_BLOCK
    while i < stop:
        low = lower(low, usage[i])
        at = i if usage[i] > high else at
        high = higher(high, usage[i])
        i += 1
    while usage[at] != high:
        at += 1
    out.low = low
    out.high = high
    out.high_at = at


cdef int64_t series_ranges(const int64_t* usage, uint64_t n, int64_t start, const int64_t* bounds,
                           uint64_t ranges, Range* out) noexcept nogil:
    # For each i below `ranges`, find the extremes of events bounds[i] to bounds[i + 1] - 1. Returns
    # -1, or the index of a bound that decreases or isn't from 0 to `n`. Each bound is read only
    # once, because another thread may change it.
    cdef int64_t first = bounds[0]
    cdef int64_t stop
    cdef uint64_t i
    if first < 0 or <uint64_t> first > n:
        return 0
    for i in range(ranges):
        stop = bounds[i + 1]
        if stop < first or <uint64_t> stop > n:
            return <int64_t> i + 1
        if stop > first:
            range_extremes(usage, first, stop, &out[i])
        else:
            out[i].low = out[i].high = usage[first - 1] if first else start
            out[i].high_at = first - 1
        first = stop
    return -1
