# What was allocated over the events of a measure: how many, of what sizes, for how long, by whom.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.wide cimport Wide
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.lives cimport Lives

cdef enum ChurnSort:
    SORT_BYTES = 0
    SORT_COUNT = 1
    SORT_TEMPORARY = 2
    SORT_LIFETIME = 3

cdef enum:
    SIZE_CLASSES = 65    # those of keying.size_class
    DECADES = 21         # 0, then a class a power of ten: class k is from 10^(k - 1) on


cdef struct ChurnClass:
    # Allocations of a class of sizes or lifetimes.
    Wide bytes
    uint64_t count


cdef struct ChurnSum:
    # The allocations of a group. No sum wraps, whatever sizes and times a file has.
    Wide bytes
    Wide temporary_bytes
    Wide live_bytes
    Wide lifetime_us          # of those that ended and are timed
    uint64_t lifetime_events  # of those that ended
    uint64_t count
    uint64_t temporary_count
    uint64_t live_count       # after the last event
    uint64_t timed_count      # ended, and both ends have a time
    uint64_t name             # of the group, as in keying.Keys


cdef struct Churn:
    const Lives* lives
    Keys* keys
    Buf row_of_group      # u32: the row in `groups`, or NONE32
    uint32_t* made        # an event: allocations up to it, those that do not count too
    int64_t* clock        # an event: the latest time up to it, or ABSENT_TIME; NULL: all are one
    bint timed            # some event has a time
    int64_t first_time, last_time
    uint64_t threshold    # a temporary one ends before more than so many others are made
    Buf groups            # ChurnSum
    ChurnSum whole
    ChurnClass sizes[SIZE_CLASSES]
    ChurnClass events[DECADES]
    ChurnClass us[DECADES]
    ChurnClass untimed    # ended, without a time at their alloc
    ChurnClass carried, carried_freed    # the carried blocks, and those that ended
    uint64_t grown        # allocations for which a segment was allocated or mapped
    uint64_t min_bytes, max_bytes, median_bytes, median_events, median_us


cdef int churn_init(Churn* c, const Lives* l, Keys* keys, uint64_t threshold,
                    int sort) noexcept nogil
cdef void churn_free(Churn* c) noexcept nogil
