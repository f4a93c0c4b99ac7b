# One device's trace replayed: which event ended which allocation, what was live before it, the sum,
# the peak.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.base.status cimport Status
from memreplay.engine.read.tables cimport Tables, Window

cdef extern from *:
    const uint32_t CARRIED "0x80000000u"   # in the map of live addresses: a carried block's number


cdef struct Double:
    # Event `at` allocated an address that was live: allocation `closed` ended there, its free is
    # lost.
    uint32_t at
    uint32_t closed


cdef struct Replay:
    const Tables* tables
    Status status
    int32_t device
    uint64_t first        # row of event 0
    uint64_t events
    uint64_t base         # index of event 0 in the whole trace
    const Window* window  # NULL when the trace was read whole
    # u32 an event: of an alloc, the event that ended it; of a free_completed, the alloc that it
    # ended; else NONE32. Indices count from event 0 of the device.
    Buf match
    # Carried: the freed ones by the event that freed them, then those still live
    Buf carried
    Buf doubles           # Double, by event
    Buf ends              # Double, by event: where `closed` is a carried block that ends there
    Map64 live            # address -> alloc event or CARRIED block; NONE32 when seen but free
    uint64_t at           # events done
    int64_t running       # relative to the start
    int64_t best
    int64_t best_at       # -1 is the start
    int64_t carried_bytes, peak_bytes, final_bytes
    int64_t segment_requested   # of the active blocks at the end
    uint64_t allocs, unmatched_frees, double_allocs, size_mismatches, unknown_actions
    uint64_t same_stack, other_stack   # matched frees that carry their alloc's stack, or another


cdef int replay_init(Replay* r, const Tables* t, int32_t device, uint64_t seed) noexcept nogil
cdef void replay_free(Replay* r) noexcept nogil
cdef int replay_step(Replay* r, uint64_t chunk) noexcept nogil
