# Choose the frame that a stack is attributed to.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.replay.replay cimport Replay

cdef enum:
    # highest rank of code (0: the user's, 1: a library's); higher ranks are plumbing
    CODE = 1
    NODE = 2        # ranks of autograd nodes and operators; their outermost frame is chosen
    OPERATOR = 3    # (the same numbers as in plumbing.py)


cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil
