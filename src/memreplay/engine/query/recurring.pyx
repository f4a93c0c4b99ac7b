"""Find the distance from each number to its previous occurrence.

For addresses the distance is short, because an allocator reuses addresses all the time.
"""

from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.base.hashmap cimport NONE32, Map64, Slot64, map64_at, map64_free, map64_init
from memreplay.engine.base.status cimport ERR_MEMORY, OK


cdef int rows_back(const uint64_t* numbers, uint64_t n, uint64_t seed,
                   uint32_t* out) noexcept nogil:
    # Store each number's distance in rows from its previous occurrence; 0 for a first occurrence.
    cdef Map64 last
    cdef Slot64* slot
    cdef uint64_t i
    cdef int code = OK
    if map64_init(&last, seed) < 0:
        return ERR_MEMORY
    for i in range(n):
        slot = map64_at(&last, numbers[i], NONE32)
        if slot == NULL:
            code = ERR_MEMORY
            break
        out[i] = 0 if slot.value == NONE32 else <uint32_t> i - slot.value
        slot.value = <uint32_t> i
    map64_free(&last)
    return code
