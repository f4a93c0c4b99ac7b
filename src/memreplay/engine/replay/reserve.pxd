# The allocator's segments over time: the segments at the start, and the changes made by segment
# events.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.interned cimport interned
from memreplay.engine.read.tables cimport Segment, Tables
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT
from memreplay.engine.base.status cimport Status

cdef enum:
    # bytes per handle in large expandable segments; in small ones, SMALL_SEGMENT
    LARGE_HANDLE = 20 << 20


cdef struct Region:
    # Addresses reserved before the first event: a segment, or a contiguous mapped range of an
    # expandable segment.
    uint64_t start, end
    uint64_t stream
    uint32_t pool        # pair id, or NONE32
    bint small
    bint expandable
    bint recorded        # has a stack, so it was created while recording


cdef struct ReservedRange:
    # Addresses that are reserved at a moment and have the same source.
    uint64_t start, end
    uint64_t stream
    uint32_t source      # index into the list of regions, then segment events
    bint small
    bint expandable


cdef struct Unexplained:
    # Numbers of carried-over blocks that are live at the end, and of final segments that no event
    # created. Blocks and segments with a stack were recorded, so their events are missing.
    uint64_t blocks, recorded_blocks
    uint64_t segments, recorded_segments
    int64_t bytes, recorded_bytes       # bytes that the blocks requested


cdef struct Reserve:
    Status status
    Buf events          # u32: indices of segment events
    # u32 per segment event: pair id of the event's pool or its segment's, or NONE32
    Buf pools
    Buf regions         # Region, by address
    int64_t start_bytes
    int64_t end_bytes   # after the last event
    int64_t final_bytes     # in the final segments
    uint64_t misfits    # bytes on which the last event and the final segments disagree
    # segment events that are impossible: without a size, or past the address space
    uint64_t impossible_events


cdef int reserve_init(Reserve* v, const Replay* r) noexcept nogil
cdef void reserve_free(Reserve* v) noexcept nogil
cdef void reserve_usage(const Reserve* v, const Replay* r, int64_t* out) noexcept nogil
cdef int reserve_unexplained(const Reserve* v, const Replay* r, uint64_t seed,
                             Unexplained* out) noexcept nogil
cdef int reserve_ranges(const Reserve* v, const Replay* r, int64_t event,
                        Buf* out) noexcept nogil


cdef inline bint is_small(const Tables* t, const Segment* s) noexcept nogil:
    cdef size_t n = 0
    cdef const uint8_t* name = interned(&t.strings, s.kind, &n)
    if n == 0:
        return s.total_size == SMALL_SEGMENT
    return n == 5 and memcmp(name, "small", 5) == 0
