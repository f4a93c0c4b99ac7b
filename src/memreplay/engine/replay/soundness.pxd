# Whether what was live and what was reserved can both be true.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Reserve
from memreplay.engine.base.status cimport Status


cdef struct Soundness:
    Status status
    uint64_t outside      # carried blocks that lie in nothing that was reserved then
    uint64_t impossible   # that are live while their memory is reserved or given back
    uint64_t overlaps     # that begin inside of another one
    uint64_t waiting      # requests of a free that does not complete at once
    uint64_t short_events     # events, and the start, with more requested than reserved
    int64_t short_at      # the first of them; -1 is the start, and stands where there is none


cdef enum:
    FITS = -2      # in place of an event: there is none


cdef struct Fit:
    # The first event (-1: the start) after which fewer bytes are active than were requested, and
    # the first after which more are than are reserved; FITS where there is none.
    int64_t below_at, above_at


cdef int soundness_init(Soundness* s, const Replay* r, const Reserve* v) noexcept nogil
cdef void fit_find(Fit* f, const Lives* requested, const Lives* active,
                   const Reserve* v) noexcept nogil
