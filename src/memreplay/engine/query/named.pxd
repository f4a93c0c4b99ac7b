# Search the names of a snapshot's frames for regular expressions.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memset
from memreplay.engine.base.growbuf cimport (
    Buf, buf_free, buf_init, buf_reserve, push_bytes, push_item
)
from memreplay.engine.base.hashmap cimport (
    NONE32, Map64, Slot64, map64_at, map64_free, map64_init, span_at, spans_len
)
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.query.regex cimport NONE_FOUND, Regexes, lowest, regexes_search
from memreplay.engine.read.tables cimport FrameKey, Tables

cdef enum:
    NOT_USED = 255      # no frame has the string
    # A file's and a function's bytes that are searched. If many functions of a small file share a
    # huge name, their texts together would take forever.
    MOST_FILE = 4096    # at the end; no system has longer paths
    MOST_NAME = 16384   # at the start


cdef inline bint is_ascii(const uint8_t* text, size_t n) noexcept nogil:
    cdef uint8_t every = 0
    cdef size_t i
    for i in range(n):
        every |= text[i]
    return every < 128


cdef inline int push_text(const Tables* t, const FrameKey* f, Buf* text) noexcept nogil:
    # Append a frame's `file:function`, as much of it as is searched.
    cdef size_t n = 0
    cdef const uint8_t* p = span_at(&t.strings, f.file, &n)
    if n > MOST_FILE:
        p += n - MOST_FILE
        n = MOST_FILE
    if push_bytes(text, p, n) < 0 or push_bytes(text, b":", 1) < 0:
        return ERR_MEMORY
    p = span_at(&t.strings, f.name, &n)
    return OK if push_bytes(text, p, min(n, <size_t> MOST_NAME)) == 0 else ERR_MEMORY


cdef inline int regexes_of_frames(const Regexes* r, const Tables* t, uint64_t seed, Buf* out,
                                  Buf* others) noexcept nogil:
    # Fill `out` (of u64) with the bits of each frame's `file:function`, and `others` (of u32) with
    # the frames whose text isn't ASCII. Each distinct text is searched once.
    cdef const FrameKey* frames = <const FrameKey*> t.frames.data.data
    cdef uint32_t n = spans_len(&t.frames)
    cdef uint64_t* bits
    # file and function -> the first frame with them; NONE32 if the text isn't ASCII
    cdef Map64 known
    cdef Slot64* slot
    cdef Buf text
    cdef uint32_t i
    cdef int failed = OK
    if buf_reserve(out, n) < 0 or map64_init(&known, seed) < 0:
        return ERR_MEMORY
    out.len = n
    bits = <uint64_t*> out.data
    buf_init(&text, 1)
    for i in range(n):
        slot = map64_at(&known, <uint64_t> frames[i].file << 32 | frames[i].name, i)
        text.len = 0
        bits[i] = 0
        if slot == NULL:
            failed = ERR_MEMORY
            break
        if slot.value == i:
            failed = push_text(t, &frames[i], &text)
            if failed:
                break
            if is_ascii(<const uint8_t*> text.data, text.len):
                bits[i] = regexes_search(r, <const uint8_t*> text.data, text.len)
                continue
            slot.value = NONE32
        if slot.value != NONE32:
            bits[i] = bits[slot.value]
        elif push_item(others, &i) < 0:
            failed = ERR_MEMORY
            break
    buf_free(&text)
    map64_free(&known)
    return failed


cdef inline int regexes_of_names(const Regexes* r, const Tables* t, bint functions, Buf* out,
                                 Buf* others) noexcept nogil:
    # Fill `out` (of u8) with the lowest bit of each function's or file's name, by string id, and
    # `others` (of u32) with the names that aren't ASCII. Files are searched with slashes in place
    # of backslashes.
    cdef const FrameKey* frames = <const FrameKey*> t.frames.data.data
    cdef uint32_t n = spans_len(&t.strings)
    cdef uint8_t* ranks
    cdef uint8_t* at
    cdef const uint8_t* p
    cdef size_t length = 0
    cdef Buf text
    cdef uint64_t found
    cdef uint32_t i, name
    cdef int failed = OK
    if buf_reserve(out, n) < 0:
        return ERR_MEMORY
    out.len = n
    ranks = <uint8_t*> out.data
    memset(ranks, NOT_USED, n)
    buf_init(&text, 1)
    for i in range(spans_len(&t.frames)):
        name = frames[i].name if functions else frames[i].file
        if ranks[name] != NOT_USED:
            continue
        ranks[name] = NONE_FOUND
        p = span_at(&t.strings, name, &length)
        text.len = 0
        if push_bytes(&text, p, length) < 0:
            failed = ERR_MEMORY
            break
        if not is_ascii(p, length):
            if push_item(others, &name) < 0:
                failed = ERR_MEMORY
                break
            continue
        at = <uint8_t*> memchr(text.data, c"\\", length) if not functions and length else NULL
        while at != NULL:
            at[0] = c"/"
            at = <uint8_t*> memchr(at, c"\\", text.len - (at - <uint8_t*> text.data))
        found = regexes_search(r, <const uint8_t*> text.data, length)
        ranks[name] = lowest(found)
    buf_free(&text)
    return failed
