# What each step of a program does to a measure: its sums, and the groups whose memory grows.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay

cdef enum:
    QUARTERS = 4     # parts of the later steps, at the ends of which growth may begin
    LEAST_LATE = 12  # steps in which growth shows that began after the first of these quarters
    LEAST_ODDS = 3   # to one, of what is called a leak
    MOST_ODDS = 1000000


cdef struct Span:
    # The events first to stop - 1, counted from event 0 of the device.
    int64_t first
    int64_t stop


cdef struct StepSum:
    int64_t peak, peak_at      # the level before its first event included, at first - 1
    int64_t end
    int64_t bytes              # allocated in it
    uint64_t allocations


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


cdef struct Grown:
    # One group whose memory grew.
    int64_t rate, error, stayed
    double odds
    int64_t start, warm, end     # bytes before the first step, after the warm-up, after the last
    int64_t before               # bytes after step `since`
    int64_t old_bytes            # of allocations of the later steps that outlived some steps
    uint64_t old_count
    uint64_t name                # of the group, as in keying.Keys
    uint32_t since, rises, until
    bint leaks, stopped


cdef struct Totals:
    # Of all groups that leak; of all others that grew; of all old allocations.
    int64_t leak_rate, leak_growth, once_stayed, old_bytes
    int64_t most_growth     # in the later steps, of the other that grew most in them
    uint64_t old_count


cdef void step_sums(const Lives* l, const Replay* r, const int64_t* usage, int64_t start,
                    const Span* spans, uint64_t n, StepSum* out) noexcept nogil
cdef int judge(const int64_t* values, uint32_t steps, uint32_t warm, int64_t least, Buf* scratch,
               Trend* out) noexcept nogil
cdef int groups_grown(const Lives* l, Keys* keys, const int64_t* moments, uint32_t steps,
                      uint32_t warm, uint32_t old, int64_t least, Buf* leaks, Buf* once,
                      Totals* totals) noexcept nogil
