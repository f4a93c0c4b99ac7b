# Segments and their blocks at one moment: what is in use, pending or free.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    uint32_t FREE_TILE "0xFFFFFFFFu"   # the owner of a free block

cdef enum TileState:
    TILE_FREE = 0
    TILE_IN_USE = 1
    TILE_PENDING = 2      # its free was requested and has not completed


cdef struct Tile:
    # A block. The tiles of a segment cover it without gaps.
    uint64_t address, size
    int64_t requested     # 0 of a free block
    uint32_t owner        # alloc event, CARRIED block, or FREE_TILE
    uint32_t stack        # of who allocated it
    uint32_t segment
    uint32_t state        # TileState


cdef struct Sums:
    uint64_t size         # reserved
    uint64_t in_use, pending, free
    uint64_t requested    # of what is in use or pending
    uint64_t largest      # the largest free block
    uint64_t returnable   # what empty_cache() gives back, as far as the pool allows it
    uint64_t returned_free  # the part of it that is free now, and not pending
    uint64_t blocks_in_use, blocks_pending, blocks_free
    uint64_t segments
    uint64_t unused       # segments without a block that is in use


cdef struct Mapped:
    # A segment, or, of an expandable one, a mapped range without holes.
    uint64_t address, stream
    uint32_t pool         # pair id, or NONE32
    uint32_t first, tiles
    bint small
    bint expandable
    bint default_pool     # nobody has to release it before empty_cache() may
    Sums sums


cdef struct Share:
    # What all segments of one pool, stream and kind have.
    uint64_t stream
    uint32_t pool
    bint small
    bint default_pool
    Sums sums


cdef struct Request:
    # What was asked for, and of which segments it may be served.
    uint64_t size
    uint64_t stream
    uint64_t max_split
    uint32_t pool
    bint small
    bint default_pool


cdef struct FreeParts:
    # Every free byte by why it does not serve a request, and the largest block of each kind.
    uint64_t fits, fits_largest
    uint64_t too_small, too_small_largest
    uint64_t split_limit, split_limit_largest
    uint64_t other_stream, other_stream_largest
    uint64_t other_kind, other_kind_largest      # of the same pool: small for large, or so
    uint64_t other_pool, other_pool_largest
    uint64_t pending          # of its own pool, stream and kind: not free
    uint64_t pending_elsewhere
    uint64_t run              # the longest run of free and pending blocks there
    uint64_t split_open       # the part of too_small in segments larger than a large one's least


cdef struct BlockMap:
    const Arena* arena
    Buf tiles             # Tile, by segment and address
    Buf segments          # Mapped, by address
    Buf shares            # Share, by pool, stream and kind
    Buf order             # u32: segments, the one with the most free bytes first
    Sums sums
    uint64_t outside, outside_blocks    # of blocks that lie in no segment, or in another block
    uint64_t returnable, returned_free  # by empty_cache(): of default pools
    uint64_t private_returnable, private_free   # of private pools, if they were released
    uint64_t blocked      # free bytes that cannot be given back


cdef struct Unit:
    # What is given back as one.
    uint64_t start, end
    uint64_t free
    uint64_t in_use       # blocks that reach into it
    uint32_t first, stop  # its tiles; those at its ends may reach beyond


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
