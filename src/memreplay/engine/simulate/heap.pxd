# An allocator's state and its calls to the driver.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT, Rules
from memreplay.engine.simulate.driver cimport Driver
from memreplay.engine.simulate.ordered cimport Chunks, Ordered, Place

cdef enum BlockState:
    NO_BLOCK       # unused entry
    FREE_BLOCK
    USED_BLOCK
    PENDING_BLOCK  # its free was requested and waits for a stream
    UNMAPPED       # unmapped addresses of an expandable segment

cdef extern from *:
    const uint64_t NO_EVENT "UINT64_MAX"         # before the first event
    const int64_t NO_TOTAL "(INT64_C(1) << 62)"  # more than any driver has

cdef enum:
    NO_MEMORY = -1   # an error: this process itself ran out of memory
    DONE_OK = 0


cdef struct SimBlock:
    uint64_t address, size
    int64_t requested
    # value of the pool's lookup counter when the block became free, for garbage collection
    uint64_t born
    uint32_t prev, next  # NONE32 at the ends of the segment
    uint32_t shelf
    uint32_t segment
    uint32_t owner       # a number chosen by the caller
    uint32_t earlier, later   # links between pending blocks, in the order of their free requests
    uint8_t state


cdef struct SimSegment:
    uint32_t span        # the segment's addresses in the driver
    uint32_t first       # the segment's first block; NONE32: released
    uint64_t handle      # bytes mapped at a time; 0 if the segment isn't expandable
    uint64_t created_at     # the event that created it


cdef struct Shelf:
    # The free blocks of one pool, stream and kind (small or large requests).
    uint64_t stream
    uint32_t pool        # index into pools
    bint small
    uint32_t loose       # number of free blocks of which at least a part can be returned
    Ordered free
    Ordered unmapped     # sorted by address; in these keys, the size is 0


cdef struct SimPool:
    uint32_t id          # pair id
    bint private_pool
    bint released        # no longer in use, so its cached memory may be returned
    uint64_t lookups[2]  # number of lookups: of large blocks, and of small blocks


cdef struct SegmentEvent:
    uint64_t at          # the event being replayed
    uint64_t address, size
    uint32_t shelf
    uint8_t action


cdef struct TraceEvent:
    # An event that would be in a recording of the simulation.
    uint64_t at          # the recorded event from which the time is taken
    uint64_t stack       # the recorded event from which the stack is taken
    uint64_t address     # for an oom: the driver's free memory
    int64_t size
    uint64_t stream
    uint32_t pool        # pair id; NONE32 for the default pool
    uint8_t action


cdef struct Limits:
    int64_t total        # memory that the driver has for this process; negative: unlimited
    int64_t allowed      # limit set by per_process_memory_fraction; negative: none
    int64_t collect_from  # garbage_collection_threshold in bytes; negative: none
    uint64_t space       # address space of an expandable segment
    bint reuses          # whether the driver reuses addresses


cdef struct Allocator:
    Rules rules
    Limits limits
    Driver driver
    Chunks chunks
    Buf blocks           # SimBlock
    Buf spare            # u32, unused blocks
    Buf segments         # SimSegment
    Buf shelves          # Shelf
    Buf pools            # SimPool
    Buf loose            # u32: shelves with loose blocks, by pool, kind and stream
    Map64 shelf_of       # pool << 33 | small << 32 | stream number -> shelf
    Map64 streams        # stream -> stream number
    Map64 pool_of        # pool id -> pool number
    Buf log              # SegmentEvent
    bint keeps_log
    Buf trace            # TraceEvent
    bint keeps_trace
    uint64_t at          # the event being replayed
    uint64_t stack       # the event whose stack is used
    uint32_t first_pending, last_pending
    uint64_t last_key    # key of the shelf that was looked up last
    uint32_t last_shelf
    int64_t reserved, reserved_peak
    int64_t requested, requested_peak
    int64_t active, active_peak
    int64_t reserved_peak_at, active_peak_at, requested_peak_at   # -1: before the first event
    uint64_t driver_allocs, driver_frees, retries
    uint64_t waited_for  # number of frees that requests waited for


cdef int heap_init(Allocator* a, const Rules* rules, const Limits* limits, uint64_t base,
                   uint64_t seed) noexcept nogil
cdef void heap_free(Allocator* a) noexcept nogil
cdef uint64_t mapped_ranges(const Allocator* a) noexcept nogil
cdef uint32_t pool_number(Allocator* a, uint32_t id, bint private_pool) noexcept nogil
cdef uint32_t rank(const Allocator* a, const Shelf* s) noexcept nogil
cdef uint32_t shelf_for(Allocator* a, uint64_t stream, uint32_t pool_id, bint private_pool,
                        bint small) noexcept nogil
cdef int shelve(Allocator* a, uint32_t i) noexcept nogil
cdef int unshelve(Allocator* a, uint32_t i) noexcept nogil
cdef int unshelve_at(Allocator* a, uint32_t i, Place place) noexcept nogil
cdef int join(Allocator* a, uint32_t i) noexcept nogil
cdef int cut(Allocator* a, uint32_t i, uint64_t size) noexcept nogil
cdef int add_trace_event(Allocator* a, uint8_t action, uint64_t address, int64_t size,
                         uint32_t shelf) noexcept nogil
cdef int note(Allocator* a, uint8_t action, uint64_t address, uint64_t size,
              uint32_t shelf) noexcept nogil
cdef uint32_t add_segment(Allocator* a, uint32_t span, uint64_t size, uint32_t shelf,
                          uint64_t handle, uint8_t state) noexcept nogil
cdef int give_back(Allocator* a, uint32_t i) noexcept nogil
cdef int map_block(Allocator* a, uint32_t i, uint64_t size, bint* mapped) noexcept nogil
cdef int unmap_block(Allocator* a, uint32_t i) noexcept nogil


cdef inline SimBlock* block_at(const Allocator* a, uint32_t i) noexcept nogil:
    return <SimBlock*> a.blocks.data + i


cdef inline Shelf* shelf_at(const Allocator* a, uint32_t i) noexcept nogil:
    return <Shelf*> a.shelves.data + i


cdef inline SimSegment* segment_at(const Allocator* a, uint32_t i) noexcept nogil:
    return <SimSegment*> a.segments.data + i


cdef inline SimPool* pool_at(const Allocator* a, uint32_t i) noexcept nogil:
    return <SimPool*> a.pools.data + i


cdef inline bint can_expand(const Allocator* a, const SimBlock* b) noexcept nogil:
    return segment_at(a, b.segment).handle != 0


cdef inline uint64_t* lookups_of(const Allocator* a, uint32_t shelf) noexcept nogil:
    return &pool_at(a, shelf_at(a, shelf).pool).lookups[shelf_at(a, shelf).small]


cdef inline bint has_room(const Allocator* a, uint64_t size) noexcept nogil:
    cdef int64_t total = a.limits.total if a.limits.total >= 0 else NO_TOTAL
    return size <= <uint64_t> total and a.reserved <= total - <int64_t> size


cdef inline uint64_t handle_size(const Allocator* a, uint32_t shelf) noexcept nogil:
    # Return the number of bytes that a new expandable segment maps at a time.
    return SMALL_SEGMENT if shelf_at(a, shelf).small else <uint64_t> a.rules.large_segment


cdef inline bint is_whole(const Allocator* a, uint32_t i) noexcept nogil:
    # Whether a block is a whole segment.
    return block_at(a, i).prev == NONE32 and block_at(a, i).next == NONE32
