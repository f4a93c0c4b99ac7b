# Who blocks what is free: the blocks in use that keep free memory from being given back.
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.replay.blockmap cimport BlockMap
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys


cdef struct Blocker:
    # A group of blocks in use, and the free bytes that they keep from being given back.
    uint64_t bytes
    uint64_t alone        # the part that nothing else blocks
    uint64_t blocks, segments
    uint64_t name         # of the group, as in keying.Keys
    uint32_t seen         # the segment that was counted last, and one


cdef int blockmap_blockers(const BlockMap* m, Keys* keys, Buf* out) noexcept nogil
