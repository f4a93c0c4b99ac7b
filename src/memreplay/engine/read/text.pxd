# Text opcodes of protocol 0, whose argument (in decimal or with escapes) extends to the end of the
# line.
#
#     INT '42\n'  LONG '42L\n'  FLOAT '1.5\n'  STRING "'abc\\n'\n"  UNICODE 'abc\\u00e9\n'
#     GET '3\n'   PUT '3\n'
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy
from memreplay.engine.base.growbuf cimport Buf, push_bytes
from memreplay.engine.read.opcodes cimport FLOAT, GET, INT, LONG, PUT, STRING, UNICODE
from memreplay.engine.base.reals cimport REAL_LIMIT, is_named_real, is_real, real_of
from memreplay.engine.read.stack cimport op_get, op_put, push_kind, push_string, wait_for
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_TEXT, OK, fail, fail_limit
from memreplay.engine.read.value cimport V_BIG, V_FALSE, V_FLOAT, V_INT, V_TRUE, V_UINT, V_UNSET
from memreplay.engine.read.vm cimport VM

cdef extern from *:
    const uint64_t UINT64_MAX


cdef inline bint is_text_opcode(uint8_t op) noexcept nogil:
    return (op == INT or op == LONG or op == FLOAT or op == STRING or op == UNICODE
            or op == GET or op == PUT)


cdef inline int parse_decimal(const uint8_t* p, uint64_t n, uint64_t* out) noexcept nogil:
    # Parse a decimal integer with an optional sign. The result is V_INT, V_UINT or V_BIG, or
    # V_UNSET if malformed.
    cdef bint negative = n > 0 and p[0] == 45
    cdef uint64_t i = 1 if n and (p[0] == 45 or p[0] == 43) else 0
    cdef uint64_t v = 0
    cdef bint big = False
    if i == n:
        return V_UNSET
    while i < n:
        if p[i] < 48 or p[i] > 57:
            return V_UNSET
        if v > (UINT64_MAX - (p[i] - 48)) // 10:
            big = True
        v = v * 10 + (p[i] - 48)
        i += 1
    if big or (negative and v > <uint64_t> 1 << 63):
        return V_BIG
    if negative:
        out[0] = 0 - v
        return V_INT
    out[0] = v
    return V_INT if v < <uint64_t> 1 << 63 else V_UINT


cdef inline bint leads_with_zero(const uint8_t* p, uint64_t n) noexcept nogil:
    # Whether the number is a leading zero followed by digits.
    cdef uint64_t at = 1 if n and (p[0] == 45 or p[0] == 43) else 0
    return at + 1 < n and p[at] == 48


cdef inline bint is_written_integer(const uint8_t* p, uint64_t n, bint long) noexcept nogil:
    # Whether this is an INT's or LONG's argument. Protocol 0 writes False and True as integers with
    # a leading zero. Any other leading zero is ambiguous: 017 is 15 in C, 17 elsewhere, and an
    # error in Python.
    cdef uint64_t number = 0
    if not long and n == 2 and p[0] == 48 and (p[1] == 48 or p[1] == 49):
        return True
    if long and n and p[n - 1] == 76:
        n -= 1
    return not leads_with_zero(p, n) and parse_decimal(p, n, &number) != V_UNSET


cdef inline bint is_written_real(const uint8_t* p, uint64_t n) noexcept nogil:
    return n <= REAL_LIMIT and (is_real(p, n, False) or is_named_real(p, n))


cdef inline int hex_value(const uint8_t* p, int digits, uint32_t* out) noexcept nogil:
    cdef int i
    cdef uint32_t v = 0
    for i in range(digits):
        if 48 <= p[i] <= 57:
            v = v * 16 + (p[i] - 48)
        elif 97 <= (p[i] | 32) <= 102:
            v = v * 16 + ((p[i] | 32) - 87)
        else:
            return -1
    out[0] = v
    return 0


cdef inline int put_utf8(Buf* out, uint32_t c) noexcept nogil:
    # Encode one code point, including lone surrogates, as pickle does.
    cdef uint8_t[4] b
    cdef int n
    if c < 0x80:
        b[0] = <uint8_t> c
        n = 1
    elif c < 0x800:
        b[0] = <uint8_t> (0xC0 | (c >> 6))
        b[1] = <uint8_t> (0x80 | (c & 0x3F))
        n = 2
    elif c < 0x10000:
        b[0] = <uint8_t> (0xE0 | (c >> 12))
        b[1] = <uint8_t> (0x80 | ((c >> 6) & 0x3F))
        b[2] = <uint8_t> (0x80 | (c & 0x3F))
        n = 3
    else:
        b[0] = <uint8_t> (0xF0 | (c >> 18))
        b[1] = <uint8_t> (0x80 | ((c >> 12) & 0x3F))
        b[2] = <uint8_t> (0x80 | ((c >> 6) & 0x3F))
        b[3] = <uint8_t> (0x80 | (c & 0x3F))
        n = 4
    return push_bytes(out, b, n)


cdef inline int unescape_unicode(Buf* out, const uint8_t* p, uint64_t n) noexcept nogil:
    # Decode Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX if the number of backslashes before
    # the letter is odd; other bytes are Latin-1. Returns 0, -1 when out of memory, -2 for a
    # malformed escape.
    cdef uint64_t i = 0
    cdef uint32_t c = 0
    cdef int digits
    while i < n:
        if p[i] == 92 and i + 1 < n and (p[i + 1] == 117 or p[i + 1] == 85):
            digits = 4 if p[i + 1] == 117 else 8
            if (n - i - 2 < <uint64_t> digits or hex_value(p + i + 2, digits, &c) < 0
                    or c > 0x10FFFF):
                return -2
            if put_utf8(out, c) < 0:
                return -1
            i += 2 + digits
        elif p[i] == 92 and i + 1 < n and p[i + 1] == 92:
            # An escaped backslash doesn't begin an escape.
            if push_bytes(out, p + i, 2) < 0:
                return -1
            i += 2
        else:
            if put_utf8(out, p[i]) < 0:
                return -1
            i += 1
    return 0


cdef inline int unescape_string(Buf* out, const uint8_t* p, uint64_t n) noexcept nogil:
    # Decode a quoted Python 2 string literal with the escapes of codecs.escape_decode. Returns the
    # same codes as unescape_unicode.
    cdef uint64_t i = 1
    cdef uint64_t stop
    cdef uint32_t c = 0
    cdef uint8_t b
    if n < 2 or p[0] != p[n - 1] or (p[0] != 39 and p[0] != 34):
        return -2
    while i < n - 1:
        b = p[i]
        i += 1
        if b == 92:
            if i >= n - 1:
                return -2
            b = p[i]
            i += 1
            if b == 110:
                b = 10
            elif b == 114:
                b = 13
            elif b == 116:
                b = 9
            elif b == 97:
                b = 7
            elif b == 98:
                b = 8
            elif b == 118:
                b = 11
            elif b == 102:
                b = 12
            elif 48 <= b <= 55:
                # One to three octal digits; only the low eight bits count.
                c = b - 48
                stop = i + 2
                while i < n - 1 and i < stop and 48 <= p[i] <= 55:
                    c = c * 8 + (p[i] - 48)
                    i += 1
                b = <uint8_t> c
            elif b == 120:
                if n - 1 - i < 2 or hex_value(p + i, 2, &c) < 0:
                    return -2
                b = <uint8_t> c
                i += 2
            elif b != 92 and b != 39 and b != 34:
                # Keep an unknown escape as it is.
                if push_bytes(out, b"\\", 1) < 0:
                    return -1
        if push_bytes(out, &b, 1) < 0:
            return -1
    return 0


cdef inline int push_unescaped(VM* vm, uint8_t op, const uint8_t* p, uint64_t n) noexcept nogil:
    cdef Buf* out = &vm.tables.text
    cdef int code
    out.len = 0
    code = unescape_unicode(out, p, n) if op == UNICODE else unescape_string(out, p, n)
    if code == -1:
        return fail(&vm.tables.status, ERR_MEMORY, "strings")
    if code == -2:
        return fail(&vm.tables.status, ERR_TEXT, "a malformed escape")
    return push_string(vm, <const uint8_t*> out.data, out.len)


cdef inline int push_float(VM* vm, const uint8_t* p, uint64_t n) noexcept nogil:
    cdef double real
    cdef uint64_t bits = 0
    if not is_written_real(p, n):
        return fail(&vm.tables.status, ERR_TEXT, "a malformed number")
    real = real_of(p, n)
    memcpy(&bits, &real, 8)
    return push_kind(vm, V_FLOAT, bits, 0)


cdef inline int run_text(VM* vm, const uint8_t** pp) noexcept nogil:
    # Run one text opcode, including its newline. On OK the cursor is after the newline.
    cdef const uint8_t* p = pp[0] + 1
    cdef uint64_t left = <uint64_t> (vm.cur.end - p)
    cdef const uint8_t* stop = <const uint8_t*> memchr(p, 10, left)
    cdef uint64_t n, number
    cdef uint8_t op = pp[0][0]
    cdef int kind
    number = 0
    if stop == NULL:
        if left > vm.limits.string_bytes:
            return fail_limit(&vm.tables.status, "string_bytes", left, vm.limits.string_bytes)
        return wait_for(vm, pp[0], 2 * left + 2)
    n = <uint64_t> (stop - p)
    if n > vm.limits.string_bytes:
        return fail_limit(&vm.tables.status, "string_bytes", n, vm.limits.string_bytes)
    pp[0] = stop + 1
    if op == STRING or op == UNICODE:
        return push_unescaped(vm, op, p, n)
    if op == FLOAT:
        return push_float(vm, p, n)
    if op == INT and n == 2 and p[0] == 48 and (p[1] == 48 or p[1] == 49):
        # Protocol 0 writes False and True as integers with a leading zero.
        return push_kind(vm, V_TRUE if p[1] == 49 else V_FALSE, 0, 0)
    if op == LONG and n and p[n - 1] == 76:
        n -= 1
    if (op == INT or op == LONG) and leads_with_zero(p, n):
        return fail(&vm.tables.status, ERR_TEXT, "a malformed number")
    kind = parse_decimal(p, n, &number)
    if kind == V_UNSET:
        return fail(&vm.tables.status, ERR_TEXT, "a malformed number")
    if op == INT or op == LONG:
        return push_kind(vm, kind, number, 0)
    if kind != V_INT:
        return fail(&vm.tables.status, ERR_TEXT, "a malformed memo index")
    return op_get(vm, number) if op == GET else op_put(vm, number)
