# Stacks with some of their frames left out.
from libc.stdint cimport uint8_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.read.tables cimport Tables


cdef struct Stripped:
    Spans stacks       # the frame ids of each that is left; 0 is the empty one
    Buf ids            # u32: a stack of the file -> of `stacks`


cdef int stripped_init(Stripped* s, const Tables* t, const uint8_t* drop,
                       uint64_t seed) noexcept nogil
cdef void stripped_free(Stripped* s) noexcept nogil
