# Append text to a buffer: numbers, literals, and arbitrary bytes as ASCII JSON strings.
#
# put_* functions don't return errors. When out of memory they set `failed`, which callers check
# once per row.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen
from memreplay.engine.base.growbuf cimport Buf, push_bytes

cdef enum:
    BROKEN = 0x110000         # stands for invalid UTF-8
    REPLACEMENT = 0xFFFD


cdef struct Out:
    Buf b
    bint failed


cdef inline void put_bytes(Out* o, const void* p, size_t n) noexcept nogil:
    if push_bytes(&o.b, p, n) < 0:
        o.failed = True


cdef inline bytes given(Out* o, size_t n):
    # Return the first n bytes of the buffer. If this fails, `failed` stays set, because these bytes
    # would be missing from the output.
    cdef bytes made
    o.failed = True
    made = o.b.data[:n]
    o.failed = False
    return made


cdef inline void put_text(Out* o, const char* text) noexcept nogil:
    put_bytes(o, text, strlen(text))


cdef inline void put_byte(Out* o, char c) noexcept nogil:
    put_bytes(o, &c, 1)


cdef inline void put_u64(Out* o, uint64_t v) noexcept nogil:
    cdef char[20] digits
    cdef int at = 20
    while True:
        at -= 1
        digits[at] = <char> (48 + v % 10)
        v //= 10
        if v == 0:
            break
    put_bytes(o, digits + at, 20 - at)


cdef inline void put_i64(Out* o, int64_t v) noexcept nogil:
    if v < 0:
        put_byte(o, 45)
        put_u64(o, 0 - <uint64_t> v)
    else:
        put_u64(o, <uint64_t> v)


cdef inline void put_hex(Out* o, uint64_t v) noexcept nogil:
    # for example 0x7f30c0000000
    cdef char[16] digits
    cdef int at = 16
    while True:
        at -= 1
        digits[at] = b"0123456789abcdef"[v & 15]
        v >>= 4
        if v == 0:
            break
    put_text(o, b"0x")
    put_bytes(o, digits + at, 16 - at)


cdef inline size_t read_char(const uint8_t* p, size_t left, bint surrogates,
                             uint32_t* out) noexcept nogil:
    # Decode the character at p and return its length. For invalid UTF-8, store BROKEN and return
    # the number of bytes that Python's decoder replaces with one U+FFFD.
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef uint32_t code
    cdef size_t i, more
    out[0] = BROKEN
    if p[0] < 0x80:
        out[0] = p[0]
        return 1
    if p[0] < 0xC2 or p[0] > 0xF4:
        return 1
    if p[0] < 0xE0:
        more = 1
        code = p[0] & 0x1F
    elif p[0] < 0xF0:
        more = 2
        code = p[0] & 0x0F
        if p[0] == 0xE0:
            low = 0xA0       # overlong forms
        elif p[0] == 0xED and not surrogates:
            high = 0x9F
    else:
        more = 3
        code = p[0] & 0x07
        if p[0] == 0xF0:
            low = 0x90
        elif p[0] == 0xF4:
            high = 0x8F      # past U+10FFFF
    for i in range(1, more + 1):
        if i >= left or p[i] < low or p[i] > high:
            return i
        code = code << 6 | (p[i] & 0x3F)
        low = 0x80
        high = 0xBF
    out[0] = code
    return more + 1


cdef inline bint is_text(const uint8_t* p, size_t n) noexcept nogil:
    # Whether the bytes are UTF-8. Surrogates are allowed, as in pickle.
    cdef uint32_t code = 0
    cdef size_t i = 0
    while i < n:
        i += read_char(p + i, n - i, True, &code)
        if code == BROKEN:
            return False
    return True


cdef inline void put_escape(Out* o, uint32_t unit) noexcept nogil:
    # Write one UTF-16 code unit, for example \u00e4.
    cdef char[6] escape
    cdef int i
    escape[0] = 92
    escape[1] = 117
    for i in range(4):
        escape[5 - i] = b"0123456789abcdef"[unit & 15]
        unit >>= 4
    put_bytes(o, escape, 6)


cdef inline void put_escaped(Out* o, const uint8_t* p, size_t n, bint is_json) noexcept nogil:
    # Write the inside of a JSON string in ASCII. If the text is already JSON (is_json), only
    # non-ASCII characters change. Invalid UTF-8 is replaced as in Tables.string(). The second # of
    # ## is escaped, because CI runners execute ##[...] anywhere in a log.
    cdef bint surrogates = is_text(p, n)
    cdef uint32_t code = 0
    cdef size_t i = 0
    cdef size_t run
    while i < n:
        run = i
        while run < n and 32 <= p[run] < 127 and (is_json or (p[run] != 34 and p[run] != 92)):
            if p[run] == 35 and run > 0 and p[run - 1] == 35:
                break
            run += 1
        if run > i:
            put_bytes(o, p + i, run - i)
            i = run
            continue
        i += read_char(p + i, n - i, surrogates, &code)
        if code == 34 or code == 92:
            put_byte(o, 92)
            put_byte(o, <char> code)
        elif code == 10:
            put_text(o, b"\\n")
        elif code >= 0x10000 and code != BROKEN:
            put_escape(o, 0xD800 + ((code - 0x10000) >> 10))
            put_escape(o, 0xDC00 + ((code - 0x10000) & 0x3FF))
        else:
            put_escape(o, REPLACEMENT if code == BROKEN else code)
