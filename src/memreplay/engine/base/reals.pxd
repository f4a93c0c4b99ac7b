# Read and write floats as Python and JSON do, in any locale.
from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    REAL_LIMIT = 60     # maximum length of a number; Python writes at most 24 characters

cdef bint is_real(const uint8_t* p, uint64_t n, bint of_json) noexcept nogil
cdef bint is_json_name(const uint8_t* p, uint64_t n) noexcept nogil
cdef bint is_named_real(const uint8_t* p, uint64_t n) noexcept nogil
cdef double real_of(const uint8_t* p, uint64_t n) noexcept nogil
cdef void put_real(char* out, double real) noexcept nogil
