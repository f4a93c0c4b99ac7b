# 128-bit unsigned numbers, for sums that can't wrap.
from libc.stdint cimport uint64_t
from memreplay.engine.base.bits cimport product


cdef struct Wide:
    uint64_t low, high


cdef inline Wide wide_product(uint64_t a, uint64_t b) noexcept nogil:
    cdef Wide made
    made.low = product(a, b, &made.high)
    return made


cdef inline Wide wide_sum(Wide a, Wide b) noexcept nogil:
    cdef Wide made
    made.low = a.low + b.low
    made.high = a.high + b.high + (made.low < b.low)
    return made


cdef inline Wide wide_distance(Wide a, Wide b) noexcept nogil:
    # |a - b|
    cdef Wide made
    if wide_order(a, b) < 0:
        a, b = b, a
    made.low = a.low - b.low
    made.high = a.high - b.high - (a.low < b.low)
    return made


cdef inline int wide_order(Wide a, Wide b) noexcept nogil:
    # -1 if a < b, 1 if a > b, else 0.
    if a.high != b.high:
        return 1 if a.high > b.high else -1
    return (a.low > b.low) - (a.low < b.low)


cdef inline Wide wide_times(Wide a, uint64_t n) noexcept nogil:
    cdef Wide made = wide_product(a.low, n)
    made.high += a.high * n
    return made


cdef inline void add_wide(Wide* to, uint64_t n) noexcept nogil:
    to.low += n
    to.high += to.low < n


cdef inline void add_product(Wide* to, uint64_t a, uint64_t b) noexcept nogil:
    to[0] = wide_sum(to[0], wide_product(a, b))


cdef inline double wide_double(Wide n) noexcept nogil:
    return <double> n.high * 18446744073709551616.0 + <double> n.low


cdef inline object whole(Wide n):
    # Convert to a Python int.
    return n.high << <object> 64 | <object> n.low if n.high else n.low
