"""Python interface for checking whether live and reserved memory are consistent.

Contains no algorithms. Event indices count from the first event read; -1 is the state before that
event.
"""

from memreplay._core cimport error_of
from memreplay.engine.replay._measures cimport Blocks, Reserved
from memreplay.engine.replay._timeline cimport Measure, requested
from memreplay.engine.replay cimport soundness as _soundness
from memreplay.engine.base.status cimport OK


def soundness(Reserved reserved not None) -> dict:
    """Count contradictions between the replay and the reserved memory.

    Three numbers count carried-over blocks: `outside` those in memory that wasn't reserved,
    `impossible` those that are live while a segment event reserves or releases their memory, and
    `overlaps` those inside another block. `waiting` is the number of frees that complete later than
    requested. `short_events` is the number of events after which more memory is requested than
    reserved, and `short_at` is the first of these.
    """
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
    """Return the first events (or None) after which active bytes contradict other measures.

    After the first, fewer bytes are active than requested; after the second, more are active than
    reserved.
    """
    cdef Measure low = requested(blocks.reserved.replay)
    cdef Measure used = blocks.weigh(requested(blocks.reserved.replay))
    cdef _soundness.Fit f
    with nogil:
        _soundness.fit_find(&f, &low.l, &used.l, &blocks.reserved.v)
    return (None if f.below_at == _soundness.FITS else f.below_at,
            None if f.above_at == _soundness.FITS else f.above_at)
