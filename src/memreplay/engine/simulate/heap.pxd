# What an allocator holds, and what it asks of the driver.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.replay.sizes cimport SMALL_SEGMENT, Rules
from memreplay.engine.simulate.driver cimport Driver
from memreplay.engine.simulate.ordered cimport Chunks, Ordered, Place

cdef enum BlockState:
    NO_BLOCK       # not in use
    FREE_BLOCK
    USED_BLOCK
    PENDING_BLOCK  # its free was requested, and waits for a stream
    UNMAPPED       # addresses of an expandable segment that nothing is behind

cdef extern from *:
    const uint64_t NO_EVENT "UINT64_MAX"         # before the first
    const int64_t NO_TOTAL "(INT64_C(1) << 62)"  # more than any driver has

cdef enum:
    NO_MEMORY = -1   # this process's own: an error
    DONE_OK = 0


cdef struct SimBlock:
    uint64_t address, size
    int64_t requested
    uint64_t born        # lookups of its pool when it became free; garbage collection asks
    uint32_t prev, next  # NONE32 at the ends of its segment
    uint32_t shelf
    uint32_t segment
    uint32_t owner       # whose it is: a number of the caller's
    uint32_t earlier, later   # of pending ones, in the order of their requests
    uint8_t state


cdef struct SimSegment:
    uint32_t span        # of the driver's
    uint32_t first       # its first block; NONE32: it is gone
    uint64_t handle      # what it is mapped by; 0: it is not expandable
    uint64_t made_at     # the event that made it


cdef struct Shelf:
    # What serves the requests of one pool and stream, small ones or large ones.
    uint64_t stream
    uint32_t pool        # index in pools
    bint small
    uint32_t loose       # its free blocks of which something may be given back
    Ordered free
    Ordered unmapped     # by address: their size counts as 0


cdef struct SimPool:
    uint32_t id          # pair id
    bint private_pool
    bint released        # nobody needs it: what is cached of it may be given back
    uint64_t lookups[2]  # of large blocks, and of small ones


cdef struct SegmentEvent:
    uint64_t at          # the event that is being replayed
    uint64_t address, size
    uint32_t shelf
    uint8_t action


cdef struct TraceEvent:
    # An event as a recording of the simulation would have it.
    uint64_t at          # the event that is being replayed: its time
    uint64_t stack       # and the one whose stack it has
    uint64_t address     # of an oom what the driver has left
    int64_t size
    uint64_t stream
    uint32_t pool        # pair id; NONE32 for the default pool
    uint8_t action


cdef struct Limits:
    int64_t total        # bytes that the driver has for this process; none when it is negative
    int64_t allowed      # what per_process_memory_fraction leaves of it; none when negative
    int64_t collect_from  # garbage_collection_threshold in bytes; none when negative
    uint64_t space       # addresses of an expandable segment
    bint reuses          # whether the driver gives addresses again that it got back


cdef struct Allocator:
    Rules rules
    Limits limits
    Driver driver
    Chunks chunks
    Buf blocks           # SimBlock
    Buf spare            # u32: of those, which are not in use
    Buf segments         # SimSegment
    Buf shelves          # Shelf
    Buf pools            # SimPool
    Buf loose            # u32: shelves that have such blocks, by pool, kind and stream
    Map64 shelf_of       # pool << 33 | small << 32 | number of the stream -> shelf
    Map64 streams        # a stream's number
    Map64 pool_of        # a pool's number
    Buf log              # SegmentEvent
    bint keeps_log
    Buf trace            # TraceEvent
    bint keeps_trace
    uint64_t at          # what is being replayed
    uint64_t stack       # the event whose stack is that of what is done
    uint32_t first_pending, last_pending
    uint64_t last_key    # the shelf that was asked last
    uint32_t last_shelf
    int64_t reserved, reserved_peak
    int64_t requested, requested_peak
    int64_t active, active_peak
    int64_t reserved_peak_at, active_peak_at, requested_peak_at   # -1: before the first event
    uint64_t driver_allocs, driver_frees, retries
    uint64_t waited_for  # frees that were pending when a request waited for all streams


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
cdef int tell(Allocator* a, uint8_t action, uint64_t address, int64_t size,
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
    # What a new expandable segment is mapped by.
    return SMALL_SEGMENT if shelf_at(a, shelf).small else <uint64_t> a.rules.large_segment


cdef inline bint is_whole(const Allocator* a, uint32_t i) noexcept nogil:
    # Whether a block is a segment by itself.
    return block_at(a, i).prev == NONE32 and block_at(a, i).next == NONE32
