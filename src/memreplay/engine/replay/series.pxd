# What a series of bytes over events says: highest, lowest, mean, separate maxima, buckets, ranges.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf


cdef struct Extremes:
    int64_t peak, minimum      # the start included
    int64_t peak_at, minimum_at    # the first event after which it is reached; -1 is the start
    int64_t end
    bint timed                 # whether there are times enough for a mean
    double mean                # weighted by how long each value lasted


cdef struct Bucket:
    int64_t first      # its first event; of one without events the last event before it
    uint64_t events
    int64_t low, high
    int64_t high_at    # the first event after which it is as high; -1 is the start


cdef struct Range:
    int64_t low, high
    int64_t high_at    # the first event after which it is as high; of none the event before


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
