# Segments at one moment, and their blocks: in use, pending or free.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    uint32_t FREE_TILE "0xFFFFFFFFu"   # owner of a free block

cdef enum TileState:
    TILE_FREE = 0
    TILE_IN_USE = 1
    TILE_PENDING = 2      # its free was requested but hasn't completed


cdef struct Tile:
    # A block. A segment's tiles cover it without gaps.
    uint64_t address, size
    int64_t requested     # 0 for a free block
    uint32_t owner        # alloc event, CARRIED | block, or FREE_TILE
    uint32_t stack        # of its allocation
    uint32_t segment
    uint32_t state        # TileState


cdef struct Sums:
    uint64_t size         # reserved
    uint64_t in_use, pending, free
    uint64_t requested    # bytes in blocks that are in use or pending
    uint64_t largest      # the largest free block
    uint64_t returnable   # bytes that empty_cache() returns if the pool allows it
    uint64_t returned_free  # the part of `returnable` that is free rather than pending
    uint64_t blocks_in_use, blocks_pending, blocks_free
    uint64_t segments
    uint64_t unused       # segments without a block in use


cdef struct Mapped:
    # A segment, or a contiguous mapped range of an expandable segment.
    uint64_t address, stream
    uint32_t pool         # pair id, or NONE32
    uint32_t first, tiles
    bint small
    bint expandable
    bint default_pool     # empty_cache() may release this even if the pool is still in use
    Sums sums


cdef struct Share:
    # Sums over all segments with the same pool, stream and kind.
    uint64_t stream
    uint32_t pool
    bint small
    bint default_pool
    Sums sums


cdef struct Request:
    # A request, and the segments that may serve it.
    uint64_t size
    uint64_t stream
    uint64_t max_split
    uint32_t pool
    bint small
    bint default_pool


cdef struct FreeParts:
    # Free bytes, grouped by the reason why they can't serve a request, and each reason's largest
    # block.
    uint64_t fits, fits_largest
    uint64_t too_small, too_small_largest
    uint64_t split_limit, split_limit_largest
    uint64_t other_stream, other_stream_largest
    # in the same pool, but small instead of large or vice versa
    uint64_t other_kind, other_kind_largest
    uint64_t other_pool, other_pool_largest
    uint64_t pending          # in the request's pool, stream and kind, but not free yet
    uint64_t pending_elsewhere
    # longest run of free and pending blocks in the request's pool, stream and kind
    uint64_t run
    uint64_t split_open       # part of too_small, in segments above the smallest large size


cdef struct BlockMap:
    const Arena* arena
    Buf tiles             # Tile, by segment and address
    Buf segments          # Mapped, by address
    Buf shares            # Share, by pool, stream and kind
    Buf order             # u32: segments by free bytes, most first
    Sums sums
    uint64_t outside, outside_blocks    # blocks that are in no segment, or inside another block
    uint64_t returnable, returned_free  # bytes that empty_cache() returns from default pools
    # bytes that empty_cache() would return from released private pools
    uint64_t private_returnable, private_free
    uint64_t blocked      # free bytes that can't be returned


cdef struct Unit:
    # A range that the allocator can only return as a whole.
    uint64_t start, end
    uint64_t free
    uint64_t in_use       # number of blocks in use that overlap the unit
    uint32_t first, stop  # the unit's tiles; the first and last may extend beyond the unit


cdef inline Tile* tiles_of(const BlockMap* m) noexcept nogil:
    return <Tile*> m.tiles.data


cdef inline Mapped* segments_of(const BlockMap* m) noexcept nogil:
    return <Mapped*> m.segments.data


cdef void blockmap_init(BlockMap* m, const Arena* a) noexcept nogil
cdef void blockmap_free(BlockMap* m) noexcept nogil
cdef int blockmap_fill(BlockMap* m, int64_t event, const uint32_t* held_end,
                       const uint32_t* held_base_end, const uint32_t* allocs, uint64_t n_allocs,
                       const uint32_t* blocks, uint64_t n_blocks, uint32_t default_pool,
                       bint unknown_is_default) noexcept nogil
cdef bint next_unit(const BlockMap* m, const Mapped* s, Unit* u) noexcept nogil
cdef void blockmap_judge(const BlockMap* m, const Request* q, FreeParts* out) noexcept nogil
cdef void blockmap_bar(const BlockMap* m, uint64_t segment, uint64_t cells,
                       uint8_t* out) noexcept nogil
cdef void unused_series(const Replay* r, const int64_t* reserved, const int64_t* active,
                        int64_t start, int64_t* out) noexcept nogil
