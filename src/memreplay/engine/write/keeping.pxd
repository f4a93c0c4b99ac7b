# Items of one dict in a pickle's bytes, written as they are into another pickle.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf


cdef struct Keeping:
    const uint8_t* start
    const uint8_t* end
    Buf stack            # Part
    Buf memo             # Stored
    Buf pairs            # Pair: the items
    Buf open             # Stretch: what is written, and what it is in the middle of
    Buf touched          # u32: the memo entries that the last value wrote
    uint64_t stored      # distinct entries of the memo
    uint64_t dict_at     # where the dict begins; NOWHERE until it is found
    uint64_t list_at     # where a list begins that is a value of it
    uint64_t left        # bytes that may still be written
    const char* wrong    # why it stopped


cdef struct Pair:
    uint64_t key, value, end     # where both begin, and where the second ends


cdef int keeping_init(Keeping* k, const uint8_t* p, size_t n, uint64_t list_at) noexcept nogil
cdef void keeping_free(Keeping* k) noexcept nogil
cdef int keeping_find(Keeping* k) noexcept nogil
cdef bint keeping_is(Keeping* k, uint64_t at, const char* name) noexcept nogil
cdef int keeping_put(Keeping* k, uint64_t at, uint64_t end, Out* out,
                     uint32_t* memoised) noexcept nogil
cdef void keeping_forget(Keeping* k) noexcept nogil
cdef void keeping_again(Keeping* k) noexcept nogil
