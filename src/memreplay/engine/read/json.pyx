"""The JSON reader: turn tokens into values, which fill the same rows as the pickle VM's values.

Tokens are read completely or not at all: if the window ends inside a token, the cursor stays before
the token and NEED_MORE requests a refill. Values in unknown containers are only checked, then
dropped.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset
from memreplay.engine.base.cursor cimport cursor_offset
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_bytes, push_item
from memreplay.engine.base.hashmap cimport NONE32, spans_intern
from memreplay.engine.read.keys cimport role_of_item, role_of_value
from memreplay.engine.read.memo cimport INDEX_MASK
from memreplay.engine.read.opening cimport open_container, within_input
from memreplay.engine.read.profile cimport place_of, profile_open, profile_set, text_wanted
from memreplay.engine.base.reals cimport REAL_LIMIT, is_json_name, is_real, real_of
from memreplay.engine.read.shapes cimport append_item, set_item
from memreplay.engine.base.status cimport (
    DONE, ERR_JSON, ERR_MEMORY, ERR_SHAPE, ERR_TRUNCATED, NEED_MORE, OK, fail, fail_limit,
)
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.text cimport hex_value, parse_decimal, put_utf8
from memreplay.engine.read.value cimport (
    V_FALSE, V_FLOAT, V_NONE, V_ROOT, V_SEGMENT, V_SEGMENTS, V_SKIP_DICT, V_SKIP_LIST, V_STR,
    V_TRACE, V_TRUE, V_UNSET, is_dict, is_list,
)
from memreplay.engine.read.wrapped cimport (
    COUNTED, count_snapshot, forget_bare_list, make_unknown, may_wrap, settle_snapshot,
    is_snapshot_list,
)

cdef enum:
    DEEPEST_NAMES = 8    # levels of unknown dicts whose keys are examined


cdef int json_init(JSONReader* r, Tables* tables, const Limits* limits) noexcept nogil:
    memset(r, 0, sizeof(JSONReader))
    r.tables = tables
    r.limits = limits[0]
    tables.max_nodes = limits.nodes
    buf_init(&r.levels, sizeof(Level))
    return OK


cdef void json_free(JSONReader* r) noexcept nogil:
    buf_free(&r.levels)


cdef inline Level* top_level(JSONReader* r) noexcept nogil:
    return <Level*> r.levels.data + r.levels.len - 1 if r.levels.len else NULL


cdef inline uint8_t* expectation(JSONReader* r) noexcept nogil:
    cdef Level* level = top_level(r)
    return &level.expect if level != NULL else &r.expect


cdef int broken(JSONReader* r, const char* what) noexcept nogil:
    return fail(&r.tables.status, ERR_JSON, what)


cdef inline int wait(JSONReader* r, uint64_t n) noexcept nogil:
    # Request a refill (or fail, if the input has ended), because the token at the cursor takes at
    # least n bytes.
    if not r.cur.eof:
        r.need = n
        return NEED_MORE
    r.tables.status.a = n
    r.tables.status.b = <uint64_t> (r.cur.end - r.cur.p)
    return fail(&r.tables.status, ERR_TRUNCATED, "JSON")


# ---- values -------------------------------------------------------------------------------------

cdef inline int attach(JSONReader* r, const Value* v) noexcept nogil:
    # Put a complete value into its container. At the top level, the value is the result.
    cdef Level* level = top_level(r)
    cdef Value key
    if level == NULL:
        r.expect = NOTHING
        if r.profile != NULL:
            return OK
        if v.kind == V_ROOT or v.kind == V_SEGMENTS or r.tables.unwrapped:
            if v.kind == V_SEGMENTS:
                r.tables.has_segments = r.tables.bare_list
            return OK
        r.tables.status.a = v.kind
        return fail(&r.tables.status, ERR_SHAPE, "top")
    level.expect = A_COMMA_OR_END
    if r.profile != NULL:
        return profile_set(r.profile, &level.container, level.key, v)
    if is_list(level.container.kind):
        return append_item(r.tables, &level.container, v)
    key.kind = V_STR
    key.idx = level.key
    key.num = 0
    return set_item(r.tables, &level.container, &key, v)


cdef inline bint is_dropped(JSONReader* r) noexcept nogil:
    # Whether the next value is dropped.
    cdef Level* level = top_level(r)
    if r.profile != NULL:
        return level == NULL or not text_wanted(r.profile, &level.container, level.key)
    return level != NULL and (level.container.kind == V_SKIP_LIST
                              or level.container.kind == V_SKIP_DICT)


cdef inline bint names_matter(JSONReader* r) noexcept nogil:
    # Whether the next key is examined.
    if r.profile != NULL:
        return top_level(r).container.num != 0
    return not is_dropped(r) or r.levels.len <= DEEPEST_NAMES


cdef void look_for_snapshot(JSONReader* r) noexcept nogil:
    # The innermost dict has just received one of a snapshot's lists.
    cdef Tables* t = r.tables
    cdef Level* levels = <Level*> r.levels.data
    cdef size_t at = r.levels.len - 1
    cdef Value* owner = &levels[at].container
    cdef Value name
    cdef size_t i
    name.kind = V_NONE
    if at and is_dict(levels[at - 1].container.kind):
        name.kind = V_STR
        name.idx = levels[at - 1].key
    if owner.kind == V_ROOT:
        if not t.adopted:
            settle_snapshot(t, owner, count_snapshot(t, &name))
        return
    if at > DEEPEST_NAMES or not (
            (owner.kind == V_SKIP_DICT and owner.num != COUNTED)
            or (owner.kind == V_SEGMENT and may_wrap(t, owner))):
        return
    for i in range(at):
        if not may_wrap(t, &levels[i].container):
            return
    if not t.adopted:
        for i in range(at):
            make_unknown(&levels[i].container)
        forget_bare_list(t)
    t.unwrapped = True
    settle_snapshot(t, owner, count_snapshot(t, &name))


cdef inline int push_level(JSONReader* r, Level* level, bint a_list) noexcept nogil:
    level.key = 0
    level.expect = A_VALUE_OR_END if a_list else A_KEY_OR_END
    if push_item(&r.levels, level) < 0:
        return fail(&r.tables.status, ERR_MEMORY, "JSON")
    return OK


cdef int open_level(JSONReader* r, bint a_list) noexcept nogil:
    cdef Level* parent = top_level(r)
    cdef Level level
    cdef uint32_t role
    cdef uint32_t parent_idx = 0
    if r.levels.len >= r.limits.depth:
        return fail_limit(&r.tables.status, "nesting_depth", r.levels.len + 1, r.limits.depth)
    if r.profile != NULL:
        level.container.kind = V_SKIP_LIST if a_list else V_SKIP_DICT
        level.container.idx = 0
        level.container.num = place_of(r.profile, NULL if parent == NULL else &parent.container,
                                       0 if parent == NULL else parent.key, a_list)
        profile_open(r.profile, &level.container)
        return push_level(r, &level, a_list)
    if parent == NULL:
        role = V_SEGMENTS if a_list else V_ROOT
        r.tables.bare_list = a_list
    elif is_list(parent.container.kind):
        role = role_of_item(parent.container.kind, a_list)
        parent_idx = parent.container.idx
    else:
        if is_snapshot_list(parent.key, a_list):
            look_for_snapshot(r)
        role = role_of_value(parent.container.kind, parent.key, a_list)
        parent_idx = parent.container.idx
    if role == V_TRACE:
        parent_idx = <uint32_t> r.tables.attached_traces
    if role == V_UNSET:
        role = V_SKIP_LIST if a_list else V_SKIP_DICT
    if within_input(r.tables, role) != OK:
        return r.tables.status.code
    if open_container(r.tables, role, parent_idx, &level.container) != OK:
        return r.tables.status.code
    return push_level(r, &level, a_list)


cdef int close_level(JSONReader* r) noexcept nogil:
    cdef Value v = top_level(r).container
    r.levels.len -= 1
    return attach(r, &v)


# ---- strings -------------------------------------------------------------------------------------

cdef const uint8_t* string_end(const uint8_t* p, const uint8_t* end, bint* escaped) noexcept nogil:
    # Return the closing quote of a string that begins at p; NULL if the window ends first.
    cdef const uint8_t* q = p
    escaped[0] = False
    while True:
        q = <const uint8_t*> memchr(q, 34, end - q)
        if q == NULL:
            return NULL
        if not escaped[0]:
            if memchr(p, 92, q - p) == NULL:
                return q
            escaped[0] = True
        if backslashes_before(q, p) & 1 == 0:
            return q
        q += 1
        if q >= end:
            return NULL


cdef inline size_t backslashes_before(const uint8_t* q, const uint8_t* p) noexcept nogil:
    cdef size_t n = 0
    while q > p and (q - 1)[0] == 92:
        q -= 1
        n += 1
    return n


cdef inline bint has_control(const uint8_t* p, const uint8_t* stop) noexcept nogil:
    cdef bint found = False
    while p < stop:
        found |= p[0] < 32
        p += 1
    return found


cdef int unescape(Buf* out, const uint8_t* p, const uint8_t* stop) noexcept nogil:
    # Returns 0, -1 when out of memory, -2 for a malformed escape.
    cdef uint32_t c = 0
    cdef uint32_t low = 0
    cdef const uint8_t* q
    cdef uint8_t b
    while p < stop:
        q = <const uint8_t*> memchr(p, 92, stop - p)
        if q == NULL:
            q = stop
        if push_bytes(out, p, q - p) < 0:
            return -1
        if q == stop:
            return 0
        p = q + 2
        b = q[1]
        if b == 117:
            if stop - p < 4 or hex_value(p, 4, &c) < 0:
                return -2
            p += 4
            if (0xD800 <= c < 0xDC00 and stop - p >= 6 and p[0] == 92 and p[1] == 117
                    and hex_value(p + 2, 4, &low) == 0 and 0xDC00 <= low < 0xE000):
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
                p += 6
            if put_utf8(out, c) < 0:
                return -1
            continue
        if b == 110:
            b = 10
        elif b == 116:
            b = 9
        elif b == 114:
            b = 13
        elif b == 98:
            b = 8
        elif b == 102:
            b = 12
        elif b != 34 and b != 92 and b != 47:
            return -2
        if push_bytes(out, &b, 1) < 0:
            return -1
    return 0


cdef int read_string(JSONReader* r, const uint8_t** pp, bint wanted, uint32_t* id) noexcept nogil:
    # Read a string token, and intern it if wanted.
    cdef const uint8_t* p = pp[0] + 1
    cdef Buf* text = &r.tables.text
    cdef bint escaped = False
    cdef const uint8_t* q = string_end(p, r.cur.end, &escaped)
    cdef uint64_t left = <uint64_t> (r.cur.end - p)
    cdef int code
    if q == NULL:
        if left > r.limits.string_bytes:
            return fail_limit(&r.tables.status, "string_bytes", left, r.limits.string_bytes)
        return wait(r, 2 * left + 2)
    if <uint64_t> (q - p) > r.limits.string_bytes:
        return fail_limit(&r.tables.status, "string_bytes", q - p, r.limits.string_bytes)
    if has_control(p, q):
        return broken(r, "a control character in a text")
    pp[0] = q + 1
    id[0] = 0
    if escaped:
        text.len = 0
        code = unescape(text, p, q)
        if code == -2:
            return broken(r, "a malformed escape")
        if code < 0:
            return fail(&r.tables.status, ERR_MEMORY, "strings")
    if not wanted:
        return OK
    if escaped:
        id[0] = spans_intern(&r.tables.strings, text.data, text.len)
    else:
        id[0] = spans_intern(&r.tables.strings, p, q - p)
    if id[0] == NONE32:
        return fail(&r.tables.status, ERR_MEMORY, "strings")
    if id[0] > INDEX_MASK:
        return fail_limit(&r.tables.status, "strings", id[0], INDEX_MASK)
    return OK


# ---- numbers and words ---------------------------------------------------------------------------

cdef inline bint in_word(uint8_t c) noexcept nogil:
    # Characters that numbers and words consist of.
    return (48 <= c <= 57) or (97 <= c <= 122) or (65 <= c <= 90) or c == 43 or c == 45 or c == 46


cdef int read_word(JSONReader* r, const uint8_t** pp, Value* v) noexcept nogil:
    # Read a number, true, false, null, or Python's NaN and Infinity.
    cdef const uint8_t* p = pp[0]
    cdef const uint8_t* q = p
    cdef uint64_t n
    cdef double real
    while q < r.cur.end and in_word(q[0]):
        q += 1
    n = <uint64_t> (q - p)
    if n > REAL_LIMIT:
        return broken(r, "a number that is too long")
    if q == r.cur.end and (not r.cur.eof or r.levels.len):
        return wait(r, n + 1)
    if n == 0:
        return broken(r, "a character that cannot begin a value")
    pp[0] = q
    v.idx = 0
    v.num = 0
    if n == 4 and memcmp(p, b"null", 4) == 0:
        v.kind = V_NONE
        return OK
    if n == 4 and memcmp(p, b"true", 4) == 0:
        v.kind = V_TRUE
        return OK
    if n == 5 and memcmp(p, b"false", 5) == 0:
        v.kind = V_FALSE
        return OK
    if not is_json_name(p, n) and not is_real(p, n, True):
        return broken(r, "an invalid literal")
    v.kind = parse_decimal(p, n, &v.num)
    if v.kind != V_UNSET:
        return OK
    real = real_of(p, n)
    memcpy(&v.num, &real, 8)
    v.kind = V_FLOAT
    return OK


# ---- the loop ------------------------------------------------------------------------------------

cdef int json_value(JSONReader* r, const uint8_t** pp) noexcept nogil:
    cdef Value v
    cdef uint8_t c = pp[0][0]
    cdef int code
    if c == 123 or c == 91:   # { [
        pp[0] += 1
        return open_level(r, c == 91)
    if c == 34:
        v.kind = V_STR
        v.num = 0
        code = read_string(r, pp, not is_dropped(r), &v.idx)
    else:
        code = read_word(r, pp, &v)
    return attach(r, &v) if code == OK else code


cdef int json_token(JSONReader* r, const uint8_t** pp) noexcept nogil:
    # Read one token. On OK the cursor is after the token, else its position is undefined.
    cdef uint8_t c = pp[0][0]
    cdef uint8_t* expect = expectation(r)
    cdef uint32_t id = 0
    cdef int code
    if expect[0] == A_VALUE:
        return json_value(r, pp)
    if expect[0] == A_VALUE_OR_END:
        if c != 93:
            return json_value(r, pp)
        pp[0] += 1
        return close_level(r)
    if expect[0] == A_KEY or expect[0] == A_KEY_OR_END:
        if c == 125 and expect[0] == A_KEY_OR_END:
            pp[0] += 1
            return close_level(r)
        if c != 34:
            return broken(r, "a key is missing")
        code = read_string(r, pp, names_matter(r), &id)
        if code == OK:
            top_level(r).key = id
            expect[0] = A_COLON
        return code
    if expect[0] == A_COLON:
        if c != 58:
            return broken(r, "a colon is missing")
        pp[0] += 1
        expect[0] = A_VALUE
        return OK
    if expect[0] == A_COMMA_OR_END:
        pp[0] += 1
        if c == 44:
            expect[0] = A_VALUE if is_list(top_level(r).container.kind) else A_KEY
            return OK
        if c == (93 if is_list(top_level(r).container.kind) else 125):
            return close_level(r)
        return broken(r, "a comma is missing")
    return broken(r, "text after the end")


cdef int json_step(JSONReader* r) noexcept nogil:
    # Read tokens until the window is used up (NEED_MORE), the input ends (DONE), or an error
    # occurs.
    cdef const uint8_t* p = r.cur.p
    cdef int code = OK
    if not r.skipped_mark:
        r.skipped_mark = True
        if r.cur.end - p >= 3 and memcmp(p, b"\xef\xbb\xbf", 3) == 0:
            p += 3
    while code == OK:
        while p < r.cur.end and (p[0] == 32 or p[0] == 10 or p[0] == 13 or p[0] == 9):
            p += 1
        r.cur.p = p
        r.tables.read_bytes = cursor_offset(&r.cur)
        if p >= r.cur.end:
            if r.cur.eof and expectation(r)[0] == NOTHING:
                return DONE
            code = wait(r, 1)
            break
        code = json_token(r, &p)
    if code > DONE:
        r.tables.status.offset = cursor_offset(&r.cur)
        r.tables.status.opcode = 0
    return code


cdef int json_step_any(void* reader) noexcept nogil:
    return json_step(<JSONReader*> reader)
