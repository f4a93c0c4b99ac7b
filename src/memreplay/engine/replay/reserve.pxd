# The allocator's segments over time: those at the start, and what each segment event adds.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.interned cimport interned
from memreplay.engine.read.tables cimport Segment, Tables
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT
from memreplay.engine.base.status cimport Status

cdef enum:
    LARGE_HANDLE = 20 << 20   # what it maps large expandable segments by; small ones: SMALL_SEGMENT


cdef struct Region:
    # Addresses that were reserved when the first event came: a segment, or, of an expandable one, a
    # mapped range without holes.
    uint64_t start, end
    uint64_t stream
    uint32_t pool        # pair id, or NONE32
    bint small
    bint expandable
    bint recorded        # it has a stack: some recording was on when it was made


cdef struct Piece:
    # Addresses that are reserved at some moment, all brought by the same.
    uint64_t start, end
    uint64_t stream
    uint32_t source      # index in regions, or, behind those, of the segment event among events
    bint small
    bint expandable


cdef struct Untold:
    # Carried blocks that are live at the end, and final segments that no event made. Those with a
    # stack were recorded, so their events are missing.
    uint64_t blocks, recorded_blocks
    uint64_t segments, recorded_segments


cdef struct Reserve:
    Status status
    Buf events          # u32: segment events, by index
    Buf pools           # u32 each: the pair id of its pool, its own or its segment's, or NONE32
    Buf regions         # Region, by address
    int64_t start_bytes
    int64_t end_bytes   # after the last event
    int64_t final_bytes     # of the file's segments
    uint64_t misfits    # bytes of which the last event and the final segments say different things
    uint64_t odd        # segment events that cannot be: no size, or past the end of the addresses


cdef int reserve_init(Reserve* v, const Replay* r) noexcept nogil
cdef void reserve_free(Reserve* v) noexcept nogil
cdef void reserve_usage(const Reserve* v, const Replay* r, int64_t* out) noexcept nogil
cdef int reserve_untold(const Reserve* v, const Replay* r, uint64_t seed,
                        Untold* out) noexcept nogil
cdef int reserve_pieces(const Reserve* v, const Replay* r, int64_t event,
                        Buf* out) noexcept nogil


cdef inline bint is_small(const Tables* t, const Segment* s) noexcept nogil:
    cdef size_t n = 0
    cdef const uint8_t* name = interned(&t.strings, s.kind, &n)
    if n == 0:
        return s.total_size == SMALL_SEGMENT
    return n == 5 and memcmp(name, "small", 5) == 0
