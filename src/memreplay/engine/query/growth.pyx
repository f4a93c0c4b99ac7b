"""Totals for each step, and the groups whose memory grows from step to step.

Only allocations that are live at the end of a step matter for groups. Each of these is visited
once: its bytes are added to its group at the first step end it reaches, and subtracted after the
last. A group's bytes at all step ends are the prefix sums of these differences, so memory use is
linear in these allocations.

docs/leaks.md describes when a group leaks.
"""

from libc.math cimport fabs
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.query.keying cimport Keys, group_at, group_of_carried
from memreplay.engine.query.trend cimport falls, judge
from memreplay.engine.replay.lives cimport NEVER, bytes_of, counts
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef enum:
    YOUNG = 2            # an allocation that is live at no more than this many step ends is young
    MORE_NEED = 2        # growth within a step, as a multiple of a group's growth; see judge_group
    LEAST_FALLS = 4      # minimum for a group that shrinks only in some steps
    PAIRED = 64          # maximum number of growing and of shrinking groups to compare


cdef double HALF = 0.5


cdef struct Crossing:
    # An allocation that is live at the step ends `first` to `stop` - 1.
    int64_t bytes
    uint32_t group
    uint32_t first
    uint32_t stop


cdef struct Member:
    # A group during the leak search, with `n` crossings starting at `first`. `g` is the first
    # field, so that Members can be sorted like Growns.
    Grown g
    uint64_t first, n
    int64_t falls        # bytes per step, for a shrinking group
    bint partly          # shrinks only in some steps
    bint has_young       # whether some allocations are live at no more than YOUNG step ends
    bint grown_up        # whether its series excludes young allocations
    # nothing accumulates; each young allocation is larger than the previous one
    bint needs_more


cdef struct Search:
    # State shared by the search. Series have one value per step end, plus one spare value.
    uint32_t steps, warm, old
    int64_t least
    double within_rate   # growth per step of the memory that is only live within a step
    const Crossing* found
    uint64_t* offsets
    uint32_t* order      # crossings, by group
    int64_t* values
    int64_t* grown_up
    int64_t* negative
    int64_t* young
    int64_t* within
    Buf* scratch


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    # Sums computed from a forged file may wrap.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t> (<uint64_t> a - <uint64_t> b)


cdef void step_sums(const Lives* l, const Replay* r, const int64_t* usage, int64_t start,
                    const Span* spans, uint64_t n, StepSum* out) noexcept nogil:
    # Make one pass over the spans' events. Without `l` (reserved memory), each rise counts as an
    # allocation.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef uint64_t k
    cdef int64_t i, before
    cdef StepSum* s
    for k in range(n):
        s = &out[k]
        memset(s, 0, sizeof(StepSum))
        s.peak_at = spans[k].first - 1
        s.peak = usage[s.peak_at] if s.peak_at >= 0 else start
        for i in range(spans[k].first, spans[k].stop):
            if usage[i] > s.peak:
                s.peak = usage[i]
                s.peak_at = i
            if l != NULL:
                if counts(l, action, <uint64_t> i):
                    s.allocations += 1
                    s.bytes = plus(s.bytes, bytes_of(l, i))
            else:
                before = usage[i - 1] if i else start
                if usage[i] > before:
                    s.allocations += 1
                    s.bytes = plus(s.bytes, minus(usage[i], before))
        i = spans[k].stop - 1
        s.end = usage[i] if i >= 0 else start


# ---- by group

cdef uint32_t first_end(const int64_t* moments, uint32_t n, uint32_t lo, int64_t event) \
        noexcept nogil:
    # Return the index (from `lo` on) of the first moment at or after the event; n if there is none.
    cdef uint32_t hi = n
    cdef uint32_t mid
    while lo < hi:
        mid = lo + (hi - lo) // 2
        if moments[mid] < event:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef inline bint meets(uint32_t end, const int64_t* moments, uint32_t n, uint32_t first) \
        noexcept nogil:
    # Whether an allocation is live at moment `first`, given its end. It was made after the previous
    # moment.
    return first < n and <int64_t> end > moments[first]


cdef inline int cross(Buf* found, uint32_t group, int64_t bytes, uint32_t end,
                      const int64_t* moments, uint32_t n, uint32_t first) noexcept nogil:
    # Record an allocation that is live at moment `first`.
    cdef Crossing c
    c.group = group
    c.bytes = bytes
    c.first = first
    c.stop = first_end(moments, n, first, <int64_t> end)
    return OK if group != NONE32 and push_item(found, &c) == 0 else ERR_MEMORY


cdef int find_crossings(const Lives* l, Keys* keys, const int64_t* moments, uint32_t n,
                        Buf* found, int64_t* within) noexcept nogil:
    # `moments` are the events after which a step ends, in ascending order (-1: the start). `within`
    # has the bytes that each step both allocates and frees.
    cdef const Replay* r = l.replay
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* carried_end = <const uint32_t*> l.carried_end.data
    cdef const int64_t* carried_bytes = <const int64_t*> l.carried_bytes.data
    cdef uint32_t next_end = 0
    cdef uint64_t i
    for i in range(l.carried_end.len):
        if carried_end[i] != NEVER and meets(carried_end[i], moments, n, 0):
            if cross(found, group_of_carried(keys, i), carried_bytes[i], carried_end[i], moments, n,
                     0) != OK:
                return ERR_MEMORY
    for i in range(r.events):
        while next_end < n and moments[next_end] < <int64_t> i:
            next_end += 1
        if next_end == n:
            break
        if not counts(l, action, i):
            continue
        if not meets(l.end[i], moments, n, next_end):
            within[next_end] = plus(within[next_end], bytes_of(l, i))
        elif cross(found, group_at(keys, i), bytes_of(l, i), l.end[i], moments, n, next_end) != OK:
            return ERR_MEMORY
    return OK


cdef int by_rate(const void* a, const void* b) noexcept nogil:
    # Most bytes per step first, then most bytes, then name, so that the order is deterministic.
    cdef const Grown* x = <const Grown*> a
    cdef const Grown* y = <const Grown*> b
    if x.rate != y.rate:
        return -1 if x.rate > y.rate else 1
    if x.stayed != y.stayed:
        return -1 if x.stayed > y.stayed else 1
    return (x.name > y.name) - (x.name < y.name)


# ---- old and young allocations

cdef inline bint is_young(const Crossing* c) noexcept nogil:
    # This is a guess: memory that is live at the last step end may live on, and the age of
    # carried-over memory is unknown.
    return c.first > 0 and c.stop - c.first <= YOUNG


cdef void fill(const Crossing* found, const uint32_t* order, uint64_t n, uint32_t steps,
               bint grown_up, int64_t* values) noexcept nogil:
    # Compute a group's bytes at each step end. With `grown_up`, include only allocations that
    # outlive YOUNG step ends. The last YOUNG `values` are then meaningless, because the recording
    # ends too early to know which allocations these are.
    cdef const Crossing* c
    cdef uint64_t i
    cdef uint32_t k
    memset(values, 0, (<uint64_t> steps + 2) * sizeof(int64_t))
    for i in range(n):
        c = &found[order[i]]
        if grown_up and is_young(c):
            continue
        values[c.first] = plus(values[c.first], c.bytes)
        values[c.stop] = minus(values[c.stop], c.bytes)
    for k in range(1, steps + 1):
        values[k] = plus(values[k], values[k - 1])


cdef inline uint32_t horizon(const Member* m, uint32_t steps) noexcept nogil:
    # Return the last step end with a meaningful value in the group's series.
    return steps - YOUNG if m.grown_up else steps


cdef int judge_group(Search* s, Member* m, Trend* judged) noexcept nogil:
    # Decide whether a group leaks, ignoring its young allocations if it leaks without them. If only
    # the young allocations grow, each replaces the previous one: either an object accumulates data,
    # or each step needs more memory. Afterwards, `s.values` is the series that was judged.
    cdef const uint32_t* order = s.order + m.first
    cdef Trend grown_up
    cdef bint young = False
    cdef uint64_t i
    fill(s.found, order, m.n, s.steps, False, s.values)
    if judge(s.values, s.steps, s.warm, s.least, s.scratch, judged) != OK:
        return ERR_MEMORY
    m.g.start = s.values[0]
    m.g.warm = s.values[s.warm]
    m.g.end = s.values[s.steps]
    for i in range(m.n):
        if is_young(&s.found[order[i]]) and s.found[order[i]].stop <= s.steps:
            young = True
            break
    if not young or s.steps < s.warm + YOUNG:
        return OK
    m.has_young = True
    fill(s.found, order, m.n, s.steps, True, s.grown_up)
    if judge(s.grown_up, s.steps - YOUNG, s.warm, s.least, s.scratch, &grown_up) != OK:
        return ERR_MEMORY
    if grown_up.leaks:
        judged[0] = grown_up
        m.grown_up = True
        memcpy(s.values, s.grown_up, (<uint64_t> s.steps + 2) * sizeof(int64_t))
    elif judged.leaks:
        # Young allocations account for most of the growth.
        i = s.steps - YOUNG
        if 2 * <double> minus(s.grown_up[i], s.grown_up[s.warm]) \
                < <double> minus(s.values[i], s.values[s.warm]):
            m.g.replaced = True
            if s.within_rate >= MORE_NEED * <double> judged.rate:
                m.needs_more = True
                judged.leaks = False
                judged.rate = judged.error = 0
                judged.odds = 0
    return OK


cdef void set_trend(Grown* g, const Trend* judged) noexcept nogil:
    g.rate = judged.rate
    g.error = judged.error
    g.odds = judged.odds
    g.stayed = judged.stayed
    g.rises = judged.rises
    g.until = judged.until
    g.leaks = judged.leaks
    g.stopped = judged.stopped
    g.since = judged.since


cdef void add_young(Search* s, const Member* m, Totals* totals) noexcept nogil:
    # Add the group's young allocations to the total at each step end, unless they accumulate.
    cdef const Crossing* c
    cdef uint64_t i
    if not m.has_young or (m.g.leaks and m.g.replaced):
        return
    for i in range(m.n):
        c = &s.found[s.order[m.first + i]]
        if is_young(c):
            s.young[c.first] = plus(s.young[c.first], c.bytes)
            s.young[c.stop] = minus(s.young[c.stop], c.bytes)
            if c.stop > s.steps:
                totals.unsure_end = True


cdef int add_group(Search* s, Member* m, Buf* leaks, Buf* once, Buf* fallen, Totals* totals) \
        noexcept nogil:
    # Process one group, with m.n crossings starting at m.first.
    cdef const Crossing* c
    cdef Trend judged
    cdef uint64_t i
    cdef bint moves = False
    cdef int code = OK
    for i in range(m.n):
        c = &s.found[s.order[m.first + i]]
        moves = moves or c.first > 0 or c.stop <= s.steps
        if c.stop > s.steps and c.first > s.warm and s.steps - c.first >= s.old:
            m.g.old_count += 1
            m.g.old_bytes = plus(m.g.old_bytes, c.bytes)
    if not moves:
        return OK
    if judge_group(s, m, &judged) != OK:
        return ERR_MEMORY
    set_trend(&m.g, &judged)
    totals.old_count += m.g.old_count
    totals.old_bytes = plus(totals.old_bytes, m.g.old_bytes)
    totals.needs_more += m.needs_more
    add_young(s, m, totals)
    if m.g.leaks:
        m.g.grew = minus(s.values[horizon(m, s.steps)], s.values[m.g.since])
        return OK if push_item(leaks, m) == 0 else ERR_MEMORY
    m.grown_up = m.has_young
    m.falls = falls(s.grown_up if m.grown_up else s.values, horizon(m, s.steps), s.warm,
                    s.negative, s.scratch, &code)
    if code == OK and not m.falls:
        m.falls = falls_partly(s.grown_up if m.grown_up else s.values, horizon(m, s.steps), s.warm)
        m.partly = m.falls > 0
    if code == OK and m.falls and push_item(fallen, m) < 0:
        code = ERR_MEMORY
    return keep_once(&m.g, once, totals) if code == OK else code


cdef int keep_once(Grown* g, Buf* once, Totals* totals) noexcept nogil:
    # Keep a group that doesn't leak.
    totals.most_growth = max(totals.most_growth, minus(g.end, g.warm))
    if g.stayed > 0:
        totals.once_stayed = plus(totals.once_stayed, g.stayed)
        return OK if push_item(once, g) == 0 else ERR_MEMORY
    return OK


# ---- matching growing with shrinking groups

cdef int by_fall(const void* a, const void* b) noexcept nogil:
    cdef const Member* x = <const Member*> a
    cdef const Member* y = <const Member*> b
    if x.falls != y.falls:
        return -1 if x.falls > y.falls else 1
    return (x.g.name > y.g.name) - (x.g.name < y.g.name)


cdef int64_t falls_partly(const int64_t* values, uint32_t steps, uint32_t warm) noexcept nogil:
    # Return a series' mean decrease per step if it falls in several steps, else 0. For example, a
    # buffer that replaces its entries frees the entries from before the recording one by one.
    cdef uint32_t times = 0
    cdef uint32_t k
    for k in range(warm + 1, steps + 1):
        times += values[k] < values[k - 1]
    if times < LEAST_FALLS or values[steps] >= values[warm]:
        return 0
    return <int64_t> (<uint64_t> minus(values[warm], values[steps]) // (steps - warm))


cdef void while_it_falls(const int64_t* values, uint32_t* first, uint32_t* last) noexcept nogil:
    # Narrow a range of steps so that it starts with the first and ends with the last step in which
    # the series falls.
    while first[0] < last[0] and values[first[0] + 1] >= values[first[0]]:
        first[0] += 1
    while first[0] < last[0] and values[last[0]] >= values[last[0] - 1]:
        last[0] -= 1


cdef double cancelled(const int64_t* up, const int64_t* down, uint32_t first,
                      uint32_t last) noexcept nogil:
    # Return the share of two series' changes that cancels out; 1 if the other series offsets each
    # change in the same step.
    cdef double both = 0
    cdef double apart = 0
    cdef double x, y
    cdef uint32_t k
    for k in range(first + 1, last + 1):
        x = <double> up[k] - <double> up[k - 1]
        y = <double> down[k] - <double> down[k - 1]
        both += fabs(x + y)
        apart += fabs(x) + fabs(y)
    return 1 - both / apart if apart > 0 else 0


cdef int settle(Search* s, Member* up, int64_t* rows, Member* down, int64_t* falling,
                bint* left) noexcept nogil:
    # Offset a growing group with a shrinking group. The growing group's series becomes the sum of
    # both. `left` means that part of the shrinking group remains (in `falling`).
    cdef bint exact = not (up.grown_up or down.grown_up)
    cdef uint32_t steps = s.steps if exact else s.steps - YOUNG
    cdef Trend judged
    cdef int64_t before
    cdef int code = OK
    cdef uint32_t k
    for k in range(s.steps + 1):
        rows[k] = plus(rows[k], falling[k])
    up.grown_up = not exact
    if judge(rows, steps, s.warm, s.least, s.scratch, &judged) != OK:
        return ERR_MEMORY
    left[0] = False
    if judged.leaks:
        up.g.made_up = plus(up.g.made_up, down.falls)
        before = up.g.stayed
        set_trend(&up.g, &judged)
        up.g.stayed = before
        up.g.grew = minus(rows[steps], rows[judged.since])
        return OK
    up.g.leaks = False
    up.g.rate = up.g.error = 0
    up.g.odds = 0
    down.falls = falls(rows, steps, s.warm, s.negative, s.scratch, &code)
    if code == OK and down.falls:
        left[0] = True
        down.grown_up = not exact
        memcpy(falling, rows, (<uint64_t> s.steps + 2) * sizeof(int64_t))
    return code


cdef int pair(Search* s, Buf* leaks, Buf* fallen) noexcept nogil:
    # Match shrinking groups with groups that grow at the same moments. If their sum no longer
    # grows, the growing group isn't a leak. Groups that shrink only in some steps are also matched,
    # if they offset more than half of the growth in these steps. Both lists are sorted, largest
    # first.
    cdef uint64_t ups = min(leaks.len, <uint64_t> PAIRED)
    cdef uint64_t downs = min(fallen.len, <uint64_t> PAIRED)
    cdef uint64_t room = <uint64_t> s.steps + 2
    cdef Member* up = <Member*> leaks.data
    cdef Member* down = <Member*> fallen.data
    cdef int64_t* rows
    cdef int64_t* falling
    cdef double part, most
    cdef uint64_t i, j, best
    cdef bint left
    cdef uint32_t first, last
    cdef int code = OK
    if not ups or not downs:
        return OK
    rows = <int64_t*> malloc((ups + 1) * room * sizeof(int64_t))
    if rows == NULL:
        return ERR_MEMORY
    falling = rows + ups * room
    for i in range(ups):
        fill(s.found, s.order + up[i].first, up[i].n, s.steps, up[i].grown_up, rows + i * room)
    for j in range(downs):
        fill(s.found, s.order + down[j].first, down[j].n, s.steps, down[j].grown_up, falling)
        left = True
        first = s.warm
        last = s.steps - YOUNG
        if down[j].partly:
            while_it_falls(falling, &first, &last)
        while code == OK and left:
            best = ups
            most = HALF if down[j].partly else -1
            for i in range(ups):
                if up[i].g.leaks:
                    part = cancelled(rows + i * room, falling, first, last)
                    if part > most:
                        most = part
                        best = i
            if best == ups:
                break
            code = settle(s, &up[best], rows + best * room, &down[j], falling, &left)
            left = left and not down[j].partly
    free(rows)
    return code


cdef int judge_whole(Search* s, const int64_t* levels, Totals* totals) noexcept nogil:
    # Decide whether memory as a whole leaks, excluding young allocations.
    cdef Trend judged
    cdef uint32_t steps = s.steps
    cdef uint32_t k
    for k in range(1, s.steps + 1):
        s.young[k] = plus(s.young[k], s.young[k - 1])
    for k in range(s.steps + 1):
        s.values[k] = minus(levels[k], s.young[k])
    if totals.unsure_end and steps >= s.warm + YOUNG:
        steps -= YOUNG
    if judge(s.values, steps, s.warm, s.least, s.scratch, &judged) != OK:
        return ERR_MEMORY
    totals.whole_rate = judged.rate if judged.leaks else 0
    return OK


cdef int finish(Search* s, const int64_t* levels, Buf* members, Buf* fallen, Buf* leaks, Buf* once,
                Totals* totals) noexcept nogil:
    # Decide which groups leak.
    cdef Member* m = <Member*> members.data
    cdef uint64_t i
    cdef int code = judge_whole(s, levels, totals)
    if members.len:
        qsort(members.data, members.len, sizeof(Member), by_rate)
    if fallen.len:
        qsort(fallen.data, fallen.len, sizeof(Member), by_fall)
    if code == OK:
        code = pair(s, members, fallen)
    for i in range(members.len):
        if code == OK and m[i].g.leaks:
            totals.leak_rate = plus(totals.leak_rate, m[i].g.rate)
            totals.leak_growth = plus(totals.leak_growth, m[i].g.grew)
            code = OK if push_item(leaks, &m[i].g) == 0 else ERR_MEMORY
        elif code == OK:
            code = keep_once(&m[i].g, once, totals)
    if code == OK and leaks.len:
        qsort(leaks.data, leaks.len, sizeof(Grown), by_rate)
    if code == OK and once.len:
        qsort(once.data, once.len, sizeof(Grown), by_rate)
    return code


cdef int search_init(Search* s, uint64_t groups, uint64_t crossings) noexcept nogil:
    cdef uint64_t room = <uint64_t> s.steps + 2
    s.offsets = <uint64_t*> calloc(groups + 1, sizeof(uint64_t))
    s.order = <uint32_t*> malloc((crossings + 1) * sizeof(uint32_t))
    s.values = <int64_t*> calloc(4 * room, sizeof(int64_t))
    if s.offsets == NULL or s.order == NULL or s.values == NULL:
        return ERR_MEMORY
    s.grown_up = s.values + room
    s.negative = s.grown_up + room
    s.young = s.negative + room
    return OK


cdef int groups_grown(const Lives* l, Keys* keys, const int64_t* moments, const int64_t* levels,
                      uint32_t steps, uint32_t warm, uint32_t old, int64_t least, Buf* leaks,
                      Buf* once, Buf* young, Totals* totals) noexcept nogil:
    # `moments` are the event before the first step, then the last event of each step; `levels` are
    # the live bytes at each moment; `warm` is the number of warm-up steps. Fills `leaks` (of Grown)
    # with the leaking groups, and `once` (of Grown) with other groups that hold more at the end
    # than at the start. Fills `young` (of int64_t) with the part of each level that is constantly
    # replaced. Old allocations were made after the warm-up and are still live at the last step end,
    # which is at least `old` step ends after the first that they reach.
    cdef uint32_t n = steps + 1
    cdef uint64_t groups = 0
    cdef Search s
    cdef Member m
    cdef Trend within
    cdef Buf found, scratch, members, fallen
    cdef const Crossing* c
    cdef uint64_t i, total
    cdef int code
    memset(totals, 0, sizeof(Totals))
    memset(&s, 0, sizeof(Search))
    buf_init(&found, sizeof(Crossing))
    buf_init(&scratch, sizeof(double))
    buf_init(&members, sizeof(Member))
    buf_init(&fallen, sizeof(Member))
    s.steps = steps
    s.warm = warm
    s.old = old
    s.least = least
    s.scratch = &scratch
    s.within = <int64_t*> calloc(<uint64_t> n + 1, sizeof(int64_t))
    code = OK if s.within != NULL else ERR_MEMORY
    if code == OK:
        code = find_crossings(l, keys, moments, n, &found, s.within)
    if code == OK:
        s.within[0] = s.within[1] if steps else 0
        code = judge(s.within, steps, warm, 1, &scratch, &within)
    if code == OK:
        s.within_rate = <double> within.rate if within.leaks else 0
        groups = keys.names.len
        code = search_init(&s, groups, found.len)
    if code == OK:
        # Counting sort by group.
        s.found = c = <const Crossing*> found.data
        for i in range(found.len):
            s.offsets[c[i].group + 1] += 1
        for i in range(groups):
            s.offsets[i + 1] += s.offsets[i]
        for i in range(found.len):
            s.order[s.offsets[c[i].group]] = <uint32_t> i
            s.offsets[c[i].group] += 1
        # By now, each offset has advanced to the start of the next group.
        total = 0
        for i in range(groups):
            if code == OK and s.offsets[i] > total:
                memset(&m, 0, sizeof(Member))
                m.g.name = (<const uint64_t*> keys.names.data)[i]
                m.first = total
                m.n = s.offsets[i] - total
                code = add_group(&s, &m, &members, once, &fallen, totals)
            total = s.offsets[i]
    if code == OK:
        code = finish(&s, levels, &members, &fallen, leaks, once, totals)
    for i in range(n):
        if code == OK and push_item(young, &s.young[i]) < 0:
            code = ERR_MEMORY
    totals.within_rate = <int64_t> s.within_rate
    free(s.within)
    free(s.offsets)
    free(s.order)
    free(s.values)
    buf_free(&found)
    buf_free(&scratch)
    buf_free(&members)
    buf_free(&fallen)
    return code
