# Bit scans and 128-bit products, which standard C lacks.
#
# Each compiler has its own intrinsics; MEMREPLAY_PORTABLE selects plain C.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__GNUC__) && defined(__SIZEOF_INT128__) && !defined(MEMREPLAY_PORTABLE)

    CYTHON_UNUSED static inline int memreplay_clz64(uint64_t n) { return __builtin_clzll(n); }
    CYTHON_UNUSED static inline int memreplay_ctz64(uint64_t n) { return __builtin_ctzll(n); }
    CYTHON_UNUSED static inline uint64_t memreplay_product(uint64_t a, uint64_t b, uint64_t *high) {
        __extension__ unsigned __int128 n = (unsigned __int128) a * b;
        *high = (uint64_t) (n >> 64);
        return (uint64_t) n;
    }

    #elif (defined(_M_X64) || defined(_M_ARM64)) && !defined(MEMREPLAY_PORTABLE)

    #include <intrin.h>
    CYTHON_UNUSED static inline int memreplay_clz64(uint64_t n) {
        unsigned long highest;
        _BitScanReverse64(&highest, n);
        return 63 - (int) highest;
    }
    CYTHON_UNUSED static inline int memreplay_ctz64(uint64_t n) {
        unsigned long lowest;
        _BitScanForward64(&lowest, n);
        return (int) lowest;
    }
    CYTHON_UNUSED static inline uint64_t memreplay_product(uint64_t a, uint64_t b, uint64_t *high) {
        *high = __umulh(a, b);
        return a * b;
    }

    #else

    CYTHON_UNUSED static inline int memreplay_clz64(uint64_t n) {
        int zeros = 0, step;
        for (step = 32; step; step /= 2)
            if (n >> (64 - step) == 0) {
                zeros += step;
                n <<= step;
            }
        return zeros;
    }
    CYTHON_UNUSED static inline int memreplay_ctz64(uint64_t n) {
        return 63 - memreplay_clz64(n & (~n + 1));
    }
    /* Multiply by halves. Sums can't wrap: (2^32 - 1)^2 + 2 * (2^32 - 1) is 2^64 - 1. */
    CYTHON_UNUSED static inline uint64_t memreplay_product(uint64_t a, uint64_t b, uint64_t *high) {
        uint64_t half = UINT32_MAX;
        uint64_t low = (a & half) * (b & half);
        uint64_t one = (a >> 32) * (b & half) + (low >> 32);
        uint64_t other = (a & half) * (b >> 32) + (one & half);
        *high = (a >> 32) * (b >> 32) + (one >> 32) + (other >> 32);
        return (other << 32) | (low & half);
    }

    #endif
    """
    # Undefined for 0.
    int clz64 "memreplay_clz64"(uint64_t n) noexcept nogil
    int ctz64 "memreplay_ctz64"(uint64_t n) noexcept nogil
    # Return the low half of a * b and store the high half in `high`.
    uint64_t product "memreplay_product"(uint64_t a, uint64_t b, uint64_t* high) noexcept nogil
