# How the allocator rounds requests, and which blocks it splits (docs/allocator.md).
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    const uint64_t NO_SPLIT_LIMIT "UINT64_MAX"
    int clz64 "__builtin_clzll"(unsigned long long) nogil

cdef enum:
    MIN_BLOCK = 512            # blocks are multiples of it
    SMALL_LIMIT = 1 << 20      # larger requests go to the large pool, which keeps remainders
    DIVISION_STEPS = 16        # powers of two from 1 MiB to 32 GiB, each with its divisions


cdef struct Rules:
    # What the allocator's settings say of sizes.
    int64_t divisions[16]      # roundup_power2_divisions; 0 or 1 is none
    int64_t max_split          # max_split_size; no limit when it is negative
    bint expandable            # expandable_segments: every remainder is split off


cdef inline uint64_t round_size(const Rules* rules, uint64_t size) noexcept nogil:
    # The size of the block that serves a request, where the remainder is split off.
    cdef int step
    cdef uint64_t divisions, floor, part
    if size < MIN_BLOCK:
        return MIN_BLOCK
    step = 63 - clz64(size) - 20
    step = 0 if step < 0 else DIVISION_STEPS - 1 if step >= DIVISION_STEPS else step
    divisions = <uint64_t> rules.divisions[step]
    if divisions > 1 and (size - 1) // MIN_BLOCK >= divisions:
        if size & (size - 1) == 0:
            return size
        floor = (<uint64_t> 1) << (63 - clz64(size))
        part = floor >> (63 - clz64(divisions))
        if part == 0:
            return floor << 1
        return (size + part - 1) // part * part
    return (size + MIN_BLOCK - 1) // MIN_BLOCK * MIN_BLOCK


cdef inline uint64_t max_split(const Rules* rules) noexcept nogil:
    return NO_SPLIT_LIMIT if rules.max_split < 0 else <uint64_t> rules.max_split
