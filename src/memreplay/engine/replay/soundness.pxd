# Check whether live and reserved memory are consistent.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Reserve
from memreplay.engine.base.status cimport Status


cdef struct Soundness:
    Status status
    uint64_t outside      # carried-over blocks in memory that wasn't reserved
    uint64_t impossible   # blocks that are live while an event reserves or releases their memory
    uint64_t overlaps     # blocks that begin inside another block
    uint64_t waiting      # frees that complete later than requested
    uint64_t short_events     # events (or the start) after which more is requested than reserved
    int64_t short_at      # the first of these events; -1: the start, or none


cdef enum:
    FITS = -2      # no event


cdef struct Fit:
    # The first event (-1: the start; FITS: none) after which fewer bytes are active than requested,
    # and the first after which more bytes are active than reserved.
    int64_t below_at, above_at


cdef int soundness_init(Soundness* s, const Replay* r, const Reserve* v) noexcept nogil
cdef void fit_find(Fit* f, const Lives* requested, const Lives* active,
                   const Reserve* v) noexcept nogil
