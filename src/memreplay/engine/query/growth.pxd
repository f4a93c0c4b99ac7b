# How steps change a measure: totals for each step, and the groups that grow.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.query.trend cimport Trend
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.replay.replay cimport Replay

cdef struct Span:
    # Events first to stop - 1, counted from event 0 of the device.
    int64_t first
    int64_t stop


cdef struct StepSum:
    int64_t peak, peak_at      # includes the level before the first event; its event is first - 1
    int64_t end
    int64_t bytes              # allocated in it
    uint64_t allocations


cdef struct Grown:
    # A group that grew.
    int64_t rate, error, stayed
    double odds
    # bytes before the first step, after the warm-up, after the last step
    int64_t start, warm, end
    int64_t grew                 # for a leak, growth after step `since`
    int64_t made_up              # bytes per step that another group released at the same time
    int64_t old_bytes            # allocations made after the warm-up that outlived some steps
    uint64_t old_count
    uint64_t name                # the group's name, as in keying.Keys
    uint32_t since, rises, until
    bint leaks, stopped
    bint replaced                # each allocation replaces the previous one, which was smaller


cdef struct Totals:
    # Sums over leaking groups, over other groups that grew, and over old allocations.
    int64_t leak_rate, leak_growth, once_stayed, old_bytes
    int64_t most_growth     # growth after the warm-up of the non-leaking group that grew most
    int64_t whole_rate      # bytes per step of all memory, if it leaks as a whole
    int64_t within_rate     # growth per step of memory that is only live within a step, if it grows
    uint64_t old_count
    uint64_t needs_more     # groups that allocate (and free) more in each step than in the last
    bint unsure_end         # some memory live at the last step's end may be replaced later


cdef void step_sums(const Lives* l, const Replay* r, const int64_t* usage, int64_t start,
                    const Span* spans, uint64_t n, StepSum* out) noexcept nogil
cdef int groups_grown(const Lives* l, Keys* keys, const int64_t* moments, const int64_t* levels,
                      uint32_t steps, uint32_t warm, uint32_t old, int64_t least, Buf* leaks,
                      Buf* once, Buf* young, Totals* totals) noexcept nogil
