# What the program itself held: allocations from alloc to free_requested.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.base.status cimport Status

cdef extern from *:
    const uint32_t NEVER_HELD "0xFFFFFFFEu"   # in carried_end: let go before the first event


cdef struct Held:
    Status status
    Buf end          # u32 an event: of an alloc the event that ended its holding, else NONE32
    Buf carried_end  # u32 a carried block: that event, NONE32 (never) or NEVER_HELD
    uint64_t requests       # free_requested events
    uint64_t unrequested    # allocations that a free_completed ended without a request
    uint64_t pending        # allocations whose free was requested and did not complete
    uint64_t unmatched      # requests for what was not held
    uint64_t presumed       # carried blocks taken to be pending at the start


cdef int held_init(Held* h, const Replay* r, uint64_t seed) noexcept nogil
cdef void held_free(Held* h) noexcept nogil
