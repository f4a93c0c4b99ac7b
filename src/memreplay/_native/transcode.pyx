"""A pickle rewritten in another protocol, opcode by opcode: whatever it holds, it still holds.

What both protocols have goes through as it is. What differs is how a text is spelled, how the memo
is written to, and frames; memo entries are numbered anew, in the order in which they are stored.
Nothing is unpickled, and the stack is not looked at.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memset
from memreplay._native.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay._native.opcode cimport *
from memreplay._native.status cimport DONE, ERR_MEMORY, ERR_OPCODE, NEED_MORE

cdef enum:
    FRAME_SIZE = 64 << 10
    FRAME_HEAD = 9


cdef int transcode_init(Transcode* t, int protocol) noexcept nogil:
    memset(t, 0, sizeof(Transcode))
    t.protocol = protocol
    buf_init(&t.out.b, 1)
    buf_init(&t.memo, 4)
    return 0


cdef void transcode_free(Transcode* t) noexcept nogil:
    buf_free(&t.out.b)
    buf_free(&t.memo)


# --- how long an opcode is ------------------------------------------------------------------------

cdef inline uint64_t little(const uint8_t* p, int n) noexcept nogil:
    cdef uint64_t v = 0
    cdef int i
    for i in range(n):
        v |= <uint64_t> p[i] << (8 * i)
    return v


cdef inline int64_t fixed(const uint8_t* p, const uint8_t* end, int64_t n) noexcept nogil:
    return 1 + n if end - p > n else ENDS_EARLY


cdef inline int64_t counted(const uint8_t* p, const uint8_t* end, int width) noexcept nogil:
    # Behind a length of so many bytes.
    cdef uint64_t n
    if end - p <= width:
        return ENDS_EARLY
    n = little(p + 1, width)
    if n > <uint64_t> (end - p - 1 - width):
        return ENDS_EARLY
    return 1 + width + <int64_t> n


cdef int64_t line(const uint8_t* p, const uint8_t* end, int lines) noexcept nogil:
    cdef const uint8_t* q = p + 1
    cdef const void* at
    cdef int _i
    for _i in range(lines):
        at = memchr(q, 10, end - q)
        if at == NULL:
            return ENDS_EARLY
        q = <const uint8_t*> at + 1
    return q - p


cdef int64_t opcode_size(const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Bytes of the opcode at p with its argument; ENDS_EARLY or NO_OPCODE. Those that import, call
    # or refer to what is not in the file are none.
    cdef uint8_t op = p[0]
    if op in (BININT1, BINGET, BINPUT, PROTO):
        return fixed(p, end, 1)
    if op == BININT2:
        return fixed(p, end, 2)
    if op in (BININT, LONG_BINGET, LONG_BINPUT):
        return fixed(p, end, 4)
    if op in (BINFLOAT, FRAME):
        return fixed(p, end, 8)
    if op in (LONG1, SHORT_BINUNICODE, SHORT_BINSTRING, SHORT_BINBYTES):
        return counted(p, end, 1)
    if op in (LONG4, BINUNICODE, BINSTRING, BINBYTES):
        return counted(p, end, 4)
    if op in (BINUNICODE8, BINBYTES8, BYTEARRAY8):
        return counted(p, end, 8)
    if op in (INT, LONG, FLOAT, STRING, UNICODE, GET, PUT):
        return line(p, end, 1)
    if op == GLOBAL:
        return line(p, end, 2)
    if op in (MARK, STOP, POP, POP_MARK, DUP, NONE, EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3,
              LIST, DICT, APPEND, APPENDS, SETITEM, SETITEMS, EMPTY_LIST, EMPTY_DICT, NEWTRUE,
              NEWFALSE, MEMOIZE, EMPTY_SET, ADDITEMS, FROZENSET, REDUCE):
        return 1
    return NO_OPCODE


# --- the memo -------------------------------------------------------------------------------------

cdef int wrong(Transcode* t, const char* why) noexcept nogil:
    t.wrong = why
    return ERR_OPCODE


cdef int decimal(const uint8_t* p, int64_t n, uint64_t* out) noexcept nogil:
    # The argument of GET and PUT: digits up to the end of the line.
    cdef int64_t i
    out[0] = 0
    if n < 1 or n > 12:
        return -1
    for i in range(n):
        if not 48 <= p[i] <= 57:
            return -1
        out[0] = out[0] * 10 + (p[i] - 48)
    return 0


cdef int store(Transcode* t, uint64_t index) noexcept nogil:
    # The value on top goes into the memo, under this index in the input.
    cdef uint32_t* entry
    cdef size_t old = t.memo.len
    cdef bint fresh
    # An opcode stores one entry at most: who numbers further is not to be believed.
    if index > t.offset:
        return wrong(t, "a memo index far beyond the file")
    if index >= t.memo.len:
        if buf_reserve(&t.memo, index + 1 - old) < 0:
            return ERR_MEMORY
        memset(t.memo.data + 4 * old, 0, 4 * (index + 1 - old))
        t.memo.len = index + 1
    entry = <uint32_t*> t.memo.data + index
    fresh = entry[0] == 0
    if fresh:
        t.stored += 1
        entry[0] = t.stored
    if fresh and t.protocol >= 4:
        put_op(&t.out, MEMOIZE)
    elif entry[0] <= 0x100:
        put_op(&t.out, BINPUT)
        put_little(&t.out, entry[0] - 1, 1)
    else:
        put_op(&t.out, LONG_BINPUT)
        put_little(&t.out, entry[0] - 1, 4)
    return 0


cdef int fetch(Transcode* t, uint64_t index) noexcept nogil:
    if index >= t.memo.len or (<const uint32_t*> t.memo.data)[index] == 0:
        return wrong(t, "a memo index that was never stored")
    put_get(&t.out, (<const uint32_t*> t.memo.data)[index] - 1)
    return 0


# --- opcodes --------------------------------------------------------------------------------------

cdef int least_protocol(uint8_t op) noexcept nogil:
    if op == BYTEARRAY8:
        return 5
    if op in (EMPTY_SET, ADDITEMS, FROZENSET, BINUNICODE8, BINBYTES8):
        return 4
    if op in (BINBYTES, SHORT_BINBYTES):
        return 3
    return 2


cdef inline bint is_inert(const uint8_t* p, int64_t n) noexcept nogil:
    # The two names that stand for nothing (vm.pyx).
    return ((n == 36 and memcmp(p, b"ctorch.jit._pickle\nrestore_type_tag\n", 36) == 0)
            or (n == 33 and memcmp(p, b"ctorch.jit._pickle\nbuild_intlist\n", 33) == 0))


cdef int rewrite(Transcode* t, const uint8_t* p, int64_t n) noexcept nogil:
    # One opcode of n bytes.
    cdef uint8_t op = p[0]
    cdef uint64_t index = 0
    if op == PROTO or op == FRAME:
        return 0
    if op == MEMOIZE:
        return store(t, t.stored)
    if op == BINPUT:
        return store(t, p[1])
    if op == LONG_BINPUT:
        return store(t, little(p + 1, 4))
    if op == BINGET:
        return fetch(t, p[1])
    if op == LONG_BINGET:
        return fetch(t, little(p + 1, 4))
    if op == GET or op == PUT:
        if decimal(p + 1, n - 2, &index) < 0:
            return wrong(t, "a memo index that is no number")
        return fetch(t, index) if op == GET else store(t, index)
    if op == SHORT_BINUNICODE or (op == BINUNICODE and t.protocol >= 4):
        index = 2 if op == SHORT_BINUNICODE else 5
        put_text_head(&t.out, <uint64_t> n - index, t.protocol)
        put_bytes(&t.out, p + index, <size_t> (n - <int64_t> index))
        return 0
    if op == GLOBAL and not is_inert(p, n):
        return wrong(t, "a name that would be imported")
    if least_protocol(op) > t.protocol:
        return wrong(t, "a kind of value that the protocol does not have")
    put_bytes(&t.out, p, <size_t> n)
    t.ended = op == STOP
    return 0


cdef void close_frame(Transcode* t) noexcept nogil:
    cdef uint64_t size = t.out.b.len - t.frame - FRAME_HEAD
    cdef int i
    t.framing = False
    if not t.out.failed:
        for i in range(8):
            t.out.b.data[t.frame + 1 + i] = <char> (size >> (8 * i))


cdef void open_frame(Transcode* t) noexcept nogil:
    t.frame = t.out.b.len
    t.framing = True
    put_op(&t.out, FRAME)
    put_little(&t.out, 0, 8)


cdef int transcode_feed(Transcode* t, const uint8_t* p, size_t n, size_t* taken) noexcept nogil:
    # The opcodes that are whole in these bytes, appended to `out`, which keeps an open frame at its
    # end. DONE after STOP, NEED_MORE, or an error.
    cdef const uint8_t* start = p
    cdef const uint8_t* end = p + n
    cdef int64_t size
    cdef int code
    if not t.began:
        t.began = True
        put_op(&t.out, PROTO)
        put_little(&t.out, <uint64_t> t.protocol, 1)
    while p < end and not t.ended:
        size = opcode_size(p, end)
        t.opcode = p[0]
        if size == ENDS_EARLY:
            break
        if size == NO_OPCODE:
            return wrong(t, "an opcode that no snapshot needs")
        if t.protocol >= 4 and not t.framing:
            open_frame(t)
        code = rewrite(t, p, size)
        if code != 0:
            return code
        if t.framing and (t.out.b.len - t.frame >= FRAME_SIZE or t.ended):
            close_frame(t)
        if t.out.failed:
            return ERR_MEMORY
        p += size
        t.offset += <uint64_t> size
    taken[0] = p - start
    return DONE if t.ended else NEED_MORE
