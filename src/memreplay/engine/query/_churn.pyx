"""Python interface to allocation statistics over the events of a measure.

Contains no algorithms.
"""

from libc.stdint cimport uint64_t
from memreplay.engine.query._groups cimport Keys, check_replay
from memreplay.engine.query cimport churn as _churn
from memreplay.engine.base.status cimport OK
from memreplay.engine.base.wide cimport whole
from memreplay.engine.replay._timeline cimport Measure

SORT = {"bytes": _churn.SORT_BYTES, "count": _churn.SORT_COUNT,
        "temporary": _churn.SORT_TEMPORARY, "mean-lifetime": _churn.SORT_LIFETIME}


cdef tuple row_of(const _churn.ChurnSum* g):
    return (g.name, g.count, whole(g.bytes), g.temporary_count, whole(g.temporary_bytes),
            g.live_count, whole(g.live_bytes), g.lifetime_events, g.timed_count,
            whole(g.lifetime_us))


cdef tuple class_of(const _churn.ChurnClass* c):
    return (c.count, whole(c.bytes))


cdef list classes_of(const _churn.ChurnClass* c, int n):
    # Return (class, count, bytes) for each non-empty class.
    return [(i, c[i].count, whole(c[i].bytes)) for i in range(n) if c[i].count]


def allocations(
    Measure measure not None, Keys keys not None, sort: str, top: int, uint64_t threshold
) -> dict:
    """Return allocation statistics; `_churn.pyi` describes the format.

    `sort` is a key of SORT; `top` limits the rows (0: all). An allocation is temporary if at most
    `threshold` others are allocated before it's freed.
    """
    cdef _churn.Churn c
    cdef const _churn.ChurnSum* g
    cdef int order = SORT[sort]
    cdef int code
    cdef size_t i, shown
    check_replay(measure, keys)
    try:
        with nogil:
            code = _churn.churn_init(&c, &measure.l, &keys.k, threshold, order)
        if code != OK:
            raise MemoryError
        g = <const _churn.ChurnSum*> c.groups.data
        shown = c.groups.len if top <= 0 else min(<size_t> top, c.groups.len)
        return {
            "whole": row_of(&c.whole),
            "rows": [row_of(&g[i]) for i in range(shown)],
            "groups": c.groups.len,
            "sizes": classes_of(c.sizes, _churn.SIZE_CLASSES),
            "lifetimes_events": classes_of(c.events, _churn.DECADES),
            "lifetimes_us": classes_of(c.us, _churn.DECADES) if c.timed else None,
            "untimed": class_of(&c.untimed),
            "carried": class_of(&c.carried),
            "carried_freed": class_of(&c.carried_freed),
            "grown": c.grown,
            "min_bytes": c.min_bytes,
            "max_bytes": c.max_bytes,
            "median_bytes": c.median_bytes,
            "median_events": c.median_events,
            "median_us": c.median_us,
            "times": (c.first_time, c.last_time) if c.timed else None,
        }
    finally:
        _churn.churn_free(&c)
