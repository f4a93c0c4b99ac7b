# Find allocations that an optimizer's step both makes and frees.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay

cdef enum FrameMark:     # bits per frame
    OF_OPTIMIZER = 1     # runs an optimizer's step
    OF_PROGRAM = 2       # a forward or backward pass, or a closure

cdef enum End:
    ANYWHERE = 0
    IN_STEP = 1          # freed within the optimizer's step that allocated it
    # allocated by program code that the optimizer's step called; freed anywhere
    CALLED_BACK = 2


cdef struct Passing:
    const Replay* replay
    const uint8_t* mark      # FrameMark bits per frame
    bint frees_have_stacks          # whether frees have their own stacks
    Buf of_event             # u32 per event: an End
    Buf of_carried           # u32 per carried-over block
    Buf of_stack             # u8 per stack: StackBit of passing.pyx


cdef void passing_init(Passing* p, const Replay* r) noexcept nogil
cdef void passing_free(Passing* p) noexcept nogil
cdef int passing_find(Passing* p) noexcept nogil
