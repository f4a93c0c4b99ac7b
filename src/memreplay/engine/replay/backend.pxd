# Detect which backend's allocator wrote a file, from its final blocks and stacks.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from memreplay.engine.read.tables cimport Tables

cdef void count_rounding(const Tables* t, int64_t pad, uint64_t* plain,
                         uint64_t* padded) noexcept nogil
cdef bint names_file(const Tables* t, const uint8_t* part, size_t n) noexcept nogil
