# Read a trace through a range: record the effects of the events outside the range.
from libc.stdint cimport int32_t
from memreplay.engine.read.tables cimport Event, Tables, Window

cdef Window* window_new(const Tables* t, int32_t device) noexcept nogil
cdef void window_free(Window* w) noexcept nogil
cdef int window_event(Tables* t, Window* w, const Event* e) noexcept nogil
