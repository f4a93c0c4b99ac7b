# Append pickle opcodes of protocol 4, including those shared with protocol 2.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport (
    BROKEN, REPLACEMENT, Out, is_text, put_byte, put_bytes, read_char
)
from memreplay.engine.read.opcodes cimport (
    BINGET, BININT, BININT1, BININT2, BINPUT, BINUNICODE, BINUNICODE8, FRAME, LONG1, LONG_BINGET,
    LONG_BINPUT, SHORT_BINUNICODE,
)

cdef enum:
    FRAME_SIZE = 64 << 10    # approximate frame size in bytes, as in Python's pickler
    FRAME_HEAD = 9


cdef inline void put_op(Out* o, uint8_t op) noexcept nogil:
    put_byte(o, <char> op)


cdef inline void put_little(Out* o, uint64_t v, int bytes) noexcept nogil:
    # Write the lowest bytes of v in little-endian order.
    cdef uint8_t[8] little
    cdef int i
    for i in range(bytes):
        little[i] = <uint8_t> (v >> (8 * i))
    put_bytes(o, little, bytes)


cdef inline void put_uint(Out* o, uint64_t v) noexcept nogil:
    # Write a non-negative integer in as few bytes as Python's pickler does.
    cdef int n = 4
    if v < 0x100:
        put_op(o, BININT1)
        put_little(o, v, 1)
    elif v < 0x10000:
        put_op(o, BININT2)
        put_little(o, v, 2)
    elif v < 0x80000000u:
        put_op(o, BININT)
        put_little(o, v, 4)
    else:
        # Use one more byte if the highest bit would look like a sign.
        while n < 8 and v >> (8 * n - 1):
            n += 1
        put_op(o, LONG1)
        if v >> 63:
            put_little(o, 9, 1)
            put_little(o, v, 8)
            put_little(o, 0, 1)
        else:
            put_little(o, <uint64_t> n, 1)
            put_little(o, v, n)


cdef inline void put_int(Out* o, int64_t v) noexcept nogil:
    cdef int n = 5
    if v >= 0:
        put_uint(o, <uint64_t> v)
    elif v >= -0x80000000LL:
        put_op(o, BININT)
        put_little(o, <uint64_t> v, 4)
    else:
        # Compute the size from the absolute value's bits, as int.bit_length() does.
        while n < 8 and (0 - <uint64_t> v) >> (8 * n - 1):
            n += 1
        put_op(o, LONG1)
        if (0 - <uint64_t> v) >> 63:
            put_little(o, 9, 1)
            put_little(o, <uint64_t> v, 8)
            put_little(o, 0xFF, 1)
        else:
            put_little(o, <uint64_t> n, 1)
            put_little(o, <uint64_t> v, n)


cdef inline void put_index(Out* o, uint8_t near, uint8_t far, uint64_t index) noexcept nogil:
    # Write an opcode with a memo index, in one byte if possible, else in four.
    if index < 0x100:
        put_op(o, near)
        put_little(o, index, 1)
    else:
        put_op(o, far)
        put_little(o, index, 4)


cdef inline void put_get(Out* o, uint64_t index) noexcept nogil:
    put_index(o, BINGET, LONG_BINGET, index)


cdef inline void put_put(Out* o, uint64_t index) noexcept nogil:
    # Only for protocols below 4; later protocols use MEMOIZE for new entries.
    put_index(o, BINPUT, LONG_BINPUT, index)


cdef inline size_t open_frame(Out* o) noexcept nogil:
    # Begin a frame (protocol 4 and later), and return its start.
    cdef size_t frame = o.b.len
    put_op(o, FRAME)
    put_little(o, 0, FRAME_HEAD - 1)
    return frame


cdef inline void close_frame(Out* o, size_t frame) noexcept nogil:
    cdef uint64_t size = o.b.len - frame - FRAME_HEAD
    cdef int i
    if not o.failed:
        for i in range(FRAME_HEAD - 1):
            o.b.data[frame + 1 + i] = <char> (size >> (8 * i))


cdef inline void put_text_head(Out* o, uint64_t n, int protocol) noexcept nogil:
    # Write the opcode and length for a string of n bytes in UTF-8.
    if n < 0x100 and protocol >= 4:
        put_op(o, SHORT_BINUNICODE)
        put_little(o, n, 1)
    elif n <= 0xFFFFFFFFu:
        put_op(o, BINUNICODE)
        put_little(o, n, 4)
    else:
        put_op(o, BINUNICODE8)
        put_little(o, n, 8)


cdef inline size_t put_utf8(uint8_t* out, uint32_t code) noexcept nogil:
    # Encode a character (surrogates as pickle does), and return the number of bytes.
    if code < 0x80:
        out[0] = <uint8_t> code
        return 1
    if code < 0x800:
        out[0] = <uint8_t> (0xC0 | code >> 6)
        out[1] = <uint8_t> (0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = <uint8_t> (0xE0 | code >> 12)
        out[1] = <uint8_t> (0x80 | code >> 6 & 0x3F)
        out[2] = <uint8_t> (0x80 | code & 0x3F)
        return 3
    out[0] = <uint8_t> (0xF0 | code >> 18)
    out[1] = <uint8_t> (0x80 | code >> 12 & 0x3F)
    out[2] = <uint8_t> (0x80 | code >> 6 & 0x3F)
    out[3] = <uint8_t> (0x80 | code & 0x3F)
    return 4


cdef inline void put_unicode(Out* o, const uint8_t* p, size_t n, int protocol) noexcept nogil:
    # Write a string. Invalid UTF-8 is replaced as in Tables.string(), because pickle couldn't read
    # it.
    cdef uint8_t[4] char_bytes
    cdef uint32_t code = 0
    cdef uint64_t size = 0
    cdef size_t i = 0
    if is_text(p, n):
        put_text_head(o, n, protocol)
        put_bytes(o, p, n)
        return
    while i < n:
        i += read_char(p + i, n - i, False, &code)
        size += put_utf8(char_bytes, REPLACEMENT if code == BROKEN else code)
    put_text_head(o, size, protocol)
    i = 0
    while i < n:
        i += read_char(p + i, n - i, False, &code)
        put_bytes(o, char_bytes, put_utf8(char_bytes, REPLACEMENT if code == BROKEN else code))
