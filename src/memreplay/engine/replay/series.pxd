# Compute the extremes, mean, separate maxima, buckets and ranges of a series of bytes.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf


cdef struct Extremes:
    int64_t peak, minimum      # including the start
    int64_t peak_at, minimum_at    # first event after which it is reached; -1: the start
    int64_t end
    bint timed                 # whether there are enough times to compute a mean
    double mean                # weighted by the duration of each value


cdef struct Bucket:
    int64_t first      # the bucket's first event; if there is none, the last event before it
    uint64_t events
    int64_t low, high
    int64_t high_at    # first event after which it is reached; -1: the start


cdef struct Range:
    int64_t low, high
    # first event after which the maximum is reached; in a range without events, the previous event
    int64_t high_at


cdef struct Maximum:
    int64_t bytes
    int64_t at


cdef void series_extremes(const int64_t* usage, uint64_t n, int64_t start, const int64_t* times,
                          int64_t absent, Extremes* out) noexcept nogil
cdef int series_maxima(const int64_t* usage, uint64_t n, int64_t start, uint64_t drop,
                       Buf* out) noexcept nogil
cdef bint series_never_falls(const int64_t* values, uint64_t n) noexcept nogil
cdef void series_highest_so_far(const int64_t* values, uint64_t n, int64_t* out) noexcept nogil
cdef void series_buckets(const int64_t* usage, uint64_t n, int64_t start, const int64_t* clock,
                         int64_t origin, uint64_t whole, uint64_t parts,
                         Bucket* out) noexcept nogil
cdef int64_t series_ranges(const int64_t* usage, uint64_t n, int64_t start, const int64_t* bounds,
                           uint64_t ranges, Range* out) noexcept nogil
