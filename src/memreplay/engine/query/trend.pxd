# Decide whether values at the ends of steps show a leak.
from libc.stdint cimport int64_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    LEAST_RISES = 4  # fewest rises in a leak
    QUARTERS = 4     # parts of the steps after the warm-up; growth may begin at the end of each
    LEAST_LATE = 12  # fewest steps that can show growth that began after the first quarter
    LEAST_ODDS = 3   # minimum odds (to one) of a leak
    MOST_ODDS = 1000000


cdef struct Trend:
    # The verdict on a series of values at the ends of steps.
    bint leaks
    int64_t rate       # bytes per step
    int64_t error      # standard error of the rate
    double odds        # odds to one that this is a leak
    # the step after which the series keeps growing: the last warm-up step, or a later one
    uint32_t since
    uint32_t rises     # number of steps after `since` that end higher than the previous step
    uint32_t until     # the last step that left additional memory behind; 0: none
    int64_t stayed     # bytes added since the start and present throughout the last quarter
    bint stopped       # not a leak, and `stayed` is at least the range within the last quarter


cdef int judge(const int64_t* values, uint32_t steps, uint32_t warm, int64_t least, Buf* scratch,
               Trend* out) noexcept nogil
cdef int64_t falls(const int64_t* values, uint32_t steps, uint32_t warm, int64_t* negative,
                   Buf* scratch, int* code) noexcept nogil
