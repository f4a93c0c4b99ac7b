# What a stack is put down to: one of its frames.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.replay.replay cimport Replay

cdef enum:
    CODE = 1    # the highest rank of code: 0 is the user's, 1 a library's; above it is plumbing
    NODE = 2        # a node of autograd, and an operator: of these the outermost frame counts
    OPERATOR = 3    # (plumbing.py has the same numbers)


cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil
