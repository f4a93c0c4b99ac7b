# Replay one device's trace: match frees with allocations, find carried-over blocks, compute usage
# and peak.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.base.status cimport Status
from memreplay.engine.read.tables cimport Tables, Window

cdef extern from *:
    # in the map of live addresses: a carried-over block's number
    const uint32_t CARRIED "0x80000000u"


cdef struct Double:
    # Event `at` allocated an address that was still live, so it ended allocation `closed`, whose
    # free was lost.
    uint32_t at
    uint32_t closed


cdef struct Replay:
    const Tables* tables
    Status status
    int32_t device
    uint64_t first        # event 0's row
    uint64_t events
    uint64_t base         # event 0's index in the whole trace
    const Window* window  # NULL if the whole trace was read
    # u32 per event: for an alloc, the event that ended it; for a free_completed, the alloc that it
    # ended; else NONE32. Indices count from event 0 of the device.
    Buf match
    # Carried: first the freed blocks, by the event that freed them, then live blocks
    Buf carried
    Buf doubles           # Double, by event
    Buf ends              # Double, by event; `closed` is a carried-over block that ends there
    # address -> alloc event or CARRIED | block; NONE32 for an address that was freed
    Map64 live
    uint64_t at           # events replayed
    int64_t running       # relative to the usage at the start
    int64_t best
    int64_t best_at       # -1: the start
    int64_t carried_bytes, peak_bytes, final_bytes
    int64_t segment_requested   # bytes in the final segments' active blocks
    uint64_t allocs, unmatched_frees, double_allocs, size_mismatches, unknown_actions
    # matched frees with their alloc's stack, and with another stack
    uint64_t same_stack, other_stack


cdef int replay_init(Replay* r, const Tables* t, int32_t device, uint64_t seed) noexcept nogil
cdef void replay_free(Replay* r) noexcept nogil
cdef int replay_step(Replay* r, uint64_t chunk) noexcept nogil
