# A set of numbers below a bound: the nearest one at or above a number, or at or below it, in a few
# steps. A bit a number; a bit of the level above says whether any of 64 bits is set.
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from memreplay.engine.base.bits cimport clz64, ctz64
from memreplay.engine.base.hashmap cimport NONE32

cdef enum:
    _LEVELS = 6   # 64 ** 6 is more than 32 bits hold


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
    # An empty set; -1 when memory is out.
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
    # The lowest number that is not below i; NONE32 where there is none.
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
    # The highest number that is not above i, which is below the bound; NONE32 where there is none.
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
