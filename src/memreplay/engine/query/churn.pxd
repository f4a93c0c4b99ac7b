# Statistics about a measure's allocations: counts, sizes, lifetimes, groups.
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
    SIZE_CLASSES = 65    # as in keying.size_class
    DECADES = 21         # 0, then one class per power of ten: class k from 10^(k - 1) on


cdef struct ChurnClass:
    # Allocations of a size or lifetime class.
    Wide bytes
    uint64_t count


cdef struct ChurnSum:
    # The allocations of a group. Sums can't wrap, whatever the file contains.
    Wide bytes
    Wide temporary_bytes
    Wide live_bytes
    Wide lifetime_us          # total for freed allocations with times at both ends
    uint64_t lifetime_events  # total for freed allocations
    uint64_t count
    uint64_t temporary_count
    uint64_t live_count       # after the last event
    uint64_t timed_count      # number of freed allocations with times at both ends
    uint64_t name             # the group's name, as in keying.Keys


cdef struct Churn:
    const Lives* lives
    Keys* keys
    Buf row_of_group      # u32: row in `groups`, or NONE32
    uint32_t* made        # per event: number of allocations so far, in the measure or not
    int64_t* clock        # per event: the latest time so far, or ABSENT_TIME; NULL: all are equal
    bint timed            # whether any event has a time
    int64_t first_time, last_time
    uint64_t threshold    # a temporary is freed after at most this many further allocations
    Buf groups            # ChurnSum
    ChurnSum whole
    ChurnClass sizes[SIZE_CLASSES]
    ChurnClass events[DECADES]
    ChurnClass us[DECADES]
    ChurnClass untimed    # freed allocations without a time at their alloc
    ChurnClass carried, carried_freed    # all carried-over blocks, and those that are freed
    uint64_t grown        # allocations that needed a new or larger segment
    uint64_t min_bytes, max_bytes, median_bytes, median_events, median_us


cdef int churn_init(Churn* c, const Lives* l, Keys* keys, uint64_t threshold,
                    int sort) noexcept nogil
cdef void churn_free(Churn* c) noexcept nogil
