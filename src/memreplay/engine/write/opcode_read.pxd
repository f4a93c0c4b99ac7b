# Read a pickle opcode in place, to find its length and its effect on the memo.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr
from memreplay.engine.read.opcodes cimport (
    ADDITEMS, APPEND, APPENDS, BINBYTES, BINBYTES8, BINFLOAT, BINGET, BININT, BININT1, BININT2,
    BINPUT, BINSTRING, BINUNICODE, BINUNICODE8, BYTEARRAY8, DICT, DUP, EMPTY_DICT, EMPTY_LIST,
    EMPTY_SET, EMPTY_TUPLE, FLOAT, FRAME, FROZENSET, GET, GLOBAL, INT, LIST, LONG, LONG1, LONG4,
    LONG_BINGET, LONG_BINPUT, MARK, MEMOIZE, NEWFALSE, NEWTRUE, NONE, POP, POP_MARK, PROTO, PUT,
    REDUCE, SETITEM, SETITEMS, SHORT_BINBYTES, SHORT_BINSTRING, SHORT_BINUNICODE, STOP, STRING,
    TUPLE, TUPLE1, TUPLE2, TUPLE3, UNICODE,
)

cdef enum Size:
    ENDS_EARLY = -1        # more bytes are needed
    NO_OPCODE = -2

cdef enum Effect:
    OF_A_VALUE = 0         # doesn't change the memo
    OF_NOTHING = 1         # no effect at all
    STORES = 2             # stores the top value under an index
    FETCHES = 3
    NO_INDEX = 4           # the index isn't a number


cdef inline uint64_t little(const uint8_t* p, int n) noexcept nogil:
    # Read a little-endian number of n bytes.
    cdef uint64_t v = 0
    cdef int i
    for i in range(n):
        v |= <uint64_t> p[i] << (8 * i)
    return v


# --- length ---------------------------------------------------------------------------------------

cdef inline int64_t fixed(const uint8_t* p, const uint8_t* end, int64_t n) noexcept nogil:
    return 1 + n if end - p > n else ENDS_EARLY


cdef inline int64_t counted(const uint8_t* p, const uint8_t* end, int width) noexcept nogil:
    # Return the size of an opcode that has a length of `width` bytes, then data.
    cdef uint64_t n
    if end - p <= width:
        return ENDS_EARLY
    n = little(p + 1, width)
    if n > <uint64_t> (end - p - 1 - width):
        return ENDS_EARLY
    return 1 + width + <int64_t> n


cdef inline int64_t line(const uint8_t* p, const uint8_t* end, int lines) noexcept nogil:
    cdef const uint8_t* q = p + 1
    cdef const void* at
    cdef int _i
    for _i in range(lines):
        at = memchr(q, 10, end - q)
        if at == NULL:
            return ENDS_EARLY
        q = <const uint8_t*> at + 1
    return q - p


cdef inline int64_t opcode_size(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Return the size of the opcode at p including its argument, or ENDS_EARLY or NO_OPCODE. Opcodes
    # that import, call or refer to external data count as NO_OPCODE.
    cdef uint8_t op = p[0]
    if op in (BININT1, BINGET, BINPUT, PROTO):
        return fixed(p, end, 1)
    elif op == BININT2:
        return fixed(p, end, 2)
    elif op in (BININT, LONG_BINGET, LONG_BINPUT):
        return fixed(p, end, 4)
    elif op in (BINFLOAT, FRAME):
        return fixed(p, end, 8)
    elif op in (LONG1, SHORT_BINUNICODE, SHORT_BINSTRING, SHORT_BINBYTES):
        return counted(p, end, 1)
    elif op in (LONG4, BINUNICODE, BINSTRING, BINBYTES):
        return counted(p, end, 4)
    elif op in (BINUNICODE8, BINBYTES8, BYTEARRAY8):
        return counted(p, end, 8)
    elif op in (INT, LONG, FLOAT, STRING, UNICODE, GET, PUT):
        return line(p, end, 1)
    elif op == GLOBAL:
        return line(p, end, 2)
    elif op in (MARK, STOP, POP, POP_MARK, DUP, NONE, EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3,
                LIST, DICT, APPEND, APPENDS, SETITEM, SETITEMS, EMPTY_LIST, EMPTY_DICT, NEWTRUE,
                NEWFALSE, MEMOIZE, EMPTY_SET, ADDITEMS, FROZENSET, REDUCE):
        return 1
    return NO_OPCODE


# --- effect on the memo ---------------------------------------------------------------------------

cdef inline Effect decimal(const uint8_t* p, int64_t n, Effect effect,
                           uint64_t* out) noexcept nogil:
    # Read the argument of GET and PUT: digits up to the end of the line.
    cdef int64_t i
    out[0] = 0
    if n < 1 or n > 12:
        return NO_INDEX
    for i in range(n):
        if not 48 <= p[i] <= 57:
            return NO_INDEX
        out[0] = out[0] * 10 + (p[i] - 48)
    return effect


cdef inline Effect memo_effect(const uint8_t* p, int64_t n, uint64_t entries,
                               uint64_t* index) noexcept nogil:
    # Return the effect of the opcode of n bytes at p. Store the index of its memo entry, if any.
    # The memo has `entries` entries.
    cdef uint8_t op = p[0]
    if op == MEMOIZE:
        index[0] = entries
        return STORES
    elif op in (BINPUT, BINGET):
        index[0] = p[1]
        return STORES if op == BINPUT else FETCHES
    elif op in (LONG_BINPUT, LONG_BINGET):
        index[0] = little(p + 1, 4)
        return STORES if op == LONG_BINPUT else FETCHES
    elif op in (PUT, GET):
        return decimal(p + 1, n - 2, STORES if op == PUT else FETCHES, index)
    elif op in (PROTO, FRAME):
        return OF_NOTHING
    return OF_A_VALUE
