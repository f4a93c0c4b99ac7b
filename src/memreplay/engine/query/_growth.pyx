"""Python interface to steps: totals for each step, groups that grow, and where a trace repeats
itself.

Contains no algorithms. Event indices count from the first event read; -1 is the state before that
event.
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
LEAST_RISES = _trend.LEAST_RISES


cdef int check_series(Replay replay, Column usage) except -1:
    if usage.fmt != b"q" or usage.strides[0] != 8 or usage.shape[0] < <int64_t> replay.r.events:
        raise ValueError("a series must have one i64 per event")
    return 0


def step_sums(Replay replay not None, Measure measure, Column usage not None, int64_t start,
              spans) -> list:
    """Return (peak, event of the peak, bytes at the end, allocations, bytes allocated) for each
    span.

    `spans` are (first event, event after the last), in order and without overlaps. `usage` and
    `start` are the measure's series. Without `measure` (reserved memory), each rise counts as an
    allocation.
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
        raise ValueError("the measure belongs to another replay")
    for first, stop in spans:
        if not before <= first <= stop <= replay.r.events:
            raise ValueError("spans must be in order and consist of existing events")
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
    """Decide whether a series (the initial value, then one value per step) shows a leak.

    Returns (leaks, bytes per step, since, rises, until, stayed, stopped, standard error of the
    bytes per step, odds to one). The first `warm` steps are warm-up; a leak is at least `least`
    bytes per step.
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
    """Return the groups that grew:

    (leaks, how many, once, how many, totals, young).

    `moments` are the event before the first step, then the last event of each step. `levels` are
    the live bytes after each of these events.

    `leaks` and `once` are lists of rows, largest first; `top` limits them (0: all). A row is (name
    of the group, bytes per step, stayed, start, warm, end, since, rises, until, stopped, old bytes,
    old count, error of the bytes per step, odds to one, growth of a leak, bytes per step that
    another group released, whether each allocation replaces the previous one).

    `totals` is (bytes per step of all leaks, growth of all leaks, stayed of all others, growth
    after the warm-up of the non-leaking group that grew most, old bytes, old count, bytes per step
    of all memory, number of groups that need more in each step, growth per step of memory that is
    only live within a step). Old allocations were made after the warm-up and outlived the ends of
    `old` further steps. `young` is the part of each level that is constantly replaced.
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
        raise ValueError("levels must have one number per moment")
    for moment in moments:
        if not before <= moment < measure.replay.r.events:
            raise ValueError("moments must be in order and existing events")
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
        raise ValueError("there aren't that many steps")
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
    """Find repetitions by "stacks", "sizes" or "usage" (docs/steps.md).

    Returns a column with each repetition's first event (u32, empty if nothing repeats), a score
    from 0 to 1, and the number of members. Members are the stacks or sizes that occur once in each
    repetition.
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
                    bint by_size) -> tuple:
    """Find rounds by recurring runs of allocations, compared by size or by stack.

    Returns two pairs (column of each round's first event (u32), score from 0 to 1): the first uses
    the full score, the second a score that ignores how memory rises and falls. A column is empty if
    nothing recurs.
    """
    cdef Owned out = owned(4)
    cdef Owned any_out = owned(4)
    cdef uint64_t seed = new_seed()
    cdef _recurrence.Rounds found
    cdef _recurrence.Rounds any_memory
    cdef int code
    check_series(replay, usage)
    found.begins = out.buf
    any_memory.begins = any_out.buf
    with nogil:
        code = _recurrence.find_recurrence(&replay.r, <const int64_t*> usage.data, start, by_size,
                                           seed, &found, &any_memory)
    out.buf = found.begins
    any_out.buf = any_memory.begins
    if code != OK:
        raise MemoryError
    return (column(out, out.buf.data, out.buf.len, b"I"), found.score,
            column(any_out, any_out.buf.data, any_out.buf.len, b"I"), any_memory.score)


def count_optimizers(Replay replay not None) -> int:
    """Count the call sites of step() whose optimizers allocate memory in several steps."""
    cdef int64_t found
    with nogil:
        found = _turns.count_optimizers(&replay.r)
    if found < 0:
        raise MemoryError
    return found


def find_optimizer_steps(Replay replay not None, bint zeroed) -> Column:
    """Return the event after each optimizer step (u32), or with `zeroed`, after each zero_grad()
    call.

    For a step or call that lasts until the end of the trace, this is the number of events.
    """
    cdef Owned out = owned(4)
    cdef int code
    with nogil:
        code = _turns.find_optimizer_steps(&replay.r, zeroed, &out.buf)
    if code != OK:
        raise MemoryError
    return column(out, out.buf.data, out.buf.len, b"I")
