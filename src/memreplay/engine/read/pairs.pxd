# Set a dict's keys that have plain values, without the value stack.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.read.value cimport V_ANNOTATION, V_BLOCK, V_FRAME, V_HIST, V_SEGMENT
from memreplay.engine.read.vm cimport VM

cdef enum:
    MOST_PAIRS = 32
    PAIRS_ROOM = 1024   # the size of these pairs, up to 16 bytes each, and of the next value


cdef inline bint has_pairs(uint32_t kind) noexcept nogil:
    # Whether set_pairs() supports this kind of dict.
    return (kind == V_BLOCK or kind == V_FRAME or kind == V_SEGMENT or kind == V_HIST
            or kind == V_ANNOTATION)

cdef const uint8_t* set_pairs(VM* vm, const uint8_t* at) noexcept nogil
