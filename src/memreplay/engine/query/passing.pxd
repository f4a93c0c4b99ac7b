# Which allocations of an optimizer's step are gone when the step ends.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef enum FrameMark:     # bits of a frame
    OF_OPTIMIZER = 1     # an optimizer's step runs in it
    OF_PROGRAM = 2       # a forward or backward pass, or a closure

cdef enum End:
    ANYWHERE = 0
    IN_STEP = 1          # in the step of the optimizer that made it
    CALLED_BACK = 2      # anywhere; the optimizer's step called the program, which made it


cdef struct Passing:
    const Replay* replay
    const uint8_t* mark      # FrameMark bits a frame
    bint frees_tell          # whether frees have stacks of their own
    Buf of_event             # u32 an event: an End
    Buf of_carried           # u32 a carried block
    Buf of_stack             # u8 a stack: bits of passing.pyx


cdef void passing_init(Passing* p, const Replay* r) noexcept nogil
cdef void passing_free(Passing* p) noexcept nogil
cdef int passing_find(Passing* p) noexcept nogil
