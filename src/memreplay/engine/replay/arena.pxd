# The allocator's blocks over time: how large the block of each allocation was, and in which pool.
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
    # A block, in use or free; a piece of a list that covers a segment or mapped range without gaps.
    uint64_t address
    uint64_t size              # 0: this node is not in use
    uint32_t prev, next        # NONE32 at the ends
    uint32_t owner             # alloc event, CARRIED block, or FREE_NODE
    uint32_t origin            # index in origins


cdef struct Origin:
    # What is the same for all blocks of a segment. The first ones are those of reserve.regions.
    uint64_t stream
    uint32_t pool              # pair id, or NONE32
    uint32_t same              # an origin of the same segment; itself at the last of a chain
    bint small
    bint expandable


cdef struct Arena:
    const Replay* replay
    const Reserve* reserve
    Rules rules
    Status status
    Buf nodes
    Buf spare                  # u32: nodes not in use
    Buf origins
    Map64 at                   # address -> the node that begins there, if it still does
    Map64 ends                 # end -> the last node of an expandable range, if it still is
    Buf order                  # u32: carried blocks by address
    Weights weights            # of each alloc the size of its block
    Slim pool                  # an event: pair id of its pool, or NONE32
    Buf told                   # u32 an event: the same, or OF_ORIGIN, while events are replayed
    Buf carried_bytes          # i64 a carried block
    Buf carried_origin         # u32 a carried block: index in origins, or NONE32
    Buf doubtful               # u8 a carried block: its size is assumed
    Buf synthetic              # u8 a stack, or empty: its allocs carry sizes of blocks
    uint64_t next_segment      # index in reserve.events
    uint64_t budget, looks     # steps that searches may still take
    uint64_t proven, assumed   # blocks whose size follows from addresses, and others
    uint64_t misplaced         # allocations and segment events that do not fit what is there
    uint64_t outside           # of them, those that tell of segment events that are missing
    Buf empty                  # u32: regions that nothing was live in at the start
    Idle idle                  # the same, as long as they stay so
    bint asked, gave           # since the last alloc: for memory from the driver, back to it
    uint64_t end_blocks        # blocks in the final segments
    uint64_t end_misfits       # blocks at the end that differ from those of the final segments
    uint64_t end_strangers     # of them, those that are in use in one of the two alone


cdef int arena_init(Arena* a, const Replay* r, const Reserve* v, const Rules* rules,
                    uint64_t seed) noexcept nogil
cdef void arena_free(Arena* a) noexcept nogil
