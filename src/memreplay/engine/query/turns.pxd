# Find an optimizer's steps by the stacks of its allocations and frees.
from libc.stdint cimport int64_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef int find_optimizer_steps(const Replay* r, bint zeroed, Buf* at) noexcept nogil
cdef int64_t count_optimizers(const Replay* r) noexcept nogil
