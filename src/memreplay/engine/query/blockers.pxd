# Find the blocks in use that prevent free memory from being returned to the driver.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.replay.blockmap cimport BlockMap
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys


cdef struct Blocker:
    # A group of blocks in use, and the free bytes that it prevents from being returned.
    uint64_t bytes
    uint64_t alone        # bytes that no other group blocks
    uint64_t blocks, segments
    uint64_t name         # the group's name, as in keying.Keys
    uint32_t seen         # 1 + the segment that was counted last


cdef int blockmap_blockers(const BlockMap* m, Keys* keys, Buf* out) noexcept nogil
