"""Convert JSON text to pickle opcodes, whatever its keys mean.

A repeated string becomes a GET of the first string. So does a repeated frame, that is, an object
with the same spelling in a list called `frames`. JSON has no tuples, so a pool id is a list of two
integers, which becomes a tuple, as PyTorch writes it.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset, strlen
from memreplay.engine.base.emit cimport Out, is_text, put_byte, put_bytes
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_bytes, push_item, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, spans_free, spans_init, spans_intern
)
from memreplay.engine.write.opcode cimport (
    FRAME_SIZE, close_frame, open_frame, put_get, put_int, put_little, put_op, put_put,
    put_text_head, put_uint, put_utf8,
)
from memreplay.engine.base.reals cimport REAL_LIMIT, is_json_name, is_real, real_of
from memreplay.engine.base.status cimport DONE, ERR_JSON, ERR_MEMORY, NEED_MORE
from memreplay.engine.read.opcodes cimport (
    APPENDS, BINFLOAT, EMPTY_DICT, EMPTY_LIST, MARK, MEMOIZE, NEWFALSE, NEWTRUE, NONE, PROTO,
    SETITEMS, STOP, TUPLE2,
)

cdef enum:
    BATCH = 1000
    DEPTH = 1024

cdef enum Meaning:
    # The content of a list, according to its key.
    M_NOTHING = 0
    M_FRAMES = 1
    M_POOL = 2


cdef struct Level:
    bint is_dict
    uint32_t items       # number of items in the open batch
    int meaning          # Meaning of the list, or of the next value in a dict


cdef int reading_init(Reading* r, const uint8_t* p, size_t n, int protocol,
                      uint64_t seed) noexcept nogil:
    memset(r, 0, sizeof(Reading))
    r.start = p
    r.p = p
    r.end = p + n
    r.protocol = protocol
    r.shares = True
    buf_init(&r.out.b, 1)
    buf_init(&r.text, 1)
    buf_init(&r.levels, sizeof(Level))
    buf_init(&r.string_at, 4)
    buf_init(&r.object_at, 4)
    if spans_init(&r.strings, seed) < 0 or spans_init(&r.objects, seed) < 0:
        return ERR_MEMORY
    return 0


cdef void reading_free(Reading* r) noexcept nogil:
    buf_free(&r.out.b)
    buf_free(&r.text)
    buf_free(&r.levels)
    buf_free(&r.string_at)
    buf_free(&r.object_at)
    spans_free(&r.strings)
    spans_free(&r.objects)


cdef inline int wrong(Reading* r, const char* why) noexcept nogil:
    r.wrong = why
    return ERR_JSON


cdef inline void skip_space(Reading* r) noexcept nogil:
    while r.p < r.end and (r.p[0] == 32 or r.p[0] == 9 or r.p[0] == 10 or r.p[0] == 13):
        r.p += 1


cdef inline void memoise(Reading* r) noexcept nogil:
    if r.protocol >= 4:
        put_op(&r.out, MEMOIZE)
    else:
        put_put(&r.out, r.memoised)
    r.memoised += 1


# --- texts ----------------------------------------------------------------------------------------

cdef int hex4(const uint8_t* p, const uint8_t* end, uint32_t* out) noexcept nogil:
    cdef int i
    cdef uint32_t digit
    out[0] = 0
    if end - p < 4:
        return -1
    for i in range(4):
        digit = p[i] | 0x20
        if 48 <= p[i] <= 57:
            digit = p[i] - 48
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return -1
        out[0] = out[0] << 4 | digit
    return 0


cdef int read_escape(Reading* r, const uint8_t** pp, const uint8_t* end) noexcept nogil:
    # Read the rest of an escape, after the backslash.
    cdef uint8_t[4] char_bytes
    cdef const uint8_t* p = pp[0]
    cdef uint32_t code = 0
    cdef uint32_t low = 0
    cdef uint8_t c
    if p == end:
        return wrong(r, "an incomplete escape")
    c = p[0]
    p += 1
    if c == 117:
        if hex4(p, end, &code) < 0:
            return wrong(r, "a \\u without four digits")
        p += 4
        if (0xD800 <= code < 0xDC00 and end - p >= 6 and p[0] == 92 and p[1] == 117
                and hex4(p + 2, end, &low) == 0 and 0xDC00 <= low < 0xE000):
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            p += 6
    elif c == 98:
        code = 8
    elif c == 102:
        code = 12
    elif c == 110:
        code = 10
    elif c == 114:
        code = 13
    elif c == 116:
        code = 9
    elif c == 34 or c == 92 or c == 47:
        code = c
    else:
        return wrong(r, "an unknown escape")
    pp[0] = p
    if push_bytes(&r.text, char_bytes, put_utf8(char_bytes, code)) < 0:
        return ERR_MEMORY
    return 0


cdef int put_string(Reading* r, const uint8_t* p, const uint8_t* end) noexcept nogil:
    # Write a string, given the text between its quotes.
    cdef const uint8_t* run
    cdef uint32_t id
    cdef int code
    if r.shares:
        id = spans_intern(&r.strings, p, end - p)
        if id == NONE32:
            return ERR_MEMORY
        if id < r.string_at.len:
            put_get(&r.out, (<const uint32_t*> r.string_at.data)[id])
            return 0
        if push_u32(&r.string_at, r.memoised) < 0:
            return ERR_MEMORY
    r.text.len = 0
    while p < end:
        run = p
        while p < end and p[0] != 92:
            p += 1
        if push_bytes(&r.text, run, p - run) < 0:
            return ERR_MEMORY
        if p < end:
            p += 1
            code = read_escape(r, &p, end)
            if code != 0:
                return code
    if not is_text(<const uint8_t*> r.text.data, r.text.len):
        return wrong(r, "text that is not UTF-8")
    put_text_head(&r.out, r.text.len, r.protocol)
    put_bytes(&r.out, r.text.data, r.text.len)
    if r.shares:
        memoise(r)
    return 0


cdef int string_end(Reading* r, const uint8_t** end) noexcept nogil:
    # Move r.p from the opening quote to the start of the string, and set `end` to the closing
    # quote.
    cdef const uint8_t* p = r.p + 1
    while p < r.end and p[0] != 34:
        if p[0] < 32:
            return wrong(r, "a control character in a text")
        p += 2 if p[0] == 92 else 1
    if p >= r.end:
        return wrong(r, "an unterminated string")
    r.p += 1
    end[0] = p
    return 0


# --- numbers and words ----------------------------------------------------------------------------

cdef int put_whole(Reading* r, const uint8_t* p, size_t n) noexcept nogil:
    # Write an integer whose digits were already checked.
    cdef bint negative = p[0] == 45
    cdef uint64_t v = 0
    cdef uint64_t digit
    cdef size_t i
    for i in range(<size_t> negative, n):
        digit = p[i] - 48
        if v > (<uint64_t> 0xFFFFFFFFFFFFFFFF - digit) // 10:
            return wrong(r, "an integer over 64 bits")
        v = v * 10 + digit
    if not negative:
        put_uint(&r.out, v)
    elif v > <uint64_t> 1 << 63:
        return wrong(r, "an integer over 64 bits")
    else:
        put_int(&r.out, <int64_t> (0 - v))
    return 0


cdef int put_number(Reading* r) noexcept nogil:
    cdef const uint8_t* p = r.p
    cdef uint64_t bits = 0
    cdef double real
    cdef size_t n
    cdef size_t i
    cdef bint whole = True
    while p < r.end and (48 <= p[0] <= 57 or 65 <= p[0] <= 90 or 97 <= p[0] <= 122 or p[0] == 43
                         or p[0] == 45 or p[0] == 46):
        p += 1
    n = p - r.p
    if n == 0 or n > REAL_LIMIT:
        return wrong(r, "an invalid value")
    for i in range(n):
        whole = whole and (48 <= r.p[i] <= 57 or (i == 0 and r.p[i] == 45 and n > 1))
    p = r.p
    r.p += n
    if not is_json_name(p, n) and not is_real(p, n, True):
        return wrong(r, "an invalid value")
    if whole:
        return put_whole(r, p, n)
    real = real_of(p, n)
    memcpy(&bits, &real, 8)
    put_op(&r.out, BINFLOAT)
    for i in range(8):
        put_byte(&r.out, <char> (bits >> (56 - 8 * i)))
    return 0


cdef bint take_word(Reading* r, const char* word, uint8_t op) noexcept nogil:
    cdef size_t n = strlen(word)
    if <size_t> (r.end - r.p) < n or memcmp(r.p, word, n) != 0:
        return False
    r.p += n
    put_op(&r.out, op)
    return True


# --- containers -----------------------------------------------------------------------------------

cdef int meaning_of(const uint8_t* p, size_t n) noexcept nogil:
    if n == 6 and memcmp(p, b"frames", 6) == 0:
        return M_FRAMES
    if ((n == 7 and memcmp(p, b"pool_id", 7) == 0)
            or (n == 15 and memcmp(p, b"segment_pool_id", 15) == 0)):
        return M_POOL
    return M_NOTHING


cdef inline bint whole_next(const Reading* r) noexcept nogil:
    # Whether an integer comes next.
    cdef const uint8_t* p = r.p
    if p < r.end and p[0] == 45:
        p += 1
    if p == r.end or not 48 <= p[0] <= 57:
        return False
    while p < r.end and 48 <= p[0] <= 57:
        p += 1
    return p < r.end and (p[0] == 44 or p[0] == 93 or p[0] <= 32)


cdef bint take_pair(Reading* r) noexcept nogil:
    # Read a list of exactly two integers, like [0, 1], as a tuple.
    cdef const uint8_t* back = r.p
    cdef size_t length = r.out.b.len
    cdef int i
    r.p += 1
    for i in range(2):
        skip_space(r)
        if not whole_next(r) or put_number(r) != 0:
            break
        skip_space(r)
        if r.p == r.end or r.p[0] != (93 if i else 44):
            break
        r.p += 1
        if i:
            put_op(&r.out, TUPLE2)
            return True
    r.p = back
    r.out.b.len = length
    r.wrong = NULL
    return False


cdef int known_object(Reading* r, bint* known, bint* memo) noexcept nogil:
    # Write a frame as a GET if its spelling was seen before; otherwise `memo` says to memoise it.
    # An object that contains a container isn't a frame.
    cdef const uint8_t* p = r.p + 1
    cdef bint inside = False
    cdef uint32_t id
    while p < r.end and (inside or p[0] != 125):
        if inside and p[0] == 92:
            p += 1
        elif p[0] == 34:
            inside = not inside
        elif not inside and (p[0] == 123 or p[0] == 91):
            return 0
        p += 1
    if p >= r.end:
        return wrong(r, "an unterminated object")
    p += 1
    id = spans_intern(&r.objects, r.p, p - r.p)
    if id == NONE32:
        return ERR_MEMORY
    known[0] = id < r.object_at.len
    if known[0]:
        put_get(&r.out, (<const uint32_t*> r.object_at.data)[id])
        r.p = p
        return 0
    memo[0] = True
    return 0 if push_u32(&r.object_at, r.memoised) == 0 else ERR_MEMORY


cdef int open_level(Reading* r, bint is_dict, int meaning, bint memo) noexcept nogil:
    cdef Level level
    if r.levels.len == DEPTH:
        return wrong(r, "more than 1,024 nested levels")
    memset(&level, 0, sizeof(Level))
    level.is_dict = is_dict
    level.meaning = meaning
    r.p += 1
    put_op(&r.out, EMPTY_DICT if is_dict else EMPTY_LIST)
    if memo:
        memoise(r)
    put_op(&r.out, MARK)
    return 0 if push_item(&r.levels, &level) == 0 else ERR_MEMORY


cdef int put_value(Reading* r) noexcept nogil:
    # Write a value, or open a container.
    cdef Level* level = NULL
    cdef const uint8_t* end = NULL
    cdef int meaning = M_NOTHING
    cdef bint known = False
    cdef bint memo = False
    cdef int code
    if r.levels.len:
        level = <Level*> r.levels.data + r.levels.len - 1
        meaning = level.meaning
    if r.p == r.end:
        return wrong(r, "a missing value")
    if r.p[0] == 34:
        code = string_end(r, &end)
        if code == 0:
            code = put_string(r, r.p, end)
            r.p = end + 1
        return code
    if r.p[0] == 123:
        if r.shares and level != NULL and not level.is_dict and meaning == M_FRAMES:
            code = known_object(r, &known, &memo)
            if code != 0 or known:
                return code
        return open_level(r, True, M_NOTHING, memo)
    if r.p[0] == 91:
        # A list inside a list of frames has no special meaning.
        meaning = meaning if level != NULL and level.is_dict else M_NOTHING
        if meaning == M_POOL and take_pair(r):
            return 0
        return open_level(r, False, meaning, False)
    if take_word(r, b"null", NONE) or take_word(r, b"true", NEWTRUE) or take_word(r, b"false",
                                                                                  NEWFALSE):
        return 0
    return put_number(r)


cdef int put_key(Reading* r, Level* level) noexcept nogil:
    cdef const uint8_t* end = NULL
    cdef int code
    if r.p == r.end or r.p[0] != 34:
        return wrong(r, "a key that isn't a string")
    code = string_end(r, &end)
    if code != 0:
        return code
    level.meaning = meaning_of(r.p, end - r.p)
    code = put_string(r, r.p, end)
    r.p = end + 1
    skip_space(r)
    if code == 0 and (r.p == r.end or r.p[0] != 58):
        return wrong(r, "a key without a colon")
    r.p += 1
    skip_space(r)
    return code


cdef int next_item(Reading* r, bint first) noexcept nogil:
    # Write the next item of the innermost container, or its end.
    cdef Level* level = <Level*> r.levels.data + r.levels.len - 1
    cdef uint8_t close = 125 if level.is_dict else 93
    cdef int code = 0
    skip_space(r)
    if r.p == r.end:
        return wrong(r, "an unterminated container")
    if r.p[0] == close:
        r.p += 1
        put_op(&r.out, SETITEMS if level.is_dict else APPENDS)
        r.levels.len -= 1
        return 0
    if not first:
        if r.p[0] != 44:
            return wrong(r, "a missing comma")
        r.p += 1
        skip_space(r)
    if level.items == BATCH:
        put_op(&r.out, SETITEMS if level.is_dict else APPENDS)
        put_op(&r.out, MARK)
        level.items = 0
    level.items += 1
    if level.is_dict:
        code = put_key(r, level)
    return code if code != 0 else put_value(r)


cdef inline bint is_first(const Reading* r) noexcept nogil:
    # Nothing has been read from the innermost container yet.
    return (<const Level*> r.levels.data)[r.levels.len - 1].items == 0


# --- entry points ---------------------------------------------------------------------------------

cdef int put_json(Out* o, const uint8_t* p, size_t n) noexcept nogil:
    # Write a value that was rendered as JSON. Returns -1 and writes nothing if it's invalid.
    cdef Reading r
    cdef size_t length = o.b.len
    cdef int code
    memset(&r, 0, sizeof(Reading))
    r.start = p
    r.p = p
    r.end = p + n
    r.protocol = 4
    r.out = o[0]
    buf_init(&r.text, 1)
    buf_init(&r.levels, sizeof(Level))
    skip_space(&r)
    code = put_value(&r)
    while code == 0 and r.levels.len:
        code = next_item(&r, is_first(&r))
    o[0] = r.out
    if code == ERR_MEMORY:
        o.failed = True
    elif code != 0:
        o.b.len = length
    buf_free(&r.text)
    buf_free(&r.levels)
    return 0 if code == 0 else -1


cdef int begin(Reading* r) noexcept nogil:
    if r.end - r.p >= 3 and r.p[0] == 0xEF and r.p[1] == 0xBB and r.p[2] == 0xBF:
        r.p += 3
    skip_space(r)
    r.began = True
    return put_value(r)


cdef int next_piece(Reading* r) noexcept nogil:
    # Write one more value or the end of a container; at the end, write STOP.
    if not r.began:
        return begin(r)
    if r.levels.len:
        return next_item(r, is_first(r))
    skip_space(r)
    if r.p < r.end:
        return wrong(r, "text after the end")
    put_op(&r.out, STOP)
    r.ended = True
    return 0


cdef int reading_step(Reading* r, size_t chunk) noexcept nogil:
    # Write whole frames to `out` until it has a chunk (NEED_MORE) or everything is written (DONE);
    # ERR_JSON with `wrong` at r.p.
    cdef int code
    if r.out.failed:
        return ERR_MEMORY
    r.out.b.len = 0
    if not r.began:
        put_op(&r.out, PROTO)
        put_little(&r.out, <uint64_t> r.protocol, 1)
    while r.out.b.len < chunk and not r.ended:
        r.frame = open_frame(&r.out) if r.protocol >= 4 else r.out.b.len
        while r.out.b.len - r.frame < FRAME_SIZE and not r.ended:
            code = next_piece(r)
            r.out.failed |= code == ERR_MEMORY
            if r.out.failed:
                return ERR_MEMORY
            if code != 0:
                return code
        if r.protocol >= 4:
            close_frame(&r.out, r.frame)
    return DONE if r.ended else NEED_MORE
