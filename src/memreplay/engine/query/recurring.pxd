# Find the previous occurrence of each number.
from libc.stdint cimport uint32_t, uint64_t

cdef int rows_back(const uint64_t* numbers, uint64_t n, uint64_t seed, uint32_t* out) noexcept nogil
