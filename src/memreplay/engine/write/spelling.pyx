"""Convert a pickle of plain data to JSON, whatever its keys mean.

The values on the stack are stored as text, one after the other. Before each value there are three
free bytes: for the previous value's closing bracket, for a comma or colon, and for the opening
bracket of a tuple that begins with the value. An opcode that puts values into a container fills in
these bytes, so no text moves. A memo entry is therefore a range of the text, which a GET copies.
"""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from memreplay.engine.base.emit cimport (
    is_text, put_byte, put_bytes, put_escaped, put_i64, put_text, put_u64,
)
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_item
from memreplay.engine.write.opcode_read cimport (
    ENDS_EARLY, Effect, FETCHES, OF_NOTHING, STORES, little, memo_effect, opcode_size,
)
from memreplay.engine.base.reals cimport put_real
from memreplay.engine.base.status cimport DONE, ERR_LIMIT, ERR_MEMORY, ERR_OPCODE
from memreplay.engine.read.opcodes cimport (
    APPEND, APPENDS, BINFLOAT, BININT, BININT1, BININT2, BINSTRING, BINUNICODE, BINUNICODE8, DICT,
    EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE, LIST, LONG1, LONG4, MARK, NEWFALSE, NEWTRUE, NONE, SETITEM,
    SETITEMS, SHORT_BINSTRING, SHORT_BINUNICODE, STOP, TUPLE, TUPLE1, TUPLE2, TUPLE3,
)

cdef enum:
    SLOTS = 3
    DEPTH = 1 << 27

cdef enum Kind:
    S_PLAIN = 0       # complete
    S_STRING = 1
    S_LIST = 2
    S_DICT = 3
    S_MARK = 4


cdef struct Item:
    uint64_t start    # where the value's free bytes start in the text
    uint64_t items    # number of items in a container
    uint32_t kind
    uint32_t memo     # 1 + the memo entry that holds this value
    bint copied       # whether a GET has copied it in its current state
    bint wrapped      # whether the tuple's opening bracket is in the last free byte


cdef struct Spelled:
    uint64_t start, end    # range of the text; end is 0 while the value is on the stack
    uint32_t at            # its stack position
    uint32_t kind
    bint known


cdef int spelling_init(Spelling* s, const uint8_t* p, size_t n, uint64_t limit) noexcept nogil:
    memset(s, 0, sizeof(Spelling))
    s.start = p
    s.p = p
    s.end = p + n
    s.limit = limit
    buf_init(&s.out.b, 1)
    buf_init(&s.stack, sizeof(Item))
    buf_init(&s.memo, sizeof(Spelled))
    return 0


cdef void spelling_free(Spelling* s) noexcept nogil:
    buf_free(&s.out.b)
    buf_free(&s.stack)
    buf_free(&s.memo)


cdef inline int wrong(Spelling* s, const char* why) noexcept nogil:
    s.wrong = why
    return ERR_OPCODE


cdef inline Item* items_of(Spelling* s) noexcept nogil:
    return <Item*> s.stack.data


cdef inline int push(Spelling* s, uint32_t kind) noexcept nogil:
    # Push a value with its free bytes. The value's text comes next.
    cdef Item item
    memset(&item, 0, sizeof(Item))
    item.start = s.out.b.len
    item.kind = kind
    if s.stack.len == DEPTH:
        return wrong(s, "too many values on the stack")
    put_bytes(&s.out, b"\0\0\0", SLOTS)
    if push_item(&s.stack, &item) < 0:
        s.out.failed = True
    return 0


cdef inline char closer(uint32_t kind) noexcept nogil:
    return 93 if kind == S_LIST else 125 if kind == S_DICT else 0


# --- the memo -------------------------------------------------------------------------------------

cdef inline uint64_t text_of(const Item* item) noexcept nogil:
    return item.start + SLOTS - item.wrapped


cdef inline void settle(Spelling* s, const Item* item, uint64_t end) noexcept nogil:
    # Called when a value leaves the stack: its text is then final.
    cdef Spelled* entry
    if item.memo:
        entry = <Spelled*> s.memo.data + item.memo - 1
        entry.start = text_of(item)
        entry.end = end
        entry.kind = item.kind


cdef int store(Spelling* s, uint64_t index) noexcept nogil:
    cdef Item* top
    cdef Spelled* entry
    cdef size_t old = s.memo.len
    if s.stack.len == 0 or items_of(s)[s.stack.len - 1].kind == S_MARK:
        return wrong(s, "nothing to memoise")
    if index > <uint64_t> (s.p - s.start):
        return wrong(s, "a memo index far beyond the file")
    if index >= old:
        if buf_reserve(&s.memo, index + 1 - old) < 0:
            return ERR_MEMORY
        memset(s.memo.data + old * sizeof(Spelled), 0, (index + 1 - old) * sizeof(Spelled))
        s.memo.len = index + 1
    top = items_of(s) + s.stack.len - 1
    entry = <Spelled*> s.memo.data + index
    if top.memo or (entry.known and entry.end == 0):
        return wrong(s, "a value that is memoised twice")
    s.stored += not entry.known
    entry.known = True
    entry.end = 0
    entry.at = <uint32_t> s.stack.len - 1
    top.memo = <uint32_t> index + 1
    return 0


cdef int fetch(Spelling* s, uint64_t index) noexcept nogil:
    # Append a copy of a memo entry's text. The original must not be extended afterwards.
    cdef Spelled* entry
    cdef Item* item
    cdef uint64_t start, end, n
    cdef uint32_t kind
    if index >= s.memo.len or not (<Spelled*> s.memo.data)[index].known:
        return wrong(s, "a memo index that was never stored")
    entry = <Spelled*> s.memo.data + index
    start = entry.start
    end = entry.end
    kind = entry.kind
    if end == 0:
        item = items_of(s) + entry.at
        kind = item.kind
        start = text_of(item)
        end = s.out.b.len
        item.copied = True
        if entry.at + 1 < s.stack.len:
            end = item[1].start
    n = end - start
    if s.out.b.len > s.limit or n > s.limit - s.out.b.len:
        return ERR_LIMIT
    if buf_reserve(&s.out.b, n + SLOTS + 1) < 0:
        return ERR_MEMORY
    if push(s, S_STRING if kind == S_STRING else S_PLAIN) != 0:
        return ERR_OPCODE
    put_bytes(&s.out, s.out.b.data + start, n)
    if closer(kind):
        put_byte(&s.out, closer(kind))
    return 0


# --- containers -----------------------------------------------------------------------------------

cdef int64_t last_mark(Spelling* s) noexcept nogil:
    cdef int64_t i = <int64_t> s.stack.len - 1
    while i >= 0 and items_of(s)[i].kind != S_MARK:
        i -= 1
    return i


cdef int take(Spelling* s, uint64_t first, uint64_t before, bint pairs) noexcept nogil:
    # Add the values from `first` to the top to a container that already has `before` items: fill in
    # the separators, and pop the values.
    cdef Item* v = items_of(s)
    cdef uint8_t* text = <uint8_t*> s.out.b.data
    cdef uint64_t n = s.stack.len
    cdef uint64_t i
    cdef char last
    if pairs and (n - first) % 2:
        return wrong(s, "a key without a value")
    for i in range(first, n):
        if v[i].kind == S_MARK:
            return wrong(s, "a MARK where a value should be")
        if pairs and (i - first) % 2 == 0 and v[i].kind != S_STRING:
            return wrong(s, "a key that isn't a string")
        if i > first:
            text[v[i].start] = <uint8_t> closer(v[i - 1].kind)
        if pairs and (i - first) % 2:
            text[v[i].start + 1] = 58
        elif before or i > first:
            text[v[i].start + 1] = 44
        settle(s, &v[i], v[i + 1].start if i + 1 < n else s.out.b.len)
    if n > first:
        last = closer(v[n - 1].kind)
        if last:
            put_byte(&s.out, last)
    s.stack.len = first
    return 0


cdef int fill(Spelling* s, int64_t container, uint64_t first, uint32_t kind) noexcept nogil:
    cdef Item* c
    cdef uint64_t n = s.stack.len - first
    if container < 0 or items_of(s)[container].kind != kind:
        return wrong(s, "items without a container")
    c = items_of(s) + container
    if c.copied:
        return wrong(s, "a container that contains itself, or changes after its use")
    if take(s, first, c.items, kind == S_DICT) != 0:
        return ERR_OPCODE
    c.items += n
    s.stack.len = <uint64_t> container + 1
    return 0


cdef int wrap(Spelling* s, uint64_t first, uint64_t items, uint32_t kind) noexcept nogil:
    # Turn the values from `items` on into one value that uses the free bytes of stack item `first`.
    cdef Item item
    cdef uint8_t* slot = <uint8_t*> s.out.b.data + items_of(s)[first].start + 2
    memset(&item, 0, sizeof(Item))
    item.start = items_of(s)[first].start
    item.kind = kind
    item.items = s.stack.len - items
    item.wrapped = True
    if slot[0]:
        return wrong(s, "a tuple that begins with a tuple")
    slot[0] = 123 if kind == S_DICT else 91
    if take(s, items, 0, kind == S_DICT) != 0:
        return ERR_OPCODE
    s.stack.len = first
    if kind == S_PLAIN:
        put_byte(&s.out, 93)
    if push_item(&s.stack, &item) < 0:
        return ERR_MEMORY
    return 0


cdef int wrap_marked(Spelling* s, uint32_t kind) noexcept nogil:
    cdef int64_t mark = last_mark(s)
    if mark < 0:
        return wrong(s, "no MARK on the stack")
    return wrap(s, <uint64_t> mark, <uint64_t> mark + 1, kind)


cdef int wrap_last(Spelling* s, uint64_t n) noexcept nogil:
    cdef uint64_t i
    for i in range(n):
        if i == s.stack.len or items_of(s)[s.stack.len - 1 - i].kind == S_MARK:
            return wrong(s, "a tuple with more items than the stack")
    return wrap(s, s.stack.len - n, s.stack.len - n, S_PLAIN)


# --- values ---------------------------------------------------------------------------------------

cdef int put_string(Spelling* s, const uint8_t* p, size_t n, bint ascii) noexcept nogil:
    cdef size_t i
    if not is_text(p, n):
        return wrong(s, "text that is not UTF-8")
    if ascii:
        for i in range(n):
            if p[i] > 127:
                return wrong(s, "bytes of Python 2")
    if push(s, S_STRING) != 0:
        return ERR_OPCODE
    put_byte(&s.out, 34)
    put_escaped(&s.out, p, n, False)
    put_byte(&s.out, 34)
    return 0


cdef int put_word(Spelling* s, const char* word) noexcept nogil:
    if push(s, S_PLAIN) != 0:
        return ERR_OPCODE
    put_text(&s.out, word)
    return 0


cdef int put_long(Spelling* s, const uint8_t* p, uint64_t n) noexcept nogil:
    # Two's complement, little-endian.
    cdef uint64_t v = 0
    cdef bint negative = n > 0 and p[n - 1] >> 7
    cdef uint64_t i
    for i in range(n):
        if i < 8:
            v |= <uint64_t> p[i] << (8 * i)
        elif p[i] != (0xFF if negative else 0):
            return wrong(s, "an integer over 64 bits")
    if negative and n < 8:
        v |= ~<uint64_t> 0 << (8 * n)
    if negative and n > 8 and not v >> 63:
        return wrong(s, "an integer over 64 bits")
    if push(s, S_PLAIN) != 0:
        return ERR_OPCODE
    if negative:
        put_i64(&s.out, <int64_t> v)
    else:
        put_u64(&s.out, v)
    return 0


cdef int put_float(Spelling* s, const uint8_t* p) noexcept nogil:
    cdef uint64_t bits = 0
    cdef double real
    cdef char[64] text
    cdef int i
    for i in range(8):
        bits = bits << 8 | p[i]
    memcpy(&real, &bits, 8)
    # JSON doesn't have these names, but json.dump writes them, and Python and memreplay read them.
    if real != real:
        return put_word(s, b"NaN")
    if not isfinite(real):
        return put_word(s, b"Infinity" if real > 0 else b"-Infinity")
    put_real(text, real)
    return put_word(s, text)


cdef int spell(Spelling* s, const uint8_t* p, uint64_t n) noexcept nogil:
    # Process one opcode of n bytes.
    cdef uint8_t op = p[0]
    cdef int64_t mark
    cdef uint64_t index = 0
    cdef Effect effect = memo_effect(p, <int64_t> n, s.stored, &index)
    if effect == OF_NOTHING:
        return 0
    if effect == STORES:
        return store(s, index)
    if effect == FETCHES:
        return fetch(s, index)
    if op == BININT1 or op == BININT2:
        if push(s, S_PLAIN) != 0:
            return ERR_OPCODE
        put_u64(&s.out, little(p + 1, <int> n - 1))
        return 0
    if op == BININT:
        return put_long(s, p + 1, 4)
    if op == LONG1:
        return put_long(s, p + 2, n - 2)
    if op == LONG4:
        return put_long(s, p + 5, n - 5)
    if op == SHORT_BINUNICODE or op == SHORT_BINSTRING:
        return put_string(s, p + 2, n - 2, op == SHORT_BINSTRING)
    if op == BINUNICODE or op == BINSTRING:
        return put_string(s, p + 5, n - 5, op == BINSTRING)
    if op == BINUNICODE8:
        return put_string(s, p + 9, n - 9, False)
    if op == BINFLOAT:
        return put_float(s, p + 1)
    if op == NONE:
        return put_word(s, b"null")
    if op == NEWTRUE:
        return put_word(s, b"true")
    if op == NEWFALSE:
        return put_word(s, b"false")
    if op == EMPTY_TUPLE:
        return put_word(s, b"[]")
    if op == MARK:
        return push(s, S_MARK)
    if op == EMPTY_LIST or op == EMPTY_DICT:
        if push(s, S_LIST if op == EMPTY_LIST else S_DICT) != 0:
            return ERR_OPCODE
        put_byte(&s.out, 91 if op == EMPTY_LIST else 123)
        return 0
    if op == APPENDS or op == SETITEMS:
        mark = last_mark(s)
        return fill(s, mark - 1, <uint64_t> (mark + 1), S_LIST if op == APPENDS else S_DICT)
    if op == APPEND:
        return fill(s, <int64_t> s.stack.len - 2, s.stack.len - 1, S_LIST)
    if op == SETITEM:
        return fill(s, <int64_t> s.stack.len - 3, s.stack.len - 2, S_DICT)
    if op == TUPLE:
        return wrap_marked(s, S_PLAIN)
    if op == LIST:
        return wrap_marked(s, S_LIST)
    if op == DICT:
        return wrap_marked(s, S_DICT)
    if op == TUPLE1:
        return wrap_last(s, 1)
    if op == TUPLE2:
        return wrap_last(s, 2)
    if op == TUPLE3:
        return wrap_last(s, 3)
    if op == STOP:
        if s.stack.len != 1 or items_of(s)[0].kind == S_MARK:
            return wrong(s, "more than one value")
        put_byte(&s.out, closer(items_of(s)[0].kind))
        s.ended = True
        return 0
    return wrong(s, "a value that JSON doesn't support, or an opcode of protocol 0")


cdef int spelling_run(Spelling* s) noexcept nogil:
    # Returns DONE, or an error: ERR_OPCODE with `wrong`, ERR_LIMIT, ERR_MEMORY.
    cdef int64_t n
    cdef int code
    while not s.ended:
        n = opcode_size(s.p, s.end) if s.p < s.end else ENDS_EARLY
        if n < 0:
            return wrong(s, "an unsupported opcode")
        code = spell(s, s.p, <uint64_t> n)
        if s.out.failed:
            return ERR_MEMORY
        if code != 0:
            return code
        if s.out.b.len > s.limit:
            return ERR_LIMIT
        s.p += n
    return DONE


cdef size_t spelling_take(const Spelling* s, size_t* at, uint8_t* to, size_t room) noexcept nogil:
    # Copy text from `at` on, without the unused slots. Return the number of bytes copied.
    cdef const uint8_t* text = <const uint8_t*> s.out.b.data
    cdef size_t n = 0
    cdef size_t i = at[0]
    while i < s.out.b.len and n < room:
        to[n] = text[i]
        n += text[i] != 0
        i += 1
    at[0] = i
    return n
