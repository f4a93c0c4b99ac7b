# Which allocations of an optimizer's step are gone when the step ends.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay


cdef struct Passing:
    const Replay* replay
    const uint8_t* mark      # a byte a frame: whether an optimizer's step runs in it
    bint frees_tell          # whether frees have stacks of their own
    Buf of_event             # u32 an event: 1 for an allocation that goes in its step
    Buf of_stack             # u8 a stack: bits of passing.pyx


cdef void passing_init(Passing* p, const Replay* r) noexcept nogil
cdef void passing_free(Passing* p) noexcept nogil
cdef int passing_find(Passing* p) noexcept nogil
