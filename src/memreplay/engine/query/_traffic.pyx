"""Python interface for summing up allocations and frees between two events. Contains no algorithms.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.status cimport OK
from memreplay.engine.base.wide cimport whole
from memreplay.engine.query cimport traffic as _traffic
from memreplay.engine.query._groups cimport Keys, check_replay
from memreplay.engine.read.column cimport Column
from memreplay.engine.replay._measures cimport check_rows
from memreplay.engine.replay._timeline cimport Measure


cdef tuple sums_of(const _traffic.Flow* f):
    return (whole(f.before_bytes), f.before, whole(f.came_bytes), f.came, whole(f.went_bytes),
            f.went)


def traffic(
    Measure measure not None, Keys keys not None, live: tuple, int64_t begin, int64_t end, top: int
) -> tuple:
    """Sum up the allocations and frees after event `begin` (-1: the start), up to event `end`.

    `_traffic.pyi` describes the result's format. `live` is the live set after `begin`, from
    `Measure.live`; `top` limits the groups (0: all). Raises IndexError.
    """
    cdef _traffic.Traffic t
    cdef Column allocs = live[0]
    cdef Column carried = live[1]
    cdef const _traffic.Flow* f
    cdef size_t i, shown
    cdef int code
    check_replay(measure, keys)
    if not -1 <= begin <= end < <int64_t> measure.replay.r.events:
        raise IndexError(f"events {begin} to {end} don't exist")
    check_rows(allocs, measure.replay.r.events)
    check_rows(carried, measure.replay.r.carried.len)
    try:
        with nogil:
            code = _traffic.traffic_init(
                &t, &measure.l, &keys.k, begin, end, <const uint32_t*> allocs.data,
                <uint64_t> allocs.shape[0], <const uint32_t*> carried.data,
                <uint64_t> carried.shape[0])
        if code != OK:
            raise MemoryError
        f = <const _traffic.Flow*> t.groups.data
        shown = t.groups.len if top <= 0 else min(<size_t> top, t.groups.len)
        rows = [(f[i].name, *sums_of(&f[i])) for i in range(shown)]
        return rows, t.groups.len, sums_of(&t.moved), sums_of(&t.still)
    finally:
        _traffic.traffic_free(&t)
