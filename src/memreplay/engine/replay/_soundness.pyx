"""The façade over checks of a replay: can what was live and what was reserved both be true?

No algorithm is in here. Event indices count from the first event that was read; -1 is the start.
"""

from libc.stdint cimport int64_t, uint64_t
from memreplay._core cimport error_of
from memreplay.engine.replay._measures cimport Reserved
from memreplay.engine.replay cimport soundness as _soundness
from memreplay.engine.read.column cimport Column
from memreplay.engine.base.status cimport OK


def soundness(Reserved reserved not None) -> dict:
    """How many carried blocks lie `outside` of what was reserved then, are live where that
    is `impossible`, or are `overlaps`; how many requests of a free are `waiting`, as
    it does not complete at once; after how many events (`short_events`) more is requested
    than reserved, and the first of them (`short_at`)."""
    cdef _soundness.Soundness s
    cdef int code
    with nogil:
        code = _soundness.soundness_init(&s, &reserved.replay.r, &reserved.v)
    if code != OK:
        raise error_of(&s.status)
    return {
        "outside": s.outside,
        "impossible": s.impossible,
        "overlaps": s.overlaps,
        "waiting": s.waiting,
        "short_events": s.short_events,
        "short_at": s.short_at,
    }


def first_above(Column low not None, int64_t low_start, Column high not None,
                int64_t high_start) -> int | None:
    """The first event after which the one series (i64) is above the other; None where it never
    is."""
    cdef int64_t at
    if low.fmt != b"q" or high.fmt != b"q" or low.shape[0] != high.shape[0]:
        raise ValueError("two series of i64, of as many events")
    with nogil:
        at = _soundness.first_above(<const int64_t*> low.data, low_start,
                                    <const int64_t*> high.data, high_start,
                                    <uint64_t> low.shape[0])
    return None if at == -2 else at
