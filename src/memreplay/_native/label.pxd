# What a stack is put down to: one of its frames.
from libc.stdint cimport uint8_t, uint32_t
from memreplay._native.replay cimport Replay


cdef uint32_t label_frame(const Replay* r, uint32_t stack, const uint8_t* file_rank,
                          const uint8_t* function_rank) noexcept nogil
