# Memory that the program holds, from alloc to free_requested.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.base.status cimport Status

cdef extern from *:
    # in carried_end: the program freed it before the first event
    const uint32_t NEVER_HELD "0xFFFFFFFEu"


cdef struct Held:
    Status status
    Buf end          # u32 per event: the event until which the program held an alloc, else NONE32
    Buf carried_end  # the same (u32) per carried-over block; NONE32: held to the end; or NEVER_HELD
    uint64_t requests       # free_requested events
    uint64_t unrequested    # allocations that a free_completed ended without a request
    uint64_t pending        # allocations whose free was requested but didn't complete
    uint64_t unmatched      # requests for memory that wasn't held
    uint64_t presumed       # carried-over blocks assumed to be pending at the start


cdef int held_init(Held* h, const Replay* r, uint64_t seed) noexcept nogil
cdef void held_free(Held* h) noexcept nogil
