# Copy an event dict into a new row if it occurs in the traces a second time.
from libc.stdint cimport uint32_t
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef int repeat_event(Tables* t, uint32_t trace, Value* event) noexcept nogil
