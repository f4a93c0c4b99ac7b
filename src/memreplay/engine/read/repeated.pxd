# An event dict that stands in the traces once more: a row of its own, with the same content.
from libc.stdint cimport uint32_t
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef int repeat_event(Tables* t, uint32_t trace, Value* event) noexcept nogil
