"""The façade over checks of a replay: can what was live and what was reserved both be true?

No algorithm is in here. Event indices count from the first event that was read; -1 is the start.
"""

from memreplay._core cimport error_of
from memreplay.engine.replay._measures cimport Blocks, Reserved
from memreplay.engine.replay._timeline cimport Measure, requested
from memreplay.engine.replay cimport soundness as _soundness
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


def active_fit(Blocks blocks not None) -> tuple:
    """(the first event after which fewer bytes are active than were requested, the first after
    which more are than are reserved); None each where there is none."""
    cdef Measure low = requested(blocks.reserved.replay)
    cdef Measure used = blocks.weigh(requested(blocks.reserved.replay))
    cdef _soundness.Fit f
    with nogil:
        _soundness.fit_find(&f, &low.l, &used.l, &blocks.reserved.v)
    return (None if f.below_at == _soundness.FITS else f.below_at,
            None if f.above_at == _soundness.FITS else f.above_at)
