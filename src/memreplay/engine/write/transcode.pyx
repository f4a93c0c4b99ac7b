"""Rewrite a pickle in another protocol, opcode by opcode, preserving its content.

Opcodes that both protocols have are copied; text opcodes, memo writes and frames are converted.
Memo entries are renumbered in the order in which they are stored. Nothing is unpickled, and the
stack isn't tracked.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset, strlen
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve
from memreplay.engine.write.opcode cimport (
    FRAME_SIZE, close_frame, open_frame, put_get, put_little, put_op, put_put, put_text_head,
)
from memreplay.engine.write.opcode_read cimport (
    ENDS_EARLY, Effect, FETCHES, NO_INDEX, NO_OPCODE, OF_NOTHING, STORES, memo_effect, opcode_size,
)
from memreplay.engine.base.status cimport DONE, ERR_MEMORY, ERR_OPCODE, NEED_MORE
from memreplay.engine.base.emit cimport put_bytes
from memreplay.engine.read.inert cimport EMPTY_BYTES, INERTS, inert_global
from memreplay.engine.read.opcodes cimport (
    ADDITEMS, BINBYTES, BINBYTES8, BINUNICODE, BINUNICODE8, BYTEARRAY8, EMPTY_SET, FROZENSET,
    GLOBAL, MEMOIZE, PROTO, SHORT_BINBYTES, SHORT_BINUNICODE, STOP,
)


cdef int transcode_init(Transcode* t, int protocol) noexcept nogil:
    memset(t, 0, sizeof(Transcode))
    t.protocol = protocol
    buf_init(&t.out.b, 1)
    buf_init(&t.memo, 4)
    return 0


cdef void transcode_free(Transcode* t) noexcept nogil:
    buf_free(&t.out.b)
    buf_free(&t.memo)


# --- the memo -------------------------------------------------------------------------------------

cdef int wrong(Transcode* t, const char* why) noexcept nogil:
    t.wrong = why
    return ERR_OPCODE


cdef int store(Transcode* t, uint64_t index) noexcept nogil:
    # Store the top value in the memo. `index` is its memo index in the input.
    cdef uint32_t* entry
    cdef size_t old = t.memo.len
    cdef bint fresh
    # Each opcode stores at most one entry, so an index above the offset is bogus.
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
    else:
        put_put(&t.out, entry[0] - 1)
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


cdef inline bint names(const uint8_t* p, int64_t n, uint32_t which) noexcept nogil:
    cdef const char* name = inert_global(which)
    return <size_t> n == strlen(name) and memcmp(p, name, <size_t> n) == 0


cdef inline bint is_inert(const uint8_t* p, int64_t n) noexcept nogil:
    # Whether p names a function that the reader treats as data.
    cdef uint32_t which
    for which in range(INERTS):
        if names(p, n, which):
            return True
    return False


cdef int rewrite(Transcode* t, const uint8_t* p, int64_t n) noexcept nogil:
    # Rewrite one opcode of n bytes.
    cdef uint8_t op = p[0]
    cdef int64_t head
    cdef uint64_t index = 0
    cdef Effect effect = memo_effect(p, n, t.stored, &index)
    if effect == OF_NOTHING:
        return 0
    if effect == STORES:
        return store(t, index)
    if effect == FETCHES:
        return fetch(t, index)
    if effect == NO_INDEX:
        return wrong(t, "a memo index that isn't a number")
    if op == SHORT_BINUNICODE or (op == BINUNICODE and t.protocol >= 4):
        head = 2 if op == SHORT_BINUNICODE else 5
        put_text_head(&t.out, <uint64_t> (n - head), t.protocol)
        put_bytes(&t.out, p + head, <size_t> (n - head))
        return 0
    if op == GLOBAL and not is_inert(p, n):
        return wrong(t, "a name that would be imported")
    if op == GLOBAL and t.protocol >= 3 and names(p, n, EMPTY_BYTES):
        # pickle translates Python 2's names only up to protocol 2.
        put_bytes(&t.out, b"cbuiltins\nbytes\n", 16)
        return 0
    if least_protocol(op) > t.protocol:
        return wrong(t, "a kind of value that the protocol doesn't support")
    put_bytes(&t.out, p, <size_t> n)
    t.ended = op == STOP
    return 0


cdef int transcode_feed(Transcode* t, const uint8_t* p, size_t n, size_t* taken) noexcept nogil:
    # Append the complete opcodes in these bytes to `out`. The last frame may stay open. Returns
    # DONE after STOP, NEED_MORE, or an error.
    cdef const uint8_t* start = p
    cdef const uint8_t* end = p + n
    cdef int64_t size
    cdef int code
    if t.out.failed:
        return ERR_MEMORY
    if not t.began:
        t.began = True
        put_op(&t.out, PROTO)
        put_little(&t.out, <uint64_t> t.protocol, 1)
    while p < end and not t.ended:
        size = opcode_size(p, end)
        if size == ENDS_EARLY:
            break
        if size == NO_OPCODE:
            return wrong(t, "an unsupported opcode")
        if t.protocol >= 4 and not t.framing:
            t.frame = open_frame(&t.out)
            t.framing = True
        code = rewrite(t, p, size)
        t.out.failed |= code == ERR_MEMORY
        if code != 0:
            return code
        if t.framing and (t.out.b.len - t.frame >= FRAME_SIZE or t.ended):
            close_frame(&t.out, t.frame)
            t.framing = False
        if t.out.failed:
            return ERR_MEMORY
        p += size
        t.offset += <uint64_t> size
    taken[0] = p - start
    return DONE if t.ended else NEED_MORE
