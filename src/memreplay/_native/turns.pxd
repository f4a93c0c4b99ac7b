# Where an optimizer worked, by the stacks of what it allocated and what it gave back.
from libc.stdint cimport uint32_t
from memreplay._native.growbuf cimport Buf
from memreplay._native.replay cimport Replay

cdef int find_turns(const Replay* r, bint zeroed, Buf* at) noexcept nogil
