# Replay the allocator's blocks to find each allocation's block size and pool.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.base.slim cimport Slim
from memreplay.engine.replay.idle cimport Idle
from memreplay.engine.replay.lives cimport Weights
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.replay.reserve cimport Reserve
from memreplay.engine.replay.sizes cimport Rules
from memreplay.engine.base.status cimport Status

cdef struct ArenaNode:
    # A block, in use or free. A segment (or mapped range) is covered without gaps by its list of
    # blocks.
    uint64_t address
    uint64_t size              # 0: unused node
    uint32_t prev, next        # NONE32 at the ends
    uint32_t owner             # alloc event, CARRIED | block, or FREE_NODE
    uint32_t origin            # index into origins


cdef struct Origin:
    # Properties that all blocks in a segment share. The first origins are those of reserve.regions.
    uint64_t stream
    uint32_t pool              # pair id, or NONE32
    uint32_t same              # another origin for the same segment; itself at the end of the chain
    bint small
    bint expandable


cdef struct Arena:
    const Replay* replay
    const Reserve* reserve
    Rules rules
    Status status
    Buf nodes
    Buf spare                  # u32, unused nodes
    Buf origins
    Map64 at                   # address -> node that begins there, if still valid
    Map64 ends                 # end -> last node of an expandable range, if still valid
    Buf order                  # u32: carried-over blocks, by address
    Weights weights            # block size of each alloc
    Slim pool                  # per event: pair id of its pool, or NONE32
    # u32 per event, only during the replay: pair id of its pool, or OF_ORIGIN | origin
    Buf event_pools
    Buf carried_bytes          # i64 per carried-over block
    Buf carried_origin         # u32 per carried-over block: index into origins, or NONE32
    Buf doubtful               # u8 per carried-over block: whether its size is assumed
    # u8 per stack, or empty: whether its allocs have block sizes, not requested sizes
    Buf synthetic
    uint64_t next_segment      # index into reserve.events
    uint64_t budget, looks     # remaining steps of searches
    uint64_t proven, assumed   # blocks whose size is proven by addresses, and all others
    uint64_t misplaced         # allocations and segment events that contradict the blocks
    uint64_t outside           # the part of `misplaced` that indicates missing segment events
    Buf empty                  # u32: regions that were empty at the start
    Idle idle                  # regions that are still empty
    # whether memory was requested from or returned to the driver since the last alloc
    bint called_driver, released
    uint64_t end_blocks        # blocks in the final segments
    uint64_t end_misfits       # blocks at the end that differ from the final segments
    uint64_t end_strangers     # the part of `end_misfits` that is in use on only one side


cdef int arena_init(Arena* a, const Replay* r, const Reserve* v, const Rules* rules,
                    uint64_t seed) noexcept nogil
cdef void arena_free(Arena* a) noexcept nogil
