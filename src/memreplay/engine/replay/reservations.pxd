# Find when each address range was reserved.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Reserve

cdef struct Reservation:
    # Addresses reserved by the same event and released together.
    uint64_t start, end
    int64_t begin        # the event that reserved them; -1: the start
    int64_t stop         # the event that released them; the number of events if none
    uint32_t source      # as in ReservedRange


cdef int reservations_find(const Reserve* v, const Replay* r, Buf* out) noexcept nogil
