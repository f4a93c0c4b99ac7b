# Copy some of a dict's items from a pickle's bytes into another pickle.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf


cdef struct Keeping:
    const uint8_t* start
    const uint8_t* end
    Buf stack            # Part
    Buf memo             # Stored
    Buf pairs            # Pair: the items that were found
    Buf open             # Stretch: the nested byte ranges that are being written
    Buf touched          # u32: memo entries that the last value wrote
    Buf text             # a string without its escapes
    uint64_t stored      # distinct memo entries
    uint64_t dict_at     # where the dict starts; NOWHERE until found
    uint64_t list_at     # where one of the dict's values, a list, starts
    uint64_t left        # number of bytes that may still be written
    const char* wrong    # the error


cdef struct Pair:
    uint64_t key, value, end     # where the key and the value start, and where the value ends


cdef int keeping_init(Keeping* k, const uint8_t* p, size_t n, uint64_t list_at) noexcept nogil
cdef void keeping_free(Keeping* k) noexcept nogil
cdef int keeping_find(Keeping* k) noexcept nogil
cdef bint keeping_is(Keeping* k, uint64_t at, const char* name) noexcept nogil
cdef int keeping_put(Keeping* k, uint64_t at, uint64_t end, Out* out,
                     uint32_t* memoised) noexcept nogil
cdef void keeping_forget(Keeping* k) noexcept nogil
cdef void keeping_again(Keeping* k) noexcept nogil
