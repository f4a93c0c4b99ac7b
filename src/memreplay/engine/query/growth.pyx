"""Steps of a program: what each allocates, how high it goes, and what is left of it afterwards.

Only allocations that are live at the end of a step count there, and each is looked at once: it is
in a group's bytes from the first end of a step that it meets to the last. So a group's bytes at all
ends are sums of a few differences, in memory linear in these allocations.

docs/leaks.md has the rule by which a series at the ends of steps is a leak (`judge`).
"""

from libc.math cimport exp, ldexp, log, sqrt
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.query.keying cimport Keys, group_at, group_of_carried
from memreplay.engine.replay.lives cimport NEVER, bytes_of, counts
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef enum:
    LEAST_RISES = 4      # of a leak


cdef struct Series:
    # Room for the work on one series.
    double* low          # the values, or the lowest of some in a row
    double* floors
    double* by           # how far each rise goes
    uint32_t* rises
    uint32_t* work


cdef struct Crossing:
    # An allocation that is live at the ends `first` to `stop` - 1 of steps.
    int64_t bytes
    uint32_t group
    uint32_t first
    uint32_t stop


cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    # Sizes of a file that is made up may be too large to add; they wrap.
    return <int64_t> (<uint64_t> a + <uint64_t> b)


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t> (<uint64_t> a - <uint64_t> b)


cdef void step_sums(const Lives* l, const Replay* r, const int64_t* usage, int64_t start,
                    const Span* spans, uint64_t n, StepSum* out) noexcept nogil:
    # One pass over the events of the spans. Without `l` (reserved memory) each rise is an
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


# ---- one series

cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*> a)[0]
    cdef double y = (<const double*> b)[0]
    return (x > y) - (x < y)


cdef double median(double* values, uint64_t n) noexcept nogil:
    # Sorts them.
    qsort(values, n, sizeof(double), ascending)
    if n & 1:
        return values[n // 2]
    return (values[n // 2 - 1] + values[n // 2]) / 2


cdef inline uint32_t quarter(uint32_t steps, uint32_t warm, int number) noexcept nogil:
    # The step that ends this quarter of the later steps; 0 is where they begin.
    return warm + <uint32_t> ((<uint64_t> (steps - warm) * <uint64_t> number) // QUARTERS)


cdef int64_t lowest(const int64_t* values, uint32_t first, uint32_t last, int64_t so_far) \
        noexcept nogil:
    cdef uint32_t i
    for i in range(first, last + 1):
        if values[i] < so_far:
            so_far = values[i]
    return so_far


cdef void find_floors(const int64_t* values, uint32_t steps, uint32_t since,
                      int64_t* floors) noexcept nogil:
    # What is never again given back, from where the steps after `since` begin, and from the end of
    # each quarter of them on.
    cdef int q
    floors[QUARTERS] = values[steps]
    for q in range(QUARTERS - 1, -1, -1):
        floors[q] = lowest(values, quarter(steps, since, q), quarter(steps, since, q + 1),
                           floors[q + 1])


cdef uint64_t lowest_of(const int64_t* values, uint64_t n, uint64_t size,
                        double* low) noexcept nogil:
    # The lowest of each `size` values in a row, the last of which ends with them; how many rows.
    cdef uint64_t rows = n // size
    cdef uint64_t i, j
    cdef const int64_t* row = values + (n - rows * size)
    for j in range(rows):
        low[j] = <double> row[0]
        for i in range(1, size):
            low[j] = min(low[j], <double> row[i])
        row += size
    return rows


cdef uint64_t find_rises(const double* low, uint64_t n, double* floors, uint32_t* rises,
                         double* by) noexcept nogil:
    # The rounds (1 to n - 1) with which a series rises for good: all from there on is above all
    # before. A rise of less than a quarter of their mean is none. Each array has room for n.
    cdef uint64_t found = 0
    cdef uint64_t kept = 0
    cdef uint64_t i
    cdef double high = low[0]
    cdef double total = 0
    floors[n - 1] = low[n - 1]
    for i in range(n - 1, 0, -1):
        floors[i - 1] = min(low[i - 1], floors[i])
    for i in range(1, n):
        if floors[i] > high:
            rises[found] = <uint32_t> i
            by[found] = floors[i] - high
            total += by[found]
            found += 1
        high = max(high, low[i])
    for i in range(found):
        if 4 * by[i] * found >= total:
            rises[kept] = rises[i]
            by[kept] = by[i]
            kept += 1
    return kept


cdef double stopped_by(const uint32_t* rises, uint64_t n, uint64_t rounds) noexcept nogil:
    # How much better it explains the rises that they have ended at some round before the last than
    # that each round has the same chance of one: both from the first rise on.
    cdef double ratio = 1
    cdef double total = 0
    cdef uint64_t last, after
    if n > 1:
        n -= 1
        last = rises[n] - rises[0]
        rounds -= rises[0]
    elif n == 1:
        last = rises[0]
    else:
        return 0
    after = rounds
    while after > last:
        ratio *= <double> (after + 1) / <double> (after - n)
        total += ratio
        after -= 1
    return total / <double> rounds if rounds else 0


cdef bint began_later(const uint32_t* rises, uint64_t n, uint64_t rounds,
                      uint32_t* work) noexcept nogil:
    # Whether it is no chance that nothing rises before the first.
    cdef uint64_t i
    for i in range(n):
        work[i] = <uint32_t> (rounds + 1 - rises[n - 1 - i])
    return stopped_by(work, n, rounds) > LEAST_ODDS


cdef double odds_of(const uint32_t* rises, uint64_t n, uint64_t rounds, uint64_t steps,
                    double stopped) noexcept nogil:
    # Of a leak, which rises in each round with the same chance, against the mean of three others:
    # n rises that have nothing to do with each other, each half as likely as one less; rises that
    # have stopped; rises that become rarer, to a twentieth at the end.
    cdef double few = ldexp(<double> (steps + 1), -<int> min(n + 1, <uint64_t> 2000))
    cdef double rarer = log(3 / (1 - exp(-3.0))) * <double> n
    cdef double others
    cdef uint64_t i
    for i in range(n):
        rarer -= 3 * (<double> rises[i] - 0.5) / <double> rounds
    others = few + max(stopped, stopped_by(rises, n, rounds)) + exp(min(rarer, 500.0))
    return min(3 / others, MOST_ODDS)


cdef double fine_stop(const int64_t* values, uint64_t n, Series* s, bint* later) noexcept nogil:
    # stopped_by, of steps one by one, where there are rises enough: of what two ends of steps in a
    # row have, so that what one has alone is none, the last one by itself or not. And whether
    # nothing rises in the first quarter, which is no chance.
    cdef double stopped = 0
    cdef uint64_t i, found
    for i in range(n - 1):
        s.low[i] = min(<double> values[i], <double> values[i + 1])
    found = find_rises(s.low, n - 1, s.floors, s.rises, s.by)
    later[0] = False
    if found >= LEAST_RISES:
        later[0] = 4 * <uint64_t> s.rises[0] > n - 2 and began_later(s.rises, found, n - 2, s.work)
        stopped = stopped_by(s.rises, found, n - 2)
    s.low[n - 1] = <double> values[n - 1]
    found = find_rises(s.low, n, s.floors, s.rises, s.by)
    return max(stopped, stopped_by(s.rises, found, n - 1)) if found >= LEAST_RISES else stopped


cdef void measure_rate(uint64_t rises, Series* s, uint64_t first, uint64_t stop, uint64_t size,
                       double* rate, double* error) noexcept nogil:
    # The slope of the least squares through s.low, a row of `size` steps each, and by how much it
    # may be wrong: the deviation of its changes over the root of their number. One of more than
    # four times the median of them, or of the rises for good, counts as that: it is something else.
    cdef const double* low = s.low + first
    cdef uint64_t rows = stop - first
    cdef double count = <double> rows
    cdef double most = median(s.by, rises)
    cdef double slower = 0
    cdef double spread = 0
    cdef double squares = 0
    cdef double level = 0
    cdef double one, mean
    cdef uint64_t n = 0
    cdef uint64_t i
    for i in range(1, rows):
        if low[i] > low[i - 1]:
            s.by[n] = low[i] - low[i - 1]
            n += 1
    most = 4 * max(most, median(s.by, n) if n else 0)
    rate[0] = 0
    for i in range(1, rows):
        one = max(-most, min(most, low[i] - low[i - 1]))
        s.floors[i] = one
        level += one
        rate[0] += (<double> i - (count - 1) / 2) * level
    mean = level / (count - 1)
    for i in range(1, rows):
        one = s.floors[i]
        spread += (one - mean) * (one - mean)
        squares += one * one
        if 2 * i > rows:
            slower += one
        elif 2 * i < rows:
            slower -= one
    rate[0] /= count * (count * count - 1) / 12 * <double> size
    error[0] = sqrt(spread / (count - 2) / (count - 1)) / <double> size
    # It slows down to less than half, by more than twice what chance makes of it.
    if 3 * slower < -level and slower < -2 * sqrt(squares):
        rate[0] = 0


cdef double weigh(const int64_t* values, uint64_t n, bint begun, Series* s, bint* later,
                  double* rate, double* error) noexcept nogil:
    # The odds of a leak, by `n` values: of rows of 1, 2, 4 … steps those in which it shows best;
    # and its rate, from the first rise on where it has `begun` here, or later by no chance. `later`
    # says that it does not begin in their first quarter.
    cdef double stopped = fine_stop(values, n, s, later)
    cdef double best = 0
    cdef double odds
    cdef uint64_t size = 1
    cdef uint64_t chosen = 0
    cdef uint64_t rows, found, first
    while n // size > QUARTERS:
        rows = lowest_of(values, n, size, s.low)
        found = find_rises(s.low, rows, s.floors, s.rises, s.by)
        if found >= LEAST_RISES:
            odds = odds_of(s.rises, found, rows - 1, n - 1, stopped if size > 1 else 0)
            if odds > best:
                best = odds
                chosen = size
        size *= 2
    if chosen:
        rows = lowest_of(values, n, chosen, s.low)
        found = find_rises(s.low, rows, s.floors, s.rises, s.by)
        first = s.rises[0] - 1
        if not begun and not began_later(s.rises, found, rows - 1, s.work):
            first = 0
        measure_rate(found, s, first, rows, chosen, rate, error)
    return best


cdef uint64_t count_rises(const int64_t* values, uint64_t n, Series* s) noexcept nogil:
    return find_rises(s.low, lowest_of(values, n, 1, s.low), s.floors, s.rises, s.by)


cdef bint same_pace(const int64_t* values, uint32_t steps, uint32_t warm,
                    Series* s) noexcept nogil:
    # Whether it rises in the warm-up (but for the first step) about as often as later: half to
    # twice.
    cdef double early, late
    if warm < 3:
        return False
    early = <double> count_rises(values + 1, warm, s) / (warm - 1)
    late = <double> count_rises(values + warm, steps - warm + 1, s) / (steps - warm)
    return early > 0 and late >= early / 2 and early >= late / 2


cdef double leak_after(const int64_t* values, uint32_t steps, uint32_t warm, uint32_t since,
                       Series* s, double* rate, double* error) noexcept nogil:
    # The odds that a series grows all along after `since`; the rate is 0 where it slows down.
    cdef double odds, r, e
    cdef bint later
    rate[0] = 0
    error[0] = 0
    if steps - since < QUARTERS or values[steps] <= values[since]:
        return 0
    odds = weigh(values + since, steps - since + 1, since > warm, s, &later, rate, error)
    if later:
        return 0
    # Where it grew in the same way before, that speaks for it as well.
    if odds > 0 and since == warm and same_pace(values, steps, warm, s):
        odds = max(odds, weigh(values + 1, steps, False, s, &later, &r, &e))
    return odds


cdef bint begins(const int64_t* values, uint32_t steps, uint32_t warm,
                 uint32_t since) noexcept nogil:
    # Whether growth may have begun after `since`: halfway on there is more for good than ever
    # before (so it is no fall that is made up for), and it grows at twice the pace from `warm` to
    # there, or more (so it is no cache that is nearly full).
    cdef int64_t floors[QUARTERS + 1]
    cdef double pace, before
    cdef uint32_t i
    find_floors(values, steps, since, floors)
    for i in range(since + 1):
        if values[i] >= floors[QUARTERS // 2]:
            return False
    pace = (<double> values[steps] - <double> floors[0]) / (steps - since)
    before = (<double> floors[0] - <double> values[warm]) / (since - warm)
    return pace >= 2 * before


cdef int series_init(Series* s, Buf* scratch, uint32_t steps) noexcept nogil:
    # Room for steps + 1 values, in `scratch` (of doubles).
    cdef uint64_t room = <uint64_t> steps + 2
    if buf_reserve(scratch, 4 * room) < 0:
        return ERR_MEMORY
    s.low = <double*> scratch.data
    s.floors = s.low + room
    s.by = s.floors + room
    s.rises = <uint32_t*> (s.by + room)
    s.work = s.rises + room
    return OK


cdef int judge(const int64_t* values, uint32_t steps, uint32_t warm, int64_t least, Buf* scratch,
               Trend* out) noexcept nogil:
    # `values` are a start and then one a step. `scratch` is of doubles.
    cdef int64_t floors[QUARTERS + 1]
    cdef Series s
    cdef double odds, rate, error
    cdef uint32_t i, since
    cdef uint32_t last = quarter(steps, warm, QUARTERS - 1)
    cdef int q
    cdef int64_t floor, high
    memset(out, 0, sizeof(Trend))
    if steps - warm < QUARTERS:
        # There are no quarters: what is there after the last step stayed so far.
        last = steps
    find_floors(values, steps, warm, floors)
    out.stayed = minus(lowest(values, last, steps, values[steps]), values[0])
    high = values[steps]
    for i in range(last, steps):
        if values[i] > high:
            high = values[i]
    floor = lowest(values, last, steps, values[steps])
    out.stopped = steps - warm >= QUARTERS and minus(high, floor) <= out.stayed
    floors[QUARTERS - 1] = floor
    floor = values[steps]
    for i in range(steps, 0, -1):
        # The floor before step i is lower than after it: something of step i stayed.
        if values[i] < floor:
            floor = values[i]
        if values[i - 1] < floor and floor <= floors[QUARTERS - 1]:
            out.until = i
            break
    if series_init(&s, scratch, steps) != OK:
        return ERR_MEMORY
    # From the warm-up on; else from the end of one of the quarters, where growth begins late.
    out.since = warm
    for q in range(QUARTERS):
        since = quarter(steps, warm, q)
        if q and (steps - since < LEAST_LATE or not begins(values, steps, warm, since)):
            continue
        odds = leak_after(values, steps, warm, since, &s, &rate, &error)
        out.odds = max(out.odds, odds if rate > 0 else 0)
        if odds >= LEAST_ODDS and rate > 0 and rate >= <double> least:
            out.leaks = True
            out.stopped = False
            out.since = since
            out.odds = odds
            out.rate = <int64_t> (rate + 0.5) if rate < 9e18 else <int64_t> 9e18
            out.error = <int64_t> (error + 0.5) if error < 9e18 else <int64_t> 9e18
            break
    for i in range(out.since + 1, steps + 1):
        out.rises += values[i] > values[i - 1]
    return OK


# ---- by group

cdef uint32_t first_end(const int64_t* moments, uint32_t n, uint32_t lo, int64_t event) \
        noexcept nogil:
    # The first moment from number `lo` on that is at the event or later; n where there is none.
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
    # Whether what ends there, and began after the moment before `first`, is live at that one.
    return first < n and <int64_t> end > moments[first]


cdef inline int cross(Buf* found, uint32_t group, int64_t bytes, uint32_t end,
                      const int64_t* moments, uint32_t n, uint32_t first) noexcept nogil:
    # Notes an allocation that meets moment `first`.
    cdef Crossing c
    c.group = group
    c.bytes = bytes
    c.first = first
    c.stop = first_end(moments, n, first, <int64_t> end)
    return OK if group != NONE32 and push_item(found, &c) == 0 else ERR_MEMORY


cdef int find_crossings(const Lives* l, Keys* keys, const int64_t* moments, uint32_t n,
                        Buf* found) noexcept nogil:
    # `moments`: events after which a step ends, ascending (-1: the start).
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
        if counts(l, action, i) and meets(l.end[i], moments, n, next_end):
            if cross(found, group_at(keys, i), bytes_of(l, i), l.end[i], moments, n,
                     next_end) != OK:
                return ERR_MEMORY
    return OK


cdef int by_rate(const void* a, const void* b) noexcept nogil:
    # Most bytes a step first, then most bytes, then the name: the same order every time.
    cdef const Grown* x = <const Grown*> a
    cdef const Grown* y = <const Grown*> b
    if x.rate != y.rate:
        return -1 if x.rate > y.rate else 1
    if x.stayed != y.stayed:
        return -1 if x.stayed > y.stayed else 1
    return (x.name > y.name) - (x.name < y.name)


cdef int add_group(uint64_t name, const Crossing* found, const uint32_t* order, uint64_t n,
                   int64_t* values, uint32_t steps, uint32_t warm, uint32_t old, int64_t least,
                   Buf* scratch, Buf* leaks, Buf* once, Totals* totals) noexcept nogil:
    # One group, of n crossings. `values` has steps + 2 places.
    cdef Trend judged
    cdef Grown g
    cdef const Crossing* c
    cdef uint64_t i
    cdef bint moves = False
    cdef uint32_t k
    memset(&g, 0, sizeof(Grown))
    for i in range(n):
        c = &found[order[i]]
        moves = moves or c.first > 0 or c.stop <= steps
        if c.stop > steps and c.first > warm and steps - c.first >= old:
            g.old_count += 1
            g.old_bytes = plus(g.old_bytes, c.bytes)
    if not moves:
        return OK
    memset(values, 0, (<uint64_t> steps + 2) * sizeof(int64_t))
    for i in range(n):
        c = &found[order[i]]
        values[c.first] = plus(values[c.first], c.bytes)
        values[c.stop] = minus(values[c.stop], c.bytes)
    for k in range(1, steps + 1):
        values[k] = plus(values[k], values[k - 1])
    if judge(values, steps, warm, least, scratch, &judged) != OK:
        return ERR_MEMORY
    totals.old_count += g.old_count
    totals.old_bytes = plus(totals.old_bytes, g.old_bytes)
    g.rate = judged.rate
    g.error = judged.error
    g.odds = judged.odds
    g.stayed = judged.stayed
    g.rises = judged.rises
    g.until = judged.until
    g.leaks = judged.leaks
    g.stopped = judged.stopped
    g.since = judged.since
    g.start = values[0]
    g.warm = values[warm]
    g.before = values[judged.since]
    g.end = values[steps]
    g.name = name
    if g.leaks:
        totals.leak_rate = plus(totals.leak_rate, g.rate)
        totals.leak_growth = plus(totals.leak_growth, minus(g.end, g.before))
        return OK if push_item(leaks, &g) == 0 else ERR_MEMORY
    totals.most_growth = max(totals.most_growth, minus(g.end, g.warm))
    if g.stayed > 0:
        totals.once_stayed = plus(totals.once_stayed, g.stayed)
        return OK if push_item(once, &g) == 0 else ERR_MEMORY
    return OK


cdef int groups_grown(const Lives* l, Keys* keys, const int64_t* moments, uint32_t steps,
                      uint32_t warm, uint32_t old, int64_t least, Buf* leaks, Buf* once,
                      Totals* totals) noexcept nogil:
    # `moments`: the event before the first step, then the last event of each; `warm` of the steps
    # do not count as later ones. Fills `leaks` and `once` (of Grown): groups that leak, and others
    # of which more stayed than there was. Old are allocations that were made in later steps, and
    # are live at the last end, `old` ends of steps or more after the first that they met.
    cdef uint32_t n = steps + 1
    cdef uint64_t groups = 0
    cdef uint64_t* offsets = NULL
    cdef uint32_t* order = NULL
    cdef int64_t* values = NULL
    cdef const Crossing* c
    cdef Buf found, scratch
    cdef uint64_t i, total
    cdef int code
    memset(totals, 0, sizeof(Totals))
    buf_init(&found, sizeof(Crossing))
    buf_init(&scratch, sizeof(double))
    code = find_crossings(l, keys, moments, n, &found)
    if code == OK:
        # By group: a counting sort.
        groups = keys.names.len
        offsets = <uint64_t*> calloc(groups + 1, sizeof(uint64_t))
        order = <uint32_t*> malloc((found.len + 1) * sizeof(uint32_t))
        values = <int64_t*> malloc((<uint64_t> steps + 2) * sizeof(int64_t))
        if offsets == NULL or order == NULL or values == NULL:
            code = ERR_MEMORY
    if code == OK:
        c = <const Crossing*> found.data
        for i in range(found.len):
            offsets[c[i].group + 1] += 1
        for i in range(groups):
            offsets[i + 1] += offsets[i]
        for i in range(found.len):
            order[offsets[c[i].group]] = <uint32_t> i
            offsets[c[i].group] += 1
        # Each offset has moved on to where the next group begins.
        total = 0
        for i in range(groups):
            if code == OK and offsets[i] > total:
                code = add_group((<const uint64_t*> keys.names.data)[i], c, order + total,
                                 offsets[i] - total, values, steps, warm, old, least, &scratch,
                                 leaks, once, totals)
            total = offsets[i]
    if code == OK and leaks.len:
        qsort(leaks.data, leaks.len, sizeof(Grown), by_rate)
    if code == OK and once.len:
        qsort(once.data, once.len, sizeof(Grown), by_rate)
    free(offsets)
    free(order)
    free(values)
    buf_free(&found)
    buf_free(&scratch)
    return code
