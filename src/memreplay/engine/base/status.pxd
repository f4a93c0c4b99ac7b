# Why a stage stopped: error code, byte offset, opcode, and details for the message.
from libc.stdint cimport uint64_t, uint8_t

cdef enum Code:
    OK = 0
    NEED_MORE = 1        # the window ends inside an opcode; refill it and call again
    DONE = 2
    ERR_MEMORY = 3
    ERR_TRUNCATED = 4    # a: bytes needed, b: bytes left; detail: "JSON" if it isn't a pickle
    ERR_UNSAFE = 5       # detail: the global or call
    ERR_OPCODE = 6       # not an opcode, or one that snapshots don't use
    ERR_STACK = 7        # the opcode needs more values than the stack holds
    ERR_MEMO = 8         # a: memo index that was never stored
    ERR_TYPE = 9         # detail: key with a value of the wrong type
    ERR_SHAPE = 10       # detail: the part that doesn't look like a snapshot
    ERR_NUMBER = 11      # detail: key with a number that doesn't fit
    ERR_LIMIT = 12       # detail: the limit's name, a: requested, b: allowed
    ERR_TEXT = 13        # malformed argument of a text opcode (protocol 0)
    ERR_JSON = 14        # detail: the fault

cdef enum:
    DETAIL_SIZE = 240

cdef struct Status:
    int code
    uint8_t opcode
    uint64_t offset
    uint64_t a
    uint64_t b
    char detail[240]


cdef inline void set_detail(Status* s, const char* text) noexcept nogil:
    cdef size_t i = 0
    while i + 1 < DETAIL_SIZE and text[i] != 0:
        s.detail[i] = text[i]
        i += 1
    s.detail[i] = 0


cdef inline void set_detail_bytes(Status* s, const uint8_t* p, size_t n) noexcept nogil:
    cdef size_t i
    if n > DETAIL_SIZE - 1:
        n = DETAIL_SIZE - 1
    for i in range(n):
        s.detail[i] = <char> (p[i] if 32 <= p[i] < 127 else 63)
    s.detail[n] = 0


cdef inline int fail(Status* s, int code, const char* text) noexcept nogil:
    s.code = code
    set_detail(s, text)
    return code


cdef inline int fail_limit(Status* s, const char* name, uint64_t asked,
                           uint64_t allowed) noexcept nogil:
    s.code = ERR_LIMIT
    s.a = asked
    s.b = allowed
    set_detail(s, name)
    return ERR_LIMIT
