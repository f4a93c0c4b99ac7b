# Detect the events that CUDA graph trees make when they restore a pool's checkpoint.
from libc.stdint cimport uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef int mark_synthetic(const Replay* r, Buf* stacks) noexcept nogil
cdef uint64_t count_synthetic(const Replay* r, const Buf* stacks) noexcept nogil
