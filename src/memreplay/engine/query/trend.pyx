"""Decide whether values at the ends of steps show a leak, how fast memory grows, and since when.

docs/leaks.md describes the rule (`judge`).
"""

from libc.math cimport exp, fabs, ldexp, log, sqrt
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport Buf, buf_reserve
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef enum:
    ONCE = 2             # highest number of outliers: changes with another cause than the leak


cdef struct Series:
    # Scratch space for one series.
    double* low          # the values, or the minimum of every few consecutive values
    double* floors
    double* by           # the size of each rise
    uint32_t* rises
    uint32_t* work


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t> (<uint64_t> a - <uint64_t> b)


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*> a)[0]
    cdef double y = (<const double*> b)[0]
    return (x > y) - (x < y)


cdef double median(double* values, uint64_t n) noexcept nogil:
    # Sorts the values.
    qsort(values, n, sizeof(double), ascending)
    if n & 1:
        return values[n // 2]
    return (values[n // 2 - 1] + values[n // 2]) / 2


cdef inline uint32_t quarter(uint32_t steps, uint32_t warm, int number) noexcept nogil:
    # Return the step that ends this quarter of the steps after the warm-up; for 0, the step before
    # the first quarter.
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
    # Compute the levels below which the series never falls again: one from `since` on, and one from
    # the end of each later quarter.
    cdef int q
    floors[QUARTERS] = values[steps]
    for q in range(QUARTERS - 1, -1, -1):
        floors[q] = lowest(values, quarter(steps, since, q), quarter(steps, since, q + 1),
                           floors[q + 1])


cdef uint64_t lowest_of(const int64_t* values, uint64_t n, uint64_t size,
                        double* low) noexcept nogil:
    # Compute the minimum of every `size` consecutive values, aligned to the end. Returns the number
    # of minima.
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
    # Find the rounds (1 to n - 1) in which a series rises for good, that is, all later values
    # exceed all earlier ones. Ignore increases below a quarter of their mean. Each array must have
    # room for n items.
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
    # Return the likelihood ratio of two hypotheses. From the first rise on, either the rises ended
    # before the last round, or each round has the same chance of a rise.
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
    # Whether the first rise comes too late to be explained by chance.
    cdef uint64_t i
    for i in range(n):
        work[i] = <uint32_t> (rounds + 1 - rises[n - 1 - i])
    return stopped_by(work, n, rounds) > LEAST_ODDS


cdef double odds_of(const uint32_t* rises, uint64_t n, uint64_t rounds, uint64_t steps,
                    double stopped) noexcept nogil:
    # Return the odds of a leak, in which each round is equally likely to rise. The odds are
    # relative to the mean of three alternatives. The n rises are unrelated (each further rise is
    # half as likely), they have stopped, or they become rarer, down to a twentieth of the initial
    # rate.
    cdef double few = ldexp(<double> (steps + 1), -<int> min(n + 1, <uint64_t> 2000))
    cdef double rarer = log(3 / (1 - exp(-3.0))) * <double> n
    cdef double others
    cdef uint64_t i
    for i in range(n):
        rarer -= 3 * (<double> rises[i] - 0.5) / <double> rounds
    others = few + max(stopped, stopped_by(rises, n, rounds)) + exp(min(rarer, 500.0))
    return min(3 / others, MOST_ODDS)


cdef double fine_stop(const int64_t* values, uint64_t n, Series* s, bint* later) noexcept nogil:
    # If the values rise in enough single steps, apply stopped_by to them, with and without the last
    # step, and return the larger result. Each value is the minimum of two consecutive step ends, so
    # that single peaks don't count. `later` means that nothing rises in the first quarter, and that
    # this is unlikely to be chance.
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


cdef double clip(double* changes, uint64_t n, double most) noexcept nogil:
    # Clip changes larger than `most` if they are few enough to be outliers, for example if a table
    # was reallocated during a leak. Returns the total amount that was clipped.
    cdef double excess = 0
    cdef double one
    cdef uint64_t larger = 0
    cdef uint64_t i
    for i in range(1, n):
        larger += fabs(changes[i]) > most
    if larger > ONCE:
        return 0
    for i in range(1, n):
        one = max(-most, min(most, changes[i]))
        excess += changes[i] - one
        changes[i] = one
    return excess


cdef void measure_rate(const int64_t* values, uint64_t n, uint64_t rises, Series* s, uint64_t first,
                       uint64_t stop, uint64_t size, double* rate, double* error) noexcept nogil:
    # Estimate the growth per step: the total growth divided by the number of steps if the values
    # never fall, else the least-squares slope of s.low (the minima of `size` steps each). The error
    # is the standard deviation of the changes divided by the square root of their number. One or
    # two changes are clipped if they exceed four times the median change and four times the median
    # lasting rise.
    cdef const double* low = s.low + first
    cdef uint64_t rows = stop - first
    cdef double count = <double> rows
    cdef double most = median(s.by, rises)
    cdef double slower = 0
    cdef double spread = 0
    cdef double squares = 0
    cdef double level = 0
    cdef double slope = 0
    cdef double one, mean, excess
    cdef uint64_t found = 0
    cdef uint64_t i
    for i in range(1, rows):
        if low[i] > low[i - 1]:
            s.by[found] = low[i] - low[i - 1]
            found += 1
    most = 4 * max(most, median(s.by, found) if found else 0)
    for i in range(1, rows):
        s.floors[i] = low[i] - low[i - 1]
    excess = clip(s.floors, rows, most)
    for i in range(1, rows):
        one = s.floors[i]
        level += one
        slope += (<double> i - (count - 1) / 2) * level
    mean = level / (count - 1)
    for i in range(1, rows):
        one = s.floors[i]
        spread += (one - mean) * (one - mean)
        squares += one * one
        if 2 * i > rows:
            slower += one
        elif 2 * i < rows:
            slower -= one
    rate[0] = slope / (count * (count * count - 1) / 12 * <double> size)
    error[0] = sqrt(spread / (count - 2) / (count - 1)) / <double> size
    # Include the steps before the first row, unless something else happened in them.
    i = n - rows * size
    if first == 0 and fabs(<double> values[i] - <double> values[0]) <= most:
        i = 0
    if never_falls(values + i, n - i):
        rate[0] = (<double> values[n - 1] - <double> values[i] - excess) / <double> (n - 1 - i)
    # Growth slows down to less than half of its earlier rate, and by more than twice the noise.
    if 3 * slower < -level and slower < -2 * sqrt(squares):
        rate[0] = 0


cdef bint never_falls(const int64_t* values, uint64_t n) noexcept nogil:
    cdef uint64_t i
    for i in range(1, n):
        if values[i] < values[i - 1]:
            return False
    return True


cdef double weigh(const int64_t* values, uint64_t n, bint begun, Series* s, bint* later,
                  double* rate, double* error) noexcept nogil:
    # Return the odds that `n` values show a leak: combine every 1, 2, 4 … steps, and use the
    # combination with the highest odds. The rate is measured from the first rise if `begun` (growth
    # begins here), or if the first rise is too late to be chance. `later` means that growth doesn't
    # begin in the first quarter.
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
            # on a tie, keep shorter rows, which estimate the rate better
            if odds > best * 1.000000001:
                best = odds
                chosen = size
        size *= 2
    if chosen:
        rows = lowest_of(values, n, chosen, s.low)
        found = find_rises(s.low, rows, s.floors, s.rises, s.by)
        first = s.rises[0] - 1
        if not begun and not began_later(s.rises, found, rows - 1, s.work):
            first = 0
        measure_rate(values, n, found, s, first, rows, chosen, rate, error)
    return best


cdef uint64_t count_rises(const int64_t* values, uint64_t n, Series* s) noexcept nogil:
    return find_rises(s.low, lowest_of(values, n, 1, s.low), s.floors, s.rises, s.by)


cdef bint same_pace(const int64_t* values, uint32_t steps, uint32_t warm,
                    Series* s) noexcept nogil:
    # Whether the series rises about as often during the warm-up (without its first step) as after
    # it, that is, half to twice as often.
    cdef double early, late
    if warm < 3:
        return False
    early = <double> count_rises(values + 1, warm, s) / (warm - 1)
    late = <double> count_rises(values + warm, steps - warm + 1, s) / (steps - warm)
    return early > 0 and late >= early / 2 and early >= late / 2


cdef double leak_after(const int64_t* values, uint32_t steps, uint32_t warm, uint32_t since,
                       Series* s, double* rate, double* error) noexcept nogil:
    # Return the odds that a series keeps growing after `since`. The rate is 0 if growth slows down.
    cdef double odds, r, e
    cdef bint later
    rate[0] = 0
    error[0] = 0
    if steps - since < QUARTERS or values[steps] <= values[since]:
        return 0
    odds = weigh(values + since, steps - since + 1, since > warm, s, &later, rate, error)
    if later:
        return 0
    # If the series grew in the same way during the warm-up, that's additional evidence.
    if odds > 0 and since == warm and same_pace(values, steps, warm, s):
        odds = max(odds, weigh(values + 1, steps, False, s, &later, &r, &e))
    return odds


cdef bint begins(const int64_t* values, uint32_t steps, uint32_t warm,
                 uint32_t since) noexcept nogil:
    # Whether growth may have begun after `since`. Halfway through the later steps, the lasting
    # level must exceed all values up to `since`; otherwise the series only recovers from a fall.
    # The series must also grow at least twice as fast as between `warm` and `since`; otherwise it
    # may be a cache that is nearly full.
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
    # Make room for steps + 1 values in `scratch` (of doubles).
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
    # `values` has an initial value and one per step. `scratch` is a buffer of doubles.
    cdef int64_t floors[QUARTERS + 1]
    cdef Series s
    cdef double odds, rate, error
    cdef uint32_t i, since
    cdef uint32_t last = quarter(steps, warm, QUARTERS - 1)
    cdef int q
    cdef int64_t floor, high
    memset(out, 0, sizeof(Trend))
    if steps - warm < QUARTERS:
        # With too few steps for quarters, everything present after the last step counts as having
        # stayed.
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
        # If the floor is higher after step i than before, something that step i allocated stayed.
        if values[i] < floor:
            floor = values[i]
        if values[i - 1] < floor and floor <= floors[QUARTERS - 1]:
            out.until = i
            break
    if series_init(&s, scratch, steps) != OK:
        return ERR_MEMORY
    # Try growth from the warm-up on, then from the end of each quarter for late starts.
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


cdef int64_t falls(const int64_t* values, uint32_t steps, uint32_t warm, int64_t* negative,
                   Buf* scratch, int* code) noexcept nogil:
    # Return the bytes per step by which a series falls if its negative would be a leak after the
    # warm-up, else 0. Also tries without the last step, because memory that is freed at the start
    # of the next step isn't freed yet. `negative` is scratch space.
    cdef Trend judged
    cdef uint32_t i
    if values[steps] >= values[warm]:
        return 0
    for i in range(steps + 1):
        negative[i] = minus(0, values[i])
    code[0] = judge(negative, steps, warm, 1, scratch, &judged)
    if code[0] == OK and not judged.leaks and steps > warm:
        code[0] = judge(negative, steps - 1, warm, 1, scratch, &judged)
    return judged.rate if code[0] == OK and judged.leaks else 0
