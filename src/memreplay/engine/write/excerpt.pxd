# What of one device goes into a slice of a snapshot.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.blockmap cimport BlockMap
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.replay cimport Replay


cdef struct Leading:
    # An event that is written before the range's own: it stands for what was live before them.
    uint64_t address, stream
    int64_t size
    uint32_t stack
    uint32_t pool         # pair id, or NONE32
    uint8_t action


cdef struct Excerpt:
    const Replay* replay
    const Held* held
    const Arena* arena            # for the stream and pool of carried blocks; NULL without a range
    const uint32_t* stacks        # id -> the id it is written as; NULL for the same
    int64_t least                 # smaller allocations are left out
    Buf keep                      # u8 an event: it is written
    Buf leading                   # Leading
    Buf segments                  # tables.Segment: those at the end; kind is a Kind
    Buf blocks                    # tables.Block: theirs, by segment
    Buf asked                     # u8 a carried block: the range requests its free
    Buf through                   # u8 a carried block: a final block stands for it
    Map64 owner                   # address -> whose block it is at the end: see excerpt.pyx
    Map64 named                   # the addresses that a written alloc or free_completed names
    bint requests                 # a free_requested is written
    uint64_t same, other          # written pairs whose free has the alloc's stack, and others
    uint64_t events               # that are written of the range's own
    uint64_t small                # allocations left out as too small, and the carried blocks'
    int64_t small_bytes


cdef int excerpt_init(Excerpt* x, const Replay* r, const Held* h, const Arena* a,
                      const uint32_t* stacks, int64_t least, uint64_t seed) noexcept nogil
cdef void excerpt_free(Excerpt* x) noexcept nogil
cdef int excerpt_fill(Excerpt* x, const BlockMap* m, uint32_t small_kind,
                      uint32_t large_kind) noexcept nogil
