"""Turn numbers into planes: the lowest byte of each number, then the next byte of each, and so on.

Before that, signed numbers are zigzag-encoded: 0, -1, 1, -2 become 0, 1, 2, 3.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from memreplay.engine.query.vectors cimport View, copy_rows

cdef enum:
    CHUNK = 1024        # rows


cdef int64_t folded(const Values* v, int64_t first, int64_t before, uint64_t* out,
                    int64_t* n) noexcept nogil:
    # Store a chunk of encoded numbers. `before` and the result are the number before the chunk, and
    # its last one.
    cdef int64_t[CHUNK] values
    cdef int64_t[CHUNK] less
    cdef View part = v.values
    cdef int64_t i, value
    part.n = n[0] = min(CHUNK, v.values.n - first)
    part.data = v.values.data + first * v.values.stride
    copy_rows(&part, <char*> values, c"q")
    if v.less.n:
        part = v.less
        part.n = n[0]
        part.data = v.less.data + first * v.less.stride
        copy_rows(&part, <char*> less, c"q")
        for i in range(part.n):
            values[i] = <int64_t> (<uint64_t> values[i] - <uint64_t> less[i])
    for i in range(part.n):
        value = values[i]
        if v.differences:
            value = <int64_t> (<uint64_t> value - <uint64_t> before)
            before = values[i]
        out[i] = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    return before


cdef uint64_t highest(const Values* v) noexcept nogil:
    # Return the highest encoded number.
    cdef uint64_t[CHUNK] part
    cdef uint64_t found = 0
    cdef int64_t before = 0
    cdef int64_t at = 0
    cdef int64_t n = 0
    cdef int64_t i
    while at < v.values.n:
        before = folded(v, at, before, part, &n)
        for i in range(n):
            found = max(found, part[i])
        at += n
    return found


cdef void split(const Values* v, int width, uint8_t* out) noexcept nogil:
    # Store the `width` lowest bytes of each encoded number, in planes.
    cdef uint64_t[CHUNK] part
    cdef uint8_t* plane
    cdef int64_t before = 0
    cdef int64_t at = 0
    cdef int64_t n = 0
    cdef int64_t i
    cdef int byte
    while at < v.values.n:
        before = folded(v, at, before, part, &n)
        for byte in range(width):
            plane = out + byte * v.values.n + at
            for i in range(n):
                plane[i] = <uint8_t> (part[i] >> (8 * byte))
        at += n
