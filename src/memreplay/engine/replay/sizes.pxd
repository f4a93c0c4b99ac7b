# The allocator's rules for sizes: rounding and splitting (docs/allocator.md).
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.base.bits cimport clz64

cdef extern from *:
    const uint64_t NO_SPLIT_LIMIT "UINT64_MAX"

cdef enum:
    MIN_BLOCK = 512            # block sizes are multiples of this
    # larger requests use the large pool, in which a small remainder stays with its block
    SMALL_LIMIT = 1 << 20
    # number of powers of two with their own divisions (1 MiB to 32 GiB)
    DIVISION_STEPS = 16
    SMALL_SEGMENT = 2 << 20    # size of a small pool's segment
    LARGE_REQUEST = 10 << 20   # from this size on, a request gets a segment of its own
    ROUND_LARGE = 2 << 20      # the size of such a segment is rounded up to a multiple of this


cdef struct Rules:
    # Allocator settings that affect sizes.
    int64_t divisions[16]      # roundup_power2_divisions; 0 or 1: not divided
    int64_t max_split          # max_split_size; negative: no limit
    # max_non_split_rounding_size: an oversize block may exceed the request by less than this
    int64_t max_non_split
    int64_t large_segment      # large_segment_size
    bint expandable            # expandable_segments; every remainder is then split off
    int64_t pad                # bytes added to each request before rounding (torch_npu)
    int64_t align              # alignment for large blocks in expandable segments; 0: none


cdef inline uint64_t round_size(const Rules* rules, uint64_t size) noexcept nogil:
    # Return the block size for a request if the remainder is split off.
    cdef int step
    cdef uint64_t divisions, floor, part
    size += <uint64_t> rules.pad
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


cdef inline bint leaves_rest(const Rules* rules, bint small, bint all_split, uint64_t block,
                             uint64_t size) noexcept nogil:
    # Whether the rest of a free block becomes a block of its own. `all_split`: expandable segments
    # are on.
    if small or all_split:
        return block - size >= MIN_BLOCK
    return size < max_split(rules) and block - size > SMALL_LIMIT


cdef inline uint64_t to_alignment(const Rules* rules, bint all_split, uint64_t address,
                                  uint64_t size) noexcept nogil:
    # Return the offset in a free block at which a block for this request begins if it fits. The
    # memory before the offset stays free.
    if rules.align <= 0 or not all_split or size < ROUND_LARGE:
        return 0
    return (<uint64_t> rules.align - address % <uint64_t> rules.align) % <uint64_t> rules.align


cdef inline uint64_t segment_size(const Rules* rules, uint64_t size) noexcept nogil:
    # Return the size of the segment that is created for a block of this size.
    if size <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if size < LARGE_REQUEST:
        return <uint64_t> rules.large_segment
    return (size + ROUND_LARGE - 1) // ROUND_LARGE * ROUND_LARGE
