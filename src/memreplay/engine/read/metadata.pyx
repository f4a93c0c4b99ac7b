"""Turn metadata into string ids: strings as they are, anything else rendered as JSON."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strlen
from memreplay.engine.base.growbuf cimport push_bytes
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_intern
from memreplay.engine.base.reals cimport put_real
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_SHAPE, OK, fail, fail_limit
from memreplay.engine.read.tables cimport Node, Tables
from memreplay.engine.read.value cimport (
    FILLED_FIRST, UNKEPT, V_FALSE, V_FLOAT, V_INT, V_NODE_DICT, V_NODE_LIST, V_NONE, V_OPAQUE,
    V_PAIR, V_SKIP_DICT, V_SKIP_LIST, V_STR, V_TRUE, V_UINT, is_structural,
)

cdef enum:
    TEXT_LIMIT = 65536    # maximum size of one rendered value in bytes
    TEXT_DEPTH = 32
    RENDER_LIMIT = 64 << 20   # maximum size of all rendered values in bytes
    # returned by put_node() for a value that contains something that can't be kept
    NOT_KEPT = -2

cdef extern from *:
    # In a node's `text`: the node was rendered as part of another node and must not change.
    const uint32_t WITHIN "0xfffffffeu"


cdef int put(Tables* t, const char* text) noexcept nogil:
    return push_bytes(&t.text, text, strlen(text))


cdef int put_byte(Tables* t, char c) noexcept nogil:
    return push_bytes(&t.text, &c, 1)


cdef int put_string(Tables* t, uint32_t id) noexcept nogil:
    # Write a JSON string. Bytes over 127 are copied, because the input is UTF-8.
    cdef size_t n = 0
    cdef size_t i
    cdef const uint8_t* p = span_at(&t.strings, id, &n)
    cdef char[16] escape
    if put(t, b'"') < 0:
        return -1
    for i in range(n):
        if p[i] == 34 or p[i] == 92:
            escape[0] = 92
            escape[1] = <char> p[i]
            if push_bytes(&t.text, escape, 2) < 0:
                return -1
        elif p[i] < 32:
            snprintf(escape, sizeof(escape), b"\\u%04x", <int> p[i])
            if push_bytes(&t.text, escape, 6) < 0:
                return -1
        elif push_bytes(&t.text, &p[i], 1) < 0:
            return -1
        if t.text.len > TEXT_LIMIT:
            return 0
    return put(t, b'"')


cdef int put_scalar(Tables* t, uint32_t kind, uint64_t num, uint32_t idx) noexcept nogil:
    cdef char[32] digits
    cdef double real
    cdef size_t n = 0
    cdef int64_t* pair
    if kind == V_STR:
        return put_string(t, idx)
    if kind == V_INT:
        snprintf(digits, sizeof(digits), b"%lld", <long long> num)
        return put(t, digits)
    if kind == V_UINT:
        snprintf(digits, sizeof(digits), b"%llu", <unsigned long long> num)
        return put(t, digits)
    if kind == V_FLOAT:
        memcpy(&real, &num, 8)
        put_real(digits, real)
        return put(t, digits)
    if kind == V_TRUE:
        return put(t, b"true")
    if kind == V_FALSE:
        return put(t, b"false")
    if kind == V_PAIR:
        pair = <int64_t*> span_at(&t.pairs, idx, &n)
        snprintf(digits, sizeof(digits), b"[%lld, ", <long long> pair[0])
        if put(t, digits) < 0:
            return -1
        snprintf(digits, sizeof(digits), b"%lld]", <long long> pair[1])
        return put(t, digits)
    return put(t, b"null")


cdef int put_node(Tables* t, uint32_t root) noexcept nogil:
    # Render a kept list or dict, with an explicit stack instead of recursion.
    cdef uint32_t[TEXT_DEPTH] at       # per level: the next item to render
    cdef uint32_t[TEXT_DEPTH] owner
    cdef Node* nodes = <Node*> t.nodes.data
    cdef Node* item
    cdef int depth = 0
    owner[0] = root
    at[0] = nodes[root].first
    if put_byte(t, 123 if nodes[root].kind == V_NODE_DICT else 91) < 0:
        return -1
    while depth >= 0:
        if t.text.len > TEXT_LIMIT:
            return 0
        if at[depth] == NONE32:
            if put_byte(t, 125 if nodes[owner[depth]].kind == V_NODE_DICT else 93) < 0:
                return -1
            depth -= 1
            continue
        item = &nodes[at[depth]]
        if at[depth] != nodes[owner[depth]].first and put(t, b", ") < 0:
            return -1
        at[depth] = item.next
        if nodes[owner[depth]].kind == V_NODE_DICT:
            if put_string(t, item.key) < 0 or put(t, b": ") < 0:
                return -1
        if item.kind != V_NODE_LIST and item.kind != V_NODE_DICT:
            if item.kind == V_OPAQUE and item.num == UNKEPT:
                return NOT_KEPT
            if put_scalar(t, item.kind, item.num, item.idx) < 0:
                return -1
        elif depth + 1 == TEXT_DEPTH:
            if put(t, b"null") < 0:
                return -1
        else:
            if nodes[item.idx].text == NONE32:
                nodes[item.idx].text = WITHIN
            depth += 1
            owner[depth] = item.idx
            at[depth] = nodes[item.idx].first
            if put_byte(t, 123 if nodes[item.idx].kind == V_NODE_DICT else 91) < 0:
                return -1
    return 0


cdef uint32_t key_text(Tables* t, const Value* k) noexcept nogil:
    # Return a kept dict's key as a string id, spelling numbers and constants as json.dumps does;
    # NONE32 with the status set on error.
    cdef uint32_t id
    if k.kind == V_STR:
        return k.idx
    if not (V_NONE <= k.kind <= V_FLOAT) and k.kind != V_PAIR and k.kind != V_OPAQUE:
        fail(&t.status, ERR_SHAPE, "a list or a dict as a key of kept data")
        return NONE32
    t.text.len = 0
    id = NONE32
    if put_scalar(t, k.kind, k.num, k.idx) == 0:
        id = spans_intern(&t.strings, t.text.data, t.text.len)
    if id == NONE32:
        fail(&t.status, ERR_MEMORY, "strings")
    return id


cdef int want_metadata(Tables* t, const Value* v, uint32_t* out) noexcept nogil:
    # Return the string id of a string value, or of a NUL byte followed by the value as JSON (see
    # Snapshot.metadata). Strings that begin with a NUL byte are rendered, too. A container is
    # rendered only once and must not change afterwards.
    cdef bint kept = v.kind == V_NODE_LIST or v.kind == V_NODE_DICT
    cdef const uint8_t* text
    cdef size_t n = 0
    cdef int code
    if v.kind == V_STR:
        text = span_at(&t.strings, v.idx, &n)
        if n == 0 or text[0] != 0:
            out[0] = v.idx
            return OK
    if v.kind == V_NONE:
        out[0] = NONE32
        return OK
    if kept and (<Node*> t.nodes.data)[v.idx].text < WITHIN:
        out[0] = (<Node*> t.nodes.data)[v.idx].text
        return OK
    if is_structural(v.kind) or v.kind == V_SKIP_LIST or v.kind == V_SKIP_DICT:
        return fail(&t.status, ERR_SHAPE, "metadata that is also another part of the snapshot")
    if v.kind == V_OPAQUE and v.idx == FILLED_FIRST:
        return fail(&t.status, ERR_SHAPE, "metadata that is filled before it is created")
    t.text.len = 0
    code = push_bytes(&t.text, b"\0", 1)
    if code == 0:
        code = put_node(t, v.idx) if kept else put_scalar(t, v.kind, v.num, v.idx)
    if code == NOT_KEPT:
        t.status = t.unkept
        return t.status.code
    if code < 0:
        return fail(&t.status, ERR_MEMORY, "metadata")
    t.rendered += t.text.len
    if t.text.len > TEXT_LIMIT:
        return fail_limit(&t.status, "bytes of one metadata", t.text.len, TEXT_LIMIT)
    if t.rendered > RENDER_LIMIT:
        return fail_limit(&t.status, "bytes of metadata", t.rendered, RENDER_LIMIT)
    out[0] = spans_intern(&t.strings, t.text.data, t.text.len)
    if out[0] == NONE32:
        return fail(&t.status, ERR_MEMORY, "strings")
    if kept:
        (<Node*> t.nodes.data)[v.idx].text = out[0]
    return OK
