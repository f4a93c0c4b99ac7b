"""Find a program's steps from its trace.

In a loop, some stacks allocate exactly once per iteration. So for a stack A that occurs k times,
find the other stacks that occur exactly once between every two consecutive events of A. These are
A's members; if there are several, A marks a loop.

Loops are nested (layers in a step, steps between two evaluations), so each loop is scored by four
numbers:

- the share of a repetition that lies between its members (they're close together in an evaluation,
  but not in a step)
- whether memory returns to its previous level (not after a layer, because activations are saved)
- the share of memory's total range that one repetition covers (small for an optimizer's loop over
  parameters)
- the share of the trace that it covers

A loop inside a module's `forward` iterates over layers, not steps. Stacks with equal counts are
examined together, so the search takes linear time. If events have no stacks, sizes are compared
instead. If nothing occurs exactly once per iteration, `find_waves` looks at how memory rises and
falls.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memset
from memreplay.engine.base.growbuf cimport push_u32
from memreplay.engine.base.hashmap cimport (
    Map64, Slot64, map64_at, map64_free, map64_init, span_at, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC, EMPTY_STACK, FrameKey

cdef enum:
    LEAST_MEMBERS = 3
    MOST_MEMBERS = 64     # more members wouldn't tell more about a loop
    TRIED = 3             # how many stacks with equal counts to try as A
    MOST_FORWARD = 64     # highest number of forward() frames per stack
    WEIGHED = 8           # how many loops with the best partial scores are scored completely
    SAMPLES = 4096        # number of samples from which to find the range of usage


cdef struct Loop:
    uint32_t id
    uint32_t members
    double spread, extent


cdef struct Finder:
    const Replay* r
    uint32_t ids
    uint64_t allocs
    uint32_t* offsets     # per id: its first event in `events`
    uint32_t* events      # events of each id, in order
    uint64_t* order       # count << 32 | id of each loop candidate, sorted by count
    uint64_t ordered


cdef inline uint32_t n_of(const Finder* f, uint32_t id) noexcept nogil:
    return f.offsets[id + 1] - f.offsets[id]


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*> a)[0]
    cdef uint64_t y = (<const uint64_t*> b)[0]
    return (x > y) - (x < y)


cdef int ascending_double(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*> a)[0]
    cdef double y = (<const double*> b)[0]
    return (x > y) - (x < y)


# ---- ids

cdef int number_sizes(const Replay* r, uint64_t seed, uint32_t* ids, uint32_t* n) noexcept nogil:
    # Number the allocation sizes from 1 on, because 0 means that there is none.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint64_t* size = <const uint64_t*> r.tables.size.data + r.first
    cdef Map64 sizes
    cdef Slot64* slot
    cdef uint64_t i
    cdef int code = OK
    n[0] = 1
    if map64_init(&sizes, seed) < 0:
        return ERR_MEMORY
    for i in range(r.events):
        if action[i] == A_ALLOC:
            slot = map64_at(&sizes, size[i], n[0])
            if slot == NULL:
                code = ERR_MEMORY
                break
            ids[i] = slot.value
            n[0] += slot.value == n[0]
    map64_free(&sizes)
    return code


cdef int finder_init(Finder* f, const Replay* r, const uint32_t* ids, uint32_t n) noexcept nogil:
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t i
    cdef uint32_t count, id
    f.r = r
    f.ids = n
    f.offsets = <uint32_t*> calloc(<uint64_t> n + 2, sizeof(uint32_t))
    f.order = <uint64_t*> malloc((<uint64_t> n + 1) * sizeof(uint64_t))
    if f.offsets == NULL or f.order == NULL:
        return ERR_MEMORY
    for i in range(r.events):
        if action[i] == A_ALLOC and ids[i] != EMPTY_STACK:
            f.offsets[ids[i] + 2] += 1
            f.allocs += 1
    for id in range(n):
        count = f.offsets[id + 2]
        # If an id belongs to more than half of all allocations, no other id can occur as often.
        if count >= LEAST_ROUNDS and count <= f.allocs // 2:
            f.order[f.ordered] = <uint64_t> count << 32 | id
            f.ordered += 1
    for i in range(n):
        f.offsets[i + 2] += f.offsets[i + 1]
    f.events = <uint32_t*> malloc((f.allocs + 1) * sizeof(uint32_t))
    if f.events == NULL:
        return ERR_MEMORY
    for i in range(r.events):
        if action[i] == A_ALLOC and ids[i] != EMPTY_STACK:
            f.events[f.offsets[ids[i] + 1]] = <uint32_t> i
            f.offsets[ids[i] + 1] += 1
    qsort(f.order, f.ordered, sizeof(uint64_t), ascending)
    return OK


cdef void finder_free(Finder* f) noexcept nogil:
    free(f.offsets)
    free(f.order)
    free(f.events)


# ---- loops

cdef bint once_in_each(const uint32_t* a, uint32_t n, const uint32_t* b, uint32_t m) noexcept nogil:
    # Whether b occurs exactly once between every two consecutive events of a.
    cdef uint32_t t = 0
    cdef uint32_t j
    while t < m and b[t] < a[0]:
        t += 1
    if t > 1 or m - t < n - 1:
        return False
    for j in range(n - 1):
        if b[t + j] < a[j] or b[t + j] > a[j + 1]:
            return False
    # At most one event of b is left, and it must come after the last event of a.
    return m - t == n - 1 or (m - t == n and b[m - 1] > a[n - 1])


cdef double spread_of(const Finder* f, const uint32_t* a, uint32_t n, const uint32_t* members,
                      uint32_t count) noexcept nogil:
    # Return the share of a's rounds that lies between members: all events except each round's
    # widest gap.
    cdef uint32_t at[MOST_MEMBERS]        # next event of each member
    cdef uint32_t points[MOST_MEMBERS + 1]
    cdef const uint32_t* b
    cdef uint64_t wide = 0
    cdef uint32_t i, j, k, m, value, before, gap
    for i in range(count):
        b = f.events + f.offsets[members[i]]
        at[i] = 1 if b[0] < a[0] else 0
    for j in range(n - 1):
        m = 0
        for i in range(count):
            # An insertion sort, because the order hardly differs from that in `members`.
            value = f.events[f.offsets[members[i]] + at[i] + j]
            k = m
            while k > 0 and points[k - 1] > value:
                points[k] = points[k - 1]
                k -= 1
            points[k] = value
            m += 1
        points[m] = a[j + 1]
        before = a[j]
        gap = 0
        for i in range(m + 1):
            gap = max(gap, points[i] - before)
            before = points[i]
        wide += gap
    return 1 - <double> wide / <double> (a[n - 1] - a[0])


cdef uint32_t members_of(const Finder* f, uint32_t id, uint64_t first, uint64_t last,
                         uint32_t* members) noexcept nogil:
    # Count the ids in order[first:last] that occur once in each round of `id`, and collect some of
    # them, evenly spaced and ordered by their first event.
    cdef const uint32_t* a = f.events + f.offsets[id]
    cdef uint32_t n = n_of(f, id)
    cdef uint32_t found = 0
    cdef uint32_t kept = 0
    cdef uint32_t stride = 1
    cdef uint32_t other, i, k
    cdef uint64_t o
    for o in range(first, last):
        other = <uint32_t> f.order[o]
        if other == id or not once_in_each(a, n, f.events + f.offsets[other], n_of(f, other)):
            continue
        if found % stride == 0:
            if kept == MOST_MEMBERS:
                for i in range(MOST_MEMBERS // 2):
                    members[i] = members[2 * i]
                kept = MOST_MEMBERS // 2
                stride *= 2
            if found % stride == 0:
                members[kept] = other
                kept += 1
        found += 1
    for i in range(1, kept):
        other = members[i]
        k = i
        while k > 0 and f.events[f.offsets[members[k - 1]]] > f.events[f.offsets[other]]:
            members[k] = members[k - 1]
            k -= 1
        members[k] = other
    members[MOST_MEMBERS] = kept
    return found


cdef void keep_best(Loop* best, uint32_t* n, const Loop* one) noexcept nogil:
    # Keep the WEIGHED loops with the highest product of spread and extent, best first.
    cdef double score = one.spread * one.extent
    cdef uint32_t k = n[0]
    if k == WEIGHED:
        if best[k - 1].spread * best[k - 1].extent >= score:
            return
        k -= 1
    else:
        n[0] += 1
    while k > 0 and best[k - 1].spread * best[k - 1].extent < score:
        best[k] = best[k - 1]
        k -= 1
    best[k] = one[0]


cdef void find_loops(const Finder* f, Loop* best, uint32_t* n) noexcept nogil:
    cdef uint32_t members[MOST_MEMBERS + 1]
    cdef Loop one
    cdef uint64_t below = 0     # start of the previous class
    cdef uint64_t first = 0     # start and end of this class
    cdef uint64_t last, above, size, tried, pick
    cdef uint32_t count
    cdef const uint32_t* a
    while first < f.ordered:
        count = <uint32_t> (f.order[first] >> 32)
        last = first
        while last < f.ordered and f.order[last] >> 32 == count:
            last += 1
        above = last
        while above < f.ordered and f.order[above] >> 32 == count + 1:
            above += 1
        if first > below and f.order[below] >> 32 != count - 1:
            below = first
        size = last - first
        tried = min(<uint64_t> TRIED, size)
        for pick in range(tried):
            # If a trace begins or ends within a round, the counts of some stacks are off by one.
            one.id = <uint32_t> f.order[first + pick * (size - 1) // max(1, tried - 1)]
            a = f.events + f.offsets[one.id]
            one.members = members_of(f, one.id, below, above, members)
            if one.members + 1 < LEAST_MEMBERS:
                continue
            one.spread = spread_of(f, a, count, members, members[MOST_MEMBERS])
            one.extent = <double> (a[count - 1] - a[0]) / <double> f.r.events
            keep_best(best, n, &one)
        below = first
        first = last


cdef void swing(const uint32_t* a, uint32_t n, const int64_t* usage, int64_t start, double* work,
                double* steady, double* height) noexcept nogil:
    # Compute the median swing of a round, and how closely memory returns to its level after a
    # round: 1 minus the median share of a round's swing that remains.
    cdef double low, high, value, before, after
    cdef uint32_t j
    cdef uint64_t i
    for j in range(n - 1):
        before = <double> (usage[a[j] - 1] if a[j] else start)
        after = <double> usage[a[j + 1] - 1]
        low = before
        high = before
        for i in range(a[j], a[j + 1]):
            value = <double> usage[i]
            low = min(low, value)
            high = max(high, value)
        value = after - before if after >= before else before - after
        work[j] = value / (high - low) if high > low else 1
        work[n - 1 + j] = high - low
    qsort(work, n - 1, sizeof(double), ascending_double)
    qsort(work + n - 1, n - 1, sizeof(double), ascending_double)
    steady[0] = 1 - work[(n - 1) // 2]
    height[0] = work[n - 1 + (n - 1) // 2]


cdef double range_of(const uint32_t* a, uint32_t n, const int64_t* usage, uint64_t events,
                     double* work) noexcept nogil:
    # Return the range of usage after subtracting a steady rise (a leak) from the first to the last
    # round. `work` must have room for SAMPLES + 1.
    cdef uint64_t stride = events // SAMPLES + 1
    cdef uint64_t m = 0
    cdef double slope = ((<double> usage[a[n - 1]] - <double> usage[a[0]])
                         / <double> (a[n - 1] - a[0]))
    while m * stride < events:
        work[m] = <double> usage[m * stride] - slope * <double> (m * stride)
        m += 1
    qsort(work, m, sizeof(double), ascending_double)
    return work[m - 1 - m // 20] - work[m // 20]


cdef bint holds(const uint32_t* stack, size_t n, uint32_t frame) noexcept nogil:
    cdef size_t i
    for i in range(n):
        if stack[i] == frame:
            return True
    return False


cdef bint in_a_module(const Replay* r, uint32_t id, const uint32_t* members, uint32_t count) \
        noexcept nogil:
    # Whether all these stacks come from one line of a module's forward(). That frame may be at any
    # depth, because long stacks are cut at the outer end.
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t forward[MOST_FORWARD]
    cdef size_t n = 0
    cdef size_t m = 0
    cdef size_t k
    cdef const uint32_t* stack = <const uint32_t*> span_at(&r.tables.stacks, id, &n)
    cdef const uint8_t* name
    cdef uint32_t i, kept
    cdef uint32_t found = 0
    for k in range(n // 4):
        name = span_at(&r.tables.strings, frames[stack[k]].name, &m)
        if m == 7 and memcmp(name, b"forward", 7) == 0 and found < MOST_FORWARD:
            forward[found] = stack[k]
            found += 1
    for i in range(count):
        if found == 0:
            break
        stack = <const uint32_t*> span_at(&r.tables.stacks, members[i], &n)
        kept = 0
        for k in range(found):
            if holds(stack, n // 4, forward[k]):
                forward[kept] = forward[k]
                kept += 1
        found = kept
    return found > 0


cdef uint32_t lowest_member(const Finder* f, uint32_t id, const uint32_t* members, uint32_t count,
                            const int64_t* usage, int64_t start) noexcept nogil:
    # Return the member before which the least memory is live, because a step begins there.
    cdef uint32_t best = id
    cdef double low = 0
    cdef double sum
    cdef uint32_t i, j, one, n
    cdef const uint32_t* a
    for i in range(count + 1):
        one = members[i - 1] if i else id
        a = f.events + f.offsets[one]
        n = n_of(f, one)
        sum = 0
        for j in range(n):
            sum += <double> (usage[a[j] - 1] if a[j] else start)
        if i == 0 or sum / n < low:
            best = one
            low = sum / n
    return best


cdef void class_around(const Finder* f, uint32_t count, uint64_t* first,
                       uint64_t* last) noexcept nogil:
    # Return the range in `order` of the ids whose count differs from `count` by at most one.
    first[0] = 0
    while f.order[first[0]] >> 32 < count - 1:
        first[0] += 1
    last[0] = first[0]
    while last[0] < f.ordered and f.order[last[0]] >> 32 <= count + 1:
        last[0] += 1


cdef int choose(const Finder* f, bint by_size, const int64_t* usage, int64_t start, Buf* at,
                Period* out) noexcept nogil:
    cdef Loop best[WEIGHED]
    cdef uint32_t members[MOST_MEMBERS + 1]
    cdef uint32_t n = 0
    cdef uint32_t i, count
    cdef uint32_t id = 0
    cdef uint64_t first, last
    cdef double steady, height, whole, score
    cdef double* work
    cdef const uint32_t* a
    find_loops(f, best, &n)
    if n == 0:
        return OK
    work = <double*> malloc((f.allocs + SAMPLES + 1) * sizeof(double))
    if work == NULL:
        return ERR_MEMORY
    for i in range(n):
        # The remaining loops can't score higher.
        if best[i].spread * best[i].extent <= out.score:
            break
        a = f.events + f.offsets[best[i].id]
        count = n_of(f, best[i].id)
        class_around(f, count, &first, &last)
        members_of(f, best[i].id, first, last, members)
        if not by_size and in_a_module(f.r, best[i].id, members, members[MOST_MEMBERS]):
            continue
        swing(a, count, usage, start, work, &steady, &height)
        whole = range_of(a, count, usage, f.r.events, work)
        # The score is highest if memory swings widely in most rounds.
        height = min(1.0, 2 * height / whole) if whole > 0 else 1
        score = best[i].spread * best[i].extent * steady * height
        if score > out.score:
            id = best[i].id
            out.score = score
            out.members = best[i].members + 1
            out.spread = best[i].spread
            out.extent = best[i].extent
            out.steady = steady
            out.height = height
    free(work)
    if out.score <= 0:
        return OK
    class_around(f, n_of(f, id), &first, &last)
    members_of(f, id, first, last, members)
    id = lowest_member(f, id, members, members[MOST_MEMBERS], usage, start)
    a = f.events + f.offsets[id]
    for i in range(n_of(f, id)):
        if push_u32(at, a[i]) < 0:
            return ERR_MEMORY
    return OK


cdef int find_period(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                     uint64_t seed, Buf* at, Period* out) noexcept nogil:
    # Fill `at` with the first event of each repetition; empty if nothing repeats.
    cdef Finder f
    cdef uint32_t* sizes = NULL
    cdef const uint32_t* ids = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint32_t n = spans_len(&r.tables.stacks)
    cdef int code = OK
    memset(out, 0, sizeof(Period))
    memset(&f, 0, sizeof(Finder))
    if r.events == 0:
        return OK
    if by_size:
        sizes = <uint32_t*> malloc(r.events * sizeof(uint32_t))
        if sizes == NULL:
            return ERR_MEMORY
        code = number_sizes(r, seed, sizes, &n)
        ids = sizes
    if code == OK:
        code = finder_init(&f, r, ids, n)
    if code == OK:
        code = choose(&f, by_size, usage, start, at, out)
    finder_free(&f)
    free(sizes)
    return code


# ---- waves

cdef double low_of(const int64_t* usage, uint64_t first, uint64_t last,
                   double* work) noexcept nogil:
    # Return the 5th percentile of at least two values.
    cdef uint64_t stride = (last - first) // SAMPLES + 1
    cdef uint64_t m = 0
    while first + m * stride < last:
        work[m] = <double> usage[first + m * stride]
        m += 1
    qsort(work, m, sizeof(double), ascending_double)
    return work[m // 20]


cdef int find_waves(const Replay* r, const int64_t* usage, Buf* at, Period* out) noexcept nogil:
    # Find repetitions by the rise and fall of memory: each begins at the minimum between two
    # periods of high usage. `spread` tells how equal the repetitions' lengths are.
    cdef uint64_t n = r.events
    cdef uint64_t stride = n // SAMPLES + 1
    cdef double* work
    cdef const uint32_t* cuts
    cdef double low, high, value, middle
    cdef double slope = 0
    cdef double lowest_value = 0
    cdef uint64_t i
    cdef uint64_t m = 0
    cdef uint64_t lowest = 0
    cdef bint up
    memset(out, 0, sizeof(Period))
    if n == 0:
        return OK
    work = <double*> malloc((SAMPLES + 1) * sizeof(double))
    if work == NULL:
        return ERR_MEMORY
    # A leak raises the low level, so estimate the slope from the first to the last quarter.
    if n >= 4:
        slope = (low_of(usage, n - n // 4, n, work) - low_of(usage, 0, n // 4, work)) \
            / <double> (n - n // 4)
    while m * stride < n:
        work[m] = <double> usage[m * stride] - slope * <double> (m * stride)
        m += 1
    qsort(work, m, sizeof(double), ascending_double)
    low = work[m // 20]
    high = work[m - 1 - m // 20]
    free(work)
    if high <= low:
        return OK
    up = <double> usage[0] > low + 0.6 * (high - low)
    for i in range(n):
        value = <double> usage[i] - slope * <double> i
        if up:
            if value < low + 0.3 * (high - low):
                up = False
                lowest = i
                lowest_value = value
        else:
            if value < lowest_value or i == 0:
                lowest = i
                lowest_value = value
            if value > low + 0.6 * (high - low):
                up = True
                if push_u32(at, <uint32_t> min(lowest + 1, i)) < 0:
                    return ERR_MEMORY
    if at.len <= LEAST_ROUNDS:
        at.len = 0
        return OK
    cuts = <const uint32_t*> at.data
    m = at.len - 1
    work = <double*> malloc(m * sizeof(double))
    if work == NULL:
        return ERR_MEMORY
    for i in range(m):
        work[i] = <double> (cuts[i + 1] - cuts[i])
    qsort(work, m, sizeof(double), ascending_double)
    middle = work[m // 2]
    for i in range(m):
        work[i] = work[i] - middle if work[i] >= middle else middle - work[i]
    qsort(work, m, sizeof(double), ascending_double)
    out.spread = max(0.0, 1 - work[m // 2] / middle)
    out.extent = <double> (cuts[m] - cuts[0]) / <double> n
    out.score = out.spread * out.extent / 2
    free(work)
    return OK
