# Sets of ASCII characters.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.bits cimport ctz64


cdef struct Set:
    # One bit per ASCII character.
    uint64_t words[2]


cdef inline bint has(const Set* s, uint32_t c) noexcept nogil:
    return (s.words[c >> 6] >> (c & 63)) & 1


cdef inline void put(Set* s, uint32_t c) noexcept nogil:
    s.words[c >> 6] |= <uint64_t> 1 << (c & 63)


cdef inline uint32_t next_in(const Set* s, uint32_t c) noexcept nogil:
    # Return the first character from `c` on, or 128.
    cdef uint64_t left
    while c < 128:
        left = s.words[c >> 6] >> (c & 63)
        if left:
            return c + ctz64(left)
        c = (c | 63) + 1
    return 128


cdef inline void put_range(Set* s, uint32_t first, uint32_t last) noexcept nogil:
    while first <= last:
        put(s, first)
        first += 1


cdef inline void invert(Set* s) noexcept nogil:
    s.words[0] = ~s.words[0]
    s.words[1] = ~s.words[1]


cdef inline void unite(Set* s, const Set* other) noexcept nogil:
    s.words[0] |= other.words[0]
    s.words[1] |= other.words[1]


cdef inline bint overlap(const Set* s, const Set* other) noexcept nogil:
    return (s.words[0] & other.words[0] or s.words[1] & other.words[1]) != 0


cdef inline bint is_letter(uint32_t c) noexcept nogil:
    return c"a" <= (c | 32) <= c"z"


cdef inline bint is_digit(uint32_t c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef inline bint is_word(uint32_t c) noexcept nogil:
    return is_letter(c) or is_digit(c) or c == c"_"


cdef inline void fold(Set* s) noexcept nogil:
    # Add the other case of each letter.
    cdef uint32_t c
    for c in range(c"a", c"z" + 1):
        if has(s, c) or has(s, c ^ 32):
            put(s, c)
            put(s, c ^ 32)


cdef inline bint put_named(Set* s, uint8_t name) noexcept nogil:
    # Add \w, \d or \s, or its opposite, as `re` defines them for str. Return whether there's such a
    # set.
    cdef Set found
    cdef uint8_t kind = name | 32
    memset(&found, 0, sizeof(Set))
    if kind == c"w":
        put_range(&found, c"a", c"z")
        fold(&found)
        put_range(&found, c"0", c"9")
        put(&found, c"_")
    elif kind == c"d":
        put_range(&found, c"0", c"9")
    elif kind == c"s":
        put_range(&found, 9, 13)
        put_range(&found, 28, 32)
    else:
        return False
    if name != kind:
        invert(&found)
    s.words[0] |= found.words[0]
    s.words[1] |= found.words[1]
    return True
