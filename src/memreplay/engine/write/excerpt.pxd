# The part of one device that goes into a slice of a snapshot.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.blockmap cimport BlockMap
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.replay cimport Replay


cdef struct Leading:
    # An event written before the range's events, for memory that was live before the range.
    uint64_t address, stream
    int64_t size
    uint32_t stack
    uint32_t pool         # pair id, or NONE32
    uint8_t action


cdef struct Excerpt:
    const Replay* replay
    const Held* held
    const Arena* arena            # for carried-over blocks' streams and pools; NULL without a range
    const uint32_t* stacks        # id -> written id; NULL if equal
    int64_t least                 # smaller allocations are dropped
    Buf keep                      # u8 per event: whether it is written
    Buf leading                   # Leading
    Buf segments                  # tables.Segment, at the end of the range; kind is a Kind
    Buf blocks                    # tables.Block: the blocks in these segments, by segment
    # u8 per carried-over block: whether its free is requested in the range
    Buf range_frees
    Buf through                   # u8 per carried-over block: whether a final block represents it
    # address -> owner of the block at this address at the end (see excerpt.pyx)
    Map64 owner
    Map64 named                   # addresses that a written alloc or free_completed names
    bint requests                 # whether a free_requested is written
    # number of written pairs whose free has the alloc's stack, and of other pairs
    uint64_t same, other
    uint64_t events               # number of the range's events that are written
    # number of allocations and carried-over blocks dropped for being too small
    uint64_t small
    int64_t small_bytes


cdef int excerpt_init(Excerpt* x, const Replay* r, const Held* h, const Arena* a,
                      const uint32_t* stacks, int64_t least, uint64_t seed) noexcept nogil
cdef void excerpt_free(Excerpt* x) noexcept nogil
cdef int excerpt_fill(Excerpt* x, const BlockMap* m, uint32_t small_kind,
                      uint32_t large_kind) noexcept nogil
