# Encode columns for the page: differences, zigzag, byte planes.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from memreplay.engine.query.vectors cimport View


cdef struct Values:
    # The numbers to encode: `values`, minus `less` if that has rows, or the differences of that.
    View values
    View less
    bint differences


cdef uint64_t highest(const Values* v) noexcept nogil
cdef void split(const Values* v, int width, uint8_t* out) noexcept nogil
