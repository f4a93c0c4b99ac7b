# What each step of a program does to a measure: its sums, and the groups whose memory grows.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.query.trend cimport Trend
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay

cdef struct Span:
    # The events first to stop - 1, counted from event 0 of the device.
    int64_t first
    int64_t stop


cdef struct StepSum:
    int64_t peak, peak_at      # the level before its first event included, at first - 1
    int64_t end
    int64_t bytes              # allocated in it
    uint64_t allocations


cdef struct Grown:
    # One group whose memory grew.
    int64_t rate, error, stayed
    double odds
    int64_t start, warm, end     # bytes before the first step, after the warm-up, after the last
    int64_t grew                 # of a leak, what it gained after that step
    int64_t made_up              # bytes a step that another group gave back meanwhile
    int64_t old_bytes            # of allocations of the later steps that outlived some steps
    uint64_t old_count
    uint64_t name                # of the group, as in keying.Keys
    uint32_t since, rises, until
    bint leaks, stopped
    bint replaced                # one allocation after the other, each larger than the one before


cdef struct Totals:
    # Of all groups that leak; of all others that grew; of all old allocations.
    int64_t leak_rate, leak_growth, once_stayed, old_bytes
    int64_t most_growth     # in the later steps, of the other that grew most in them
    int64_t whole_rate      # of memory as a whole, where that leaks
    int64_t within_rate     # of all that comes and goes within a step, where it grows all along
    uint64_t old_count
    uint64_t needs_more     # groups of which each step has more, and lets go of it
    bint unsure_end         # some that is live at the last end may be replaced after it


cdef void step_sums(const Lives* l, const Replay* r, const int64_t* usage, int64_t start,
                    const Span* spans, uint64_t n, StepSum* out) noexcept nogil
cdef int groups_grown(const Lives* l, Keys* keys, const int64_t* moments, const int64_t* levels,
                      uint32_t steps, uint32_t warm, uint32_t old, int64_t least, Buf* leaks,
                      Buf* once, Buf* young, Totals* totals) noexcept nogil
