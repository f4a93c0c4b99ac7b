# Stacks without some of their frames.
from libc.stdint cimport uint8_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.read.tables cimport Tables


cdef struct Stripped:
    Spans stacks       # frame ids of each remaining stack; stack 0 is empty
    Buf ids            # u32: for each stack in the file, its index in `stacks`


cdef int stripped_init(Stripped* s, const Tables* t, const uint8_t* drop,
                       uint64_t seed) noexcept nogil
cdef void stripped_free(Stripped* s) noexcept nogil
