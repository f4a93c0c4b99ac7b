# Whether a series leaks: what it comes to at the ends of steps.
from libc.stdint cimport int64_t, uint32_t
from memreplay.engine.base.growbuf cimport Buf

cdef enum:
    QUARTERS = 4     # parts of the later steps, at the ends of which growth may begin
    LEAST_LATE = 12  # steps in which growth shows that began after the first of these quarters
    LEAST_ODDS = 3   # to one, of what is called a leak
    MOST_ODDS = 1000000


cdef struct Trend:
    # What a series at the ends of steps comes to.
    bint leaks
    int64_t rate       # bytes a step
    int64_t error      # by how much that may be wrong
    double odds        # of a leak, to one
    uint32_t since     # the step after which it grows all along: the last of the warm-up, or later
    uint32_t rises     # steps after that which end higher than the one before
    uint32_t until     # the last step after which more stayed; 0 for none
    int64_t stayed     # bytes that came since the start and are there all through the last quarter
    bint stopped       # not less than what it rises and falls by in that quarter, and no leak


cdef int judge(const int64_t* values, uint32_t steps, uint32_t warm, int64_t least, Buf* scratch,
               Trend* out) noexcept nogil
cdef int64_t falls(const int64_t* values, uint32_t steps, uint32_t warm, int64_t* negative,
                   Buf* scratch, int* code) noexcept nogil
