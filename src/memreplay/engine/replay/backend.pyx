"""Detect which backend's allocator wrote a file, from its final blocks and stacks."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_len
from memreplay.engine.read.tables cimport (
    Block, EXPANDABLE, FrameKey, HAS_REQUESTED, STATE_INACTIVE, Segment,
)
from memreplay.engine.replay.reserve cimport is_small
from memreplay.engine.replay.sizes cimport MIN_BLOCK


cdef inline int64_t rounded(int64_t size) noexcept nogil:
    return (size + MIN_BLOCK - 1) // MIN_BLOCK * MIN_BLOCK if size > MIN_BLOCK else MIN_BLOCK


cdef void count_rounding(const Tables* t, int64_t pad, uint64_t* plain,
                         uint64_t* padded) noexcept nogil:
    # Consider the blocks in use whose remainder is always split off. Count the blocks whose size
    # can only be the rounded request, and the blocks whose size can only be the request plus `pad`
    # bytes, rounded.
    cdef const Segment* segments = <const Segment*> t.segments.data
    cdef const Block* blocks = <const Block*> t.blocks.data
    cdef const Segment* g
    cdef int64_t asked, size
    cdef uint64_t i
    plain[0] = padded[0] = 0
    for i in range(t.blocks.len):
        g = &segments[blocks[i].segment]
        if (blocks[i].state == STATE_INACTIVE or not blocks[i].flags & HAS_REQUESTED
                or not (g.flags & EXPANDABLE or is_small(t, g))):
            continue
        asked = blocks[i].requested
        size = blocks[i].size
        if 0 < asked <= size and rounded(asked) != rounded(asked + pad):
            plain[0] += size == rounded(asked)
            padded[0] += size == rounded(asked + pad)


cdef bint holds(const uint8_t* text, size_t m, const uint8_t* part, size_t n) noexcept nogil:
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + m
    while at != NULL and <size_t> (end - at) >= n:
        if memcmp(at, part, n) == 0:
            return True
        at = <const uint8_t*> memchr(at + 1, part[0], end - at - 1) if at + 1 < end else NULL
    return False


cdef bint names_file(const Tables* t, const uint8_t* part, size_t n) noexcept nogil:
    # Whether any frame's file name contains this text.
    cdef const FrameKey* frames = <const FrameKey*> t.frames.data.data
    cdef const uint8_t* text
    cdef uint32_t last = NONE32
    cdef size_t m = 0
    cdef size_t i
    for i in range(spans_len(&t.frames)):
        # Frames in the same file are usually adjacent.
        if frames[i].file == last or frames[i].file == NONE32:
            continue
        last = frames[i].file
        text = span_at(&t.strings, last, &m)
        if holds(text, m, part, n):
            return True
    return False
