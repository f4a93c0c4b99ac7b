# From when to when each address was reserved.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Reserve

cdef struct Reservation:
    # Addresses that the same event brought, and that went together.
    uint64_t start, end
    int64_t begin        # the event that brought them, -1: the start
    int64_t stop         # the one that took them back; the number of events where none did
    uint32_t source      # as in Piece


cdef int reservations_find(const Reserve* v, const Replay* r, Buf* out) noexcept nogil
