# A bitmap tree over the numbers below a bound, to find the nearest member in a few steps.
#
# Each bit of a level says whether a word of the level below is non-zero.
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from memreplay.engine.base.bits cimport clz64, ctz64
from memreplay.engine.base.hashmap cimport NONE32

cdef enum:
    _LEVELS = 6   # 64 ** 6 exceeds 32 bits


cdef struct NumberSet:
    uint64_t* words[_LEVELS]
    uint64_t n_words[_LEVELS]
    int levels


cdef inline void numberset_free(NumberSet* s) noexcept nogil:
    cdef int level
    for level in range(s.levels):
        free(s.words[level])
    s.levels = 0


cdef inline int numberset_init(NumberSet* s, uint64_t bound) noexcept nogil:
    # Initialize an empty set. Returns -1 when out of memory.
    cdef uint64_t n = bound
    s.levels = 0
    while True:
        n = n // 64 + 1
        s.words[s.levels] = <uint64_t*> calloc(n, sizeof(uint64_t))
        s.n_words[s.levels] = n
        s.levels += 1
        if s.words[s.levels - 1] == NULL:
            numberset_free(s)
            return -1
        if n == 1:
            return 0


cdef inline void numberset_add(NumberSet* s, uint64_t i) noexcept nogil:
    cdef int level
    for level in range(s.levels):
        s.words[level][i // 64] |= <uint64_t> 1 << (i % 64)
        i //= 64


cdef inline void numberset_drop(NumberSet* s, uint64_t i) noexcept nogil:
    cdef int level
    for level in range(s.levels):
        s.words[level][i // 64] &= ~(<uint64_t> 1 << (i % 64))
        if s.words[level][i // 64]:
            return
        i //= 64


cdef inline uint32_t numberset_from(const NumberSet* s, uint64_t i) noexcept nogil:
    # Return the lowest member >= i, or NONE32.
    cdef int level = 0
    cdef uint64_t bits
    while level < s.levels and i // 64 < s.n_words[level]:
        bits = s.words[level][i // 64] >> (i % 64)
        if bits:
            i += <uint64_t> ctz64(bits)
            while level:
                level -= 1
                i = i * 64 + <uint64_t> ctz64(s.words[level][i])
            return <uint32_t> i
        i = i // 64 + 1
        level += 1
    return NONE32


cdef inline uint32_t numberset_until(const NumberSet* s, uint64_t i) noexcept nogil:
    # Return the highest member <= i, or NONE32. i must be below the bound.
    cdef int level = 0
    cdef uint64_t bits
    while level < s.levels:
        bits = s.words[level][i // 64] << (63 - i % 64)
        if bits:
            i -= <uint64_t> clz64(bits)
            while level:
                level -= 1
                i = i * 64 + 63 - <uint64_t> clz64(s.words[level][i])
            return <uint32_t> i
        if i < 64:
            return NONE32
        i = i // 64 - 1
        level += 1
    return NONE32
