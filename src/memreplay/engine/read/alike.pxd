# Read events that are written like an event before them.
from libc.stdint cimport uint8_t, uint32_t
from memreplay.engine.read.vm cimport VM

cdef int alike_events(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil
cdef bint alike_begin(VM* vm) noexcept nogil
cdef void alike_note(VM* vm, uint32_t key, const uint8_t* at, const uint8_t* stop,
                     uint32_t entry) noexcept nogil
cdef void alike_end(VM* vm) noexcept nogil
