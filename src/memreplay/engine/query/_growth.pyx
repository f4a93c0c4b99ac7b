"""The façade over steps: what each one does, which groups grow from one to the next, where a trace
repeats itself.

No algorithm is in here. Event indices count from the first event that was read; -1 is the start.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay._core cimport new_seed
from memreplay.engine.query._groups cimport Keys, check_replay
from memreplay.engine.query cimport growth as _growth
from memreplay.engine.query cimport period as _period
from memreplay.engine.query cimport recurrence as _recurrence
from memreplay.engine.query cimport trend as _trend
from memreplay.engine.query cimport turns as _turns
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._timeline cimport Measure, Replay

LEAST_ROUNDS = _period.LEAST_ROUNDS


cdef int check_series(Replay replay, Column usage) except -1:
    if usage.fmt != b"q" or usage.strides[0] != 8 or usage.shape[0] < <int64_t> replay.r.events:
        raise ValueError("a series has an i64 an event")
    return 0


def step_sums(Replay replay not None, Measure measure, Column usage not None, int64_t start,
              spans) -> list:
    """(peak, its event, end, allocations, bytes allocated) of each of `spans`: (first event, event
    after the last), none of them before another one's end.

    `usage` and `start` are the measure's series. Without `measure` (reserved memory) each rise is
    an allocation.
    """
    cdef Owned wanted = owned(sizeof(_growth.Span))
    cdef Owned out = owned(sizeof(_growth.StepSum))
    cdef _growth.Span span
    cdef _growth.StepSum* s
    cdef int64_t before = 0
    cdef uint64_t n = len(spans)
    cdef uint64_t i
    check_series(replay, usage)
    if measure is not None and measure.replay is not replay:
        raise ValueError("a measure of another replay")
    for first, stop in spans:
        if not before <= first <= stop <= replay.r.events:
            raise ValueError("spans are in order, and of events that are there")
        span.first = first
        span.stop = stop
        before = stop
        if push_item(&wanted.buf, &span) < 0:
            raise MemoryError
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    with nogil:
        _growth.step_sums(&measure.l if measure is not None else NULL, &replay.r,
                          <const int64_t*> usage.data, start,
                          <const _growth.Span*> wanted.buf.data, n,
                          <_growth.StepSum*> out.buf.data)
    s = <_growth.StepSum*> out.buf.data
    return [(s[i].peak, s[i].peak_at, s[i].end, s[i].allocations, s[i].bytes) for i in range(n)]


def judge(values, warm: int, least: int) -> tuple:
    """(leaks, bytes a step, since, rises, until, stayed, stopped, error of the bytes a step, odds
    to one) of a series: a start, then one number a step.

    The first `warm` of the steps are no later ones; a leak is at least `least` bytes a step.
    """
    cdef Owned series = owned(8)
    cdef Buf scratch
    cdef _trend.Trend judged
    cdef int64_t value
    cdef uint32_t steps = check_steps(len(values) - 1, warm)
    cdef int code
    for number in values:
        value = number
        if push_item(&series.buf, &value) < 0:
            raise MemoryError
    buf_init(&scratch, sizeof(double))
    code = _trend.judge(<const int64_t*> series.buf.data, steps, warm, least, &scratch, &judged)
    buf_free(&scratch)
    if code != OK:
        raise MemoryError
    return (judged.leaks, judged.rate, judged.since, judged.rises, judged.until, judged.stayed,
            judged.stopped, judged.error, judged.odds)


def groups_grown(Measure measure not None, Keys keys not None, moments, levels, warm: int, old: int,
                 least: int, top: int) -> tuple:
    """(leaks, how many, once, how many, totals, young) of the groups that grew.

    `moments`: the event before the first step, then the last event of each step; `levels`: what is
    live after each. Rows are (name of the group, bytes a step, stayed, start, warm, end,
    since, rises, until, stopped, old bytes, old count, error of the bytes a step, odds to one,
    growth of a leak, bytes a step that another group gave back, whether each allocation replaces
    the one before), the largest first, `top` of them (0: all). Totals: (bytes a step of all leaks,
    what they grew by, stayed of all others, what that other grew by in the later steps that grew
    most in them, old bytes, old count, bytes a step of all memory, groups of which each step needs
    more, what comes and goes within a step grows by from one to the next). Old allocations were
    made in a later step, and outlived the ends of `old` steps after it. Young: what of each level
    is replaced all the time.
    """
    cdef Owned wanted = owned(8)
    cdef Owned there = owned(8)
    cdef Owned young = owned(8)
    cdef Owned leaks = owned(sizeof(_growth.Grown))
    cdef Owned once = owned(sizeof(_growth.Grown))
    cdef _growth.Totals totals
    cdef int64_t before = -1
    cdef int64_t at
    cdef uint32_t steps = check_steps(len(moments) - 1, warm)
    cdef uint32_t warm_ = warm
    cdef uint32_t old_ = min(max(old, 0), 0x7FFFFFFF)
    cdef int64_t least_ = least
    cdef size_t i
    cdef int code
    check_replay(measure, keys)
    if len(levels) != len(moments):
        raise ValueError("a level for each moment")
    for moment in moments:
        if not before <= moment < measure.replay.r.events:
            raise ValueError("moments are in order, and of events that are there")
        at = moment
        before = at
        if push_item(&wanted.buf, &at) < 0:
            raise MemoryError
    for level in levels:
        at = level
        if push_item(&there.buf, &at) < 0:
            raise MemoryError
    with nogil:
        code = _growth.groups_grown(&measure.l, &keys.k, <const int64_t*> wanted.buf.data,
                                    <const int64_t*> there.buf.data, steps, warm_, old_, least_,
                                    &leaks.buf, &once.buf, &young.buf, &totals)
    if code != OK:
        raise MemoryError
    return (rows_of(leaks, top), leaks.buf.len, rows_of(once, top), once.buf.len,
            (totals.leak_rate, totals.leak_growth, totals.once_stayed, totals.most_growth,
             totals.old_bytes, totals.old_count, totals.whole_rate, totals.needs_more,
             totals.within_rate),
            [(<int64_t*> young.buf.data)[i] for i in range(young.buf.len)])


cdef uint32_t check_steps(steps, warm) except? 0:
    if not 0 <= warm <= steps < 0x7FFFFFFF:
        raise ValueError("there are not so many steps")
    return steps


cdef list rows_of(Owned rows, top):
    cdef _growth.Grown* g = <_growth.Grown*> rows.buf.data
    cdef size_t shown = rows.buf.len if top <= 0 else min(<size_t> top, rows.buf.len)
    cdef size_t i
    return [(g[i].name, g[i].rate, g[i].stayed, g[i].start, g[i].warm, g[i].end,
             g[i].since, g[i].rises, g[i].until, g[i].stopped, g[i].old_bytes,
             g[i].old_count, g[i].error, g[i].odds, g[i].grew, g[i].made_up, bool(g[i].replaced))
            for i in range(shown)]


def find_period(Replay replay not None, Column usage not None, int64_t start, str by) -> tuple:
    """(events with which a repetition begins (u32), score 0 to 1, members).

    By "stacks", "sizes", or "usage", which are docs/steps.md's ways to find steps. The column is
    empty where nothing repeats; members are the stacks or sizes that come once in each.
    """
    cdef Owned out = owned(4)
    cdef _period.Period found
    cdef uint64_t seed = new_seed()
    cdef bint by_size = by == "sizes"
    cdef int code
    check_series(replay, usage)
    if by == "usage":
        with nogil:
            code = _period.find_waves(&replay.r, <const int64_t*> usage.data, &out.buf, &found)
    elif by == "stacks" or by_size:
        with nogil:
            code = _period.find_period(&replay.r, <const int64_t*> usage.data, start, by_size,
                                       seed, &out.buf, &found)
    else:
        raise ValueError(by)
    if code != OK:
        raise MemoryError
    return column(out, out.buf.data, out.buf.len, b"I"), found.score, found.members


def find_recurrence(Replay replay not None, Column usage not None, int64_t start,
                    bint by_size, bint any_memory=False) -> tuple:
    """(events with which a round begins (u32), score 0 to 1): by runs of allocations that come
    back, told by their sizes or by their stacks. The column is empty where nothing recurs.
    `any_memory`: how memory rises and falls doesn't count."""
    cdef Owned out = owned(4)
    cdef uint64_t seed = new_seed()
    cdef double score = 0
    cdef int code
    check_series(replay, usage)
    with nogil:
        code = _recurrence.find_recurrence(&replay.r, <const int64_t*> usage.data, start, by_size,
                                           any_memory, seed, &out.buf, &score)
    if code != OK:
        raise MemoryError
    return column(out, out.buf.data, out.buf.len, b"I"), score


def count_optimizers(Replay replay not None) -> int:
    """How many places in the program's code call an optimizer that allocates in several turns."""
    cdef int64_t found
    with nogil:
        found = _turns.count_optimizers(&replay.r)
    if found < 0:
        raise MemoryError
    return found


def find_turns(Replay replay not None, bint zeroed) -> Column:
    """The event after each turn of the optimizer (u32; the number of events where the trace ends
    in one); of zero_grad() where `zeroed`."""
    cdef Owned out = owned(4)
    cdef int code
    with nogil:
        code = _turns.find_turns(&replay.r, zeroed, &out.buf)
    if code != OK:
        raise MemoryError
    return column(out, out.buf.data, out.buf.len, b"I")
