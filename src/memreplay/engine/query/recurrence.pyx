"""Find the rounds of a program's main loop from recurring runs of allocations.

A run is RUN consecutive allocations, identified by stacks or sizes. Unlike a single allocation, a
run identifies a position in the loop.

Rounds might begin at any recurring run. A run's score is the product of five shares:

- how much of the trace is between its first and last occurrence
- how equal the rounds' lengths are (1 minus deviation over mean): for a layer they differ, because
  some rounds include the rest of the step
- the number of rounds (1 - 1/n)
- the share of rounds after which memory is back at its previous level, within a tenth of its range
- whether the median round spans at least half of memory's range

A second score (`any_memory`) omits the last two shares, because a server's memory may depend more
on the number of concurrent requests than on a single request. Events after the last allocation are
ignored, because a program frees everything when it exits.

Among nested loops, the winner is therefore the loop in which memory is back at its level after each
round. Memory isn't back after each micro-batch of a step that accumulates gradients. Runs with
equal counts are examined together: among the runs with the most even rounds, choose the one before
which the least memory is live, because a round begins there. Only the few runs that are best by the
first three shares are scored completely, so the search takes linear time.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from memreplay.engine.base.growbuf cimport push_u32
from memreplay.engine.base.hashmap cimport Map64, Slot64, map64_at, map64_free, map64_init
from memreplay.engine.query.period cimport in_a_module
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_ALLOC

cdef enum:
    DOUBLED = 3          # a run has 2 ** DOUBLED allocations
    LEAST_TIMES = 3      # fewest occurrences of a run
    LEAST_RUNS = 3       # fewest runs with equal counts
    WEIGHED = 12         # how many of the best runs are scored completely
    SAMPLES = 4096       # number of samples from which to find the range of usage
    SHOWN = 64           # how many of a loop's stacks are examined


cdef struct Run:
    uint32_t first, last     # events
    uint32_t times
    double squares           # sum of squared distances between occurrences
    double low               # sum of live bytes before each occurrence


cdef struct Loop:
    uint32_t run
    uint32_t times
    double score


cdef int ascending_double(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*> a)[0]
    cdef double y = (<const double*> b)[0]
    return (x > y) - (x < y)


cdef int number(uint32_t* ids, const uint64_t* keys, uint64_t n, uint64_t seed,
                uint32_t* count) noexcept nogil:
    # Give equal keys equal ids, from 0 on.
    cdef Map64 known
    cdef Slot64* slot
    cdef uint64_t i
    count[0] = 0
    if map64_init(&known, seed) < 0:
        return ERR_MEMORY
    for i in range(n):
        slot = map64_at(&known, keys[i], count[0])
        if slot == NULL:
            map64_free(&known)
            return ERR_MEMORY
        ids[i] = slot.value
        count[0] += slot.value == count[0]
    map64_free(&known)
    return OK


cdef int number_runs(const Replay* r, bint by_size, uint64_t seed, uint32_t* events, uint32_t* ids,
                     uint64_t* keys, uint64_t* n, uint32_t* count) noexcept nogil:
    # For each allocation from the end of the first complete run on, store its event and the id of
    # the run that ends there. A run of twice the length is a pair of runs.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef const uint64_t* size = <const uint64_t*> r.tables.size.data + r.first
    cdef uint64_t i
    cdef uint64_t length = 1
    cdef int code
    n[0] = 0
    for i in range(r.events):
        if action[i] == A_ALLOC:
            events[n[0]] = <uint32_t> i
            keys[n[0]] = size[i] if by_size else stack[i]
            n[0] += 1
    code = number(ids, keys, n[0], seed, count)
    while code == OK and length < 1 << DOUBLED:
        if n[0] <= length:
            n[0] = 0
            break
        # ids[i] is the run that ends at the i-th allocation that isn't left out.
        n[0] -= length
        for i in range(n[0]):
            keys[i] = <uint64_t> ids[i] << 32 | ids[i + length]
            events[i] = events[i + length]
        code = number(ids, keys, n[0], seed, count)
        length *= 2
    return code


cdef double evenness(const Run* run, uint64_t events) noexcept nogil:
    # Return the product of the shares that don't depend on memory.
    cdef double rounds = run.times - 1
    cdef double mean = <double> (run.last - run.first) / rounds
    cdef double spread = run.squares / rounds - mean * mean
    spread = sqrt(spread) / mean if spread > 0 else 0
    if spread >= 1:
        return 0
    return <double> (run.last - run.first) / <double> events * (1 - spread) \
        * (1 - 1.0 / run.times)


cdef void keep_best(Loop* best, uint32_t* n, const Loop* one) noexcept nogil:
    # Keep the WEIGHED best loops, best first.
    cdef uint32_t k = n[0]
    if k == WEIGHED:
        if best[k - 1].score >= one.score:
            return
        k -= 1
    else:
        n[0] += 1
    while k > 0 and best[k - 1].score < one.score:
        best[k] = best[k - 1]
        k -= 1
    best[k] = one[0]


cdef int find_loops(uint64_t until, const Run* runs, uint32_t count, uint64_t n, Loop* best,
                    uint32_t* found) noexcept nogil:
    # For each count that enough runs have, take the run with the most even rounds.
    cdef Loop* by_times = <Loop*> calloc(n + 1, sizeof(Loop))
    cdef uint32_t* members = <uint32_t*> calloc(n + 1, sizeof(uint32_t))
    cdef Loop* loop
    cdef double score
    cdef uint64_t t
    cdef uint32_t i
    found[0] = 0
    if by_times == NULL or members == NULL:
        free(by_times)
        free(members)
        return ERR_MEMORY
    for i in range(count):
        if runs[i].times < LEAST_TIMES:
            continue
        score = evenness(&runs[i], until)
        loop = &by_times[runs[i].times]
        members[runs[i].times] += 1
        if score > loop.score:
            loop.run = i
            loop.times = runs[i].times
            loop.score = score
    for t in range(LEAST_TIMES, n + 1):
        if by_times[t].score > 0 and members[t] >= LEAST_RUNS:
            keep_best(best, found, &by_times[t])
    free(by_times)
    free(members)
    return OK


cdef double range_of(uint64_t until, const int64_t* usage, double slope,
                     double* work) noexcept nogil:
    # Return the range of usage after subtracting a steady rise.
    cdef uint64_t stride = until // SAMPLES + 1
    cdef uint64_t m = 0
    while m * stride < until:
        work[m] = <double> usage[m * stride] - slope * <double> (m * stride)
        m += 1
    qsort(work, m, sizeof(double), ascending_double)
    return work[m - 1 - m // 20] - work[m // 20]


cdef void weigh(uint64_t until, const uint32_t* events, const uint32_t* ids, uint64_t n,
                const int64_t* usage, int64_t start, const Run* run, double* work,
                Loop* loop) noexcept nogil:
    # Multiply a loop's score by the memory shares. `work` must have room for SAMPLES + 1 numbers
    # plus one per round.
    cdef double slope = (<double> usage[run.last] - <double> usage[run.first]) \
        / <double> (run.last - run.first)
    cdef double whole = range_of(until, usage, slope, work)
    cdef double value, low, high, before, after
    cdef uint64_t closed = 0
    cdef uint64_t rounds = 0
    cdef uint64_t i
    cdef int64_t at
    cdef uint32_t begun
    if whole <= 0:
        loop.score = 0
        return
    before = <double> (usage[run.first - 1] if run.first else start)
    low = before
    high = before
    at = run.first
    begun = run.first
    for i in range(n):
        if ids[i] != loop.run or events[i] == run.first:
            continue
        while at < events[i]:
            value = <double> usage[at]
            low = min(low, value)
            high = max(high, value)
            at += 1
        after = <double> usage[events[i] - 1]
        value = after - before - slope * <double> (events[i] - begun)
        closed += fabs(value) * 10 <= whole
        begun = events[i]
        work[rounds] = high - low
        rounds += 1
        before = after
        low = before
        high = before
    qsort(work, rounds, sizeof(double), ascending_double)
    loop.score *= <double> closed / <double> rounds * min(1.0, 2 * work[rounds // 2] / whole)


cdef bint is_in_a_module(const Replay* r, const Run* runs, uint32_t count,
                         uint32_t times) noexcept nogil:
    # Whether a loop's stacks all come from one line of a module's forward(). If the recording cuts
    # off part of the first or last round, some runs occur one time fewer.
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint32_t shown[SHOWN]
    cdef uint32_t kept = 0
    cdef uint32_t stride = 1
    cdef uint32_t met = 0
    cdef uint32_t i, k
    for i in range(count):
        if not times - 1 <= runs[i].times <= times + 1:
            continue
        if met % stride == 0:
            if kept == SHOWN:
                for k in range(SHOWN // 2):
                    shown[k] = shown[2 * k]
                kept = SHOWN // 2
                stride *= 2
            if met % stride == 0:
                shown[kept] = stack[runs[i].first]
                kept += 1
        met += 1
    return in_a_module(r, shown[0], shown, kept)


cdef uint32_t lowest_run(const Run* runs, uint32_t count, const Loop* loop,
                         uint64_t events) noexcept nogil:
    # Among runs with equally even rounds, return the one before which the least memory is live,
    # because a round begins there.
    cdef double least = evenness(&runs[loop.run], events) * 0.9
    cdef uint32_t best = loop.run
    cdef uint32_t i
    for i in range(count):
        if runs[i].times == loop.times and runs[i].low < runs[best].low \
                and evenness(&runs[i], events) >= least:
            best = i
    return best


cdef int choose(const Replay* r, const uint32_t* events, const uint32_t* ids, uint64_t n, Run* runs,
                uint32_t count, const int64_t* usage, int64_t start, bint by_size,
                bint any_memory, Rounds* rounds) noexcept nogil:
    cdef uint64_t until = <uint64_t> events[n - 1] + 1 if n else 0
    cdef Loop best[WEIGHED]
    cdef Loop* loop = NULL
    cdef uint32_t found = 0
    cdef uint32_t k
    cdef uint64_t i
    cdef double* work
    if find_loops(until, runs, count, n, best, &found) != OK:
        return ERR_MEMORY
    work = <double*> malloc((n + SAMPLES + 1) * sizeof(double))
    if work == NULL:
        return ERR_MEMORY
    for k in range(found):
        # The remaining loops can't score higher.
        if loop != NULL and best[k].score <= loop.score:
            break
        if not by_size and is_in_a_module(r, runs, count, best[k].times):
            continue
        best[k].run = lowest_run(runs, count, &best[k], until)
        if any_memory:
            best[k].score = evenness(&runs[best[k].run], until)
        else:
            weigh(until, events, ids, n, usage, start, &runs[best[k].run], work, &best[k])
        if best[k].score > (loop.score if loop != NULL else 0):
            loop = &best[k]
    free(work)
    if loop == NULL:
        return OK
    rounds.score = loop.score
    for i in range(n):
        if ids[i] == loop.run and push_u32(&rounds.begins, events[i]) < 0:
            return ERR_MEMORY
    return OK


cdef int find_recurrence(const Replay* r, const int64_t* usage, int64_t start, bint by_size,
                         uint64_t seed, Rounds* found, Rounds* any_memory) noexcept nogil:
    # Find the rounds by all five shares, and by only the first three. Both results are empty if
    # nothing recurs.
    cdef uint32_t* events = <uint32_t*> malloc((r.events + 1) * sizeof(uint32_t))
    cdef uint32_t* ids = <uint32_t*> malloc((r.events + 1) * sizeof(uint32_t))
    cdef uint64_t* keys = <uint64_t*> malloc((r.events + 1) * sizeof(uint64_t))
    cdef Run* runs = NULL
    cdef Run* run
    cdef uint64_t n = 0
    cdef uint64_t i
    cdef uint32_t count = 0
    cdef int code = ERR_MEMORY
    found.score = any_memory.score = 0
    if events != NULL and ids != NULL and keys != NULL:
        code = number_runs(r, by_size, seed, events, ids, keys, &n, &count)
    free(keys)
    if code == OK:
        runs = <Run*> calloc(<uint64_t> count + 1, sizeof(Run))
        code = OK if runs != NULL else ERR_MEMORY
    if code == OK:
        for i in range(n):
            run = &runs[ids[i]]
            if run.times == 0:
                run.first = events[i]
            else:
                run.squares += <double> (events[i] - run.last) * <double> (events[i] - run.last)
            run.last = events[i]
            run.times += 1
            run.low += <double> (usage[events[i] - 1] if events[i] else start)
        code = choose(r, events, ids, n, runs, count, usage, start, by_size, False, found)
    if code == OK:
        code = choose(r, events, ids, n, runs, count, usage, start, by_size, True, any_memory)
    free(events)
    free(ids)
    free(runs)
    return code
