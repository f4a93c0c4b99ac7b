"""Copy some of a dict's items from a pickle's bytes into another pickle.

A pass over the bytes records where the opcodes for each stack value and memo entry begin and end.
An item is then a byte range, which is copied opcode by opcode. If a value was stored outside that
range, its first GET is replaced by the bytes that created the value; later GETs refer to that copy.
So no values are created, and values that the file shares stay shared.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memset, strlen
from memreplay.engine.base.emit cimport Out, is_text, put_bytes
from memreplay.engine.base.growbuf cimport (
    Buf, buf_free, buf_init, buf_reserve, push_item, push_u32,
)
from memreplay.engine.base.status cimport ERR_MEMORY, ERR_OPCODE, ERR_TEXT, OK
from memreplay.engine.write.opcode cimport put_get, put_op
from memreplay.engine.write.opcode_read cimport (
    Effect, FETCHES, NO_INDEX, OF_NOTHING, STORES, memo_effect, opcode_size,
)
from memreplay.engine.read.opcodes cimport (
    ADDITEMS, APPEND, APPENDS, BINSTRING, BINUNICODE, BINUNICODE8, BYTEARRAY8, DICT, DUP,
    EMPTY_DICT, EMPTY_LIST, EMPTY_SET, FLOAT, FROZENSET, GLOBAL, INT, LIST, LONG, MARK, MEMOIZE,
    POP, POP_MARK, REDUCE, SETITEM, SETITEMS, SHORT_BINSTRING, SHORT_BINUNICODE, STOP, STRING,
    TUPLE, TUPLE1, TUPLE2, TUPLE3, UNICODE,
)
from memreplay.engine.read.text cimport (
    is_written_integer, is_written_real, unescape_string, unescape_unicode,
)

cdef extern from *:
    const uint64_t NOWHERE "0xFFFFFFFFFFFFFFFFull"

cdef enum:
    DIGITS = 4300       # Python converts no longer integers (sys.int_info)
    SPARE = 64 << 10    # bytes that may be written even for a small file

cdef enum Kind:
    P_PLAIN = 0
    P_LIST = 1
    P_DICT = 2
    P_SET = 3
    P_MARK = 4


cdef struct Part:
    # A value on the pickle's stack.
    uint64_t start     # its first opcode
    uint64_t made      # offset of the opcode that created it; for a call, the tuple's first value
    uint32_t kind
    uint32_t memo      # memo entry + 1
    bint fetched       # whether a GET pushed it


cdef struct Stored:
    uint64_t start, end    # end is 0 while the value is on the stack
    uint64_t made
    uint64_t stored_at     # the opcode that stored it
    uint32_t kind
    uint32_t written       # 1 + the value's memo entry in the other pickle
    bint known


cdef struct Stretch:
    uint64_t at, end


cdef int keeping_init(Keeping* k, const uint8_t* p, size_t n, uint64_t list_at) noexcept nogil:
    memset(k, 0, sizeof(Keeping))
    k.start = p
    k.end = p + n
    k.list_at = list_at
    k.dict_at = NOWHERE
    buf_init(&k.stack, sizeof(Part))
    buf_init(&k.memo, sizeof(Stored))
    buf_init(&k.pairs, sizeof(Pair))
    buf_init(&k.open, sizeof(Stretch))
    buf_init(&k.touched, 4)
    buf_init(&k.text, 1)
    keeping_again(k)
    return OK


cdef void keeping_free(Keeping* k) noexcept nogil:
    buf_free(&k.stack)
    buf_free(&k.memo)
    buf_free(&k.pairs)
    buf_free(&k.open)
    buf_free(&k.touched)
    buf_free(&k.text)


cdef inline int wrong(Keeping* k, const char* why) noexcept nogil:
    k.wrong = why
    return ERR_OPCODE


# --- where values begin and end -------------------------------------------------------------------

cdef inline Part* parts(Keeping* k) noexcept nogil:
    return <Part*> k.stack.data


cdef inline int push(Keeping* k, uint32_t kind, uint64_t start, uint64_t made,
                     bint fetched) noexcept nogil:
    cdef Part part
    memset(&part, 0, sizeof(Part))
    part.start = start
    part.made = made
    part.kind = kind
    part.fetched = fetched
    return OK if push_item(&k.stack, &part) >= 0 else ERR_MEMORY


cdef inline void settle(Keeping* k, const Part* part, uint64_t end) noexcept nogil:
    # Called when a value leaves the stack: its end is then known.
    if part.memo:
        (<Stored*> k.memo.data + part.memo - 1).end = end


cdef inline int64_t last_mark(Keeping* k) noexcept nogil:
    cdef int64_t i = <int64_t> k.stack.len - 1
    while i >= 0 and parts(k)[i].kind != P_MARK:
        i -= 1
    return i


cdef int store(Keeping* k, uint64_t index, uint64_t at) noexcept nogil:
    cdef Stored* entry
    cdef Part* top
    cdef size_t old = k.memo.len
    if k.stack.len == 0 or parts(k)[k.stack.len - 1].kind == P_MARK or index > at:
        return wrong(k, "its memo can't be followed")
    if index >= old:
        if buf_reserve(&k.memo, index + 1 - old) < 0:
            return ERR_MEMORY
        memset(k.memo.data + old * sizeof(Stored), 0, (index + 1 - old) * sizeof(Stored))
        k.memo.len = index + 1
    entry = <Stored*> k.memo.data + index
    top = parts(k) + k.stack.len - 1
    if entry.known or top.memo:
        return wrong(k, "its memo can't be followed")
    entry.known = True
    entry.start = top.start
    entry.made = top.made
    entry.stored_at = at
    entry.kind = top.kind
    top.memo = <uint32_t> index + 1
    k.stored += 1
    return OK


cdef int take(Keeping* k, uint64_t first, uint64_t end) noexcept nogil:
    # Pop the values from `first` on.
    cdef Part* v = parts(k)
    cdef uint64_t n = k.stack.len
    cdef uint64_t i
    for i in range(first, n):
        if v[i].kind == P_MARK:
            return wrong(k, "a MARK where a value should be")
        settle(k, &v[i], v[i + 1].start if i + 1 < n else end)
    k.stack.len = first
    return OK


cdef inline int note_pair(Keeping* k, const Part* d, const Part* key, const Part* value,
                          uint64_t end) noexcept nogil:
    cdef Pair pair
    if (k.dict_at == NOWHERE and value.kind == P_LIST and value.made == k.list_at
            and not value.fetched):
        k.dict_at = d.start
    if d.start != k.dict_at:
        return OK
    pair.key = key.start
    pair.value = value.start
    pair.end = end
    return OK if push_item(&k.pairs, &pair) >= 0 else ERR_MEMORY


cdef int fill(Keeping* k, int64_t container, uint64_t first, uint32_t kind,
              uint64_t end) noexcept nogil:
    # Turn the values from `first` on into items of a container.
    cdef Part* v = parts(k)
    cdef uint64_t n = k.stack.len
    cdef uint64_t i
    if container < 0 or v[container].kind != kind:
        return wrong(k, "items without a container")
    if v[container].fetched:
        return wrong(k, "it changes after its use")
    if kind == P_DICT:
        if (n - first) % 2:
            return wrong(k, "a key has no value")
        i = first
        while i < n:
            if note_pair(k, &v[container], &v[i], &v[i + 1],
                         v[i + 2].start if i + 2 < n else end) != OK:
                return ERR_MEMORY
            i += 2
    if take(k, first, end) != OK:
        return ERR_OPCODE
    k.stack.len = <uint64_t> container + 1
    return OK


cdef int wrap(Keeping* k, uint64_t first, uint64_t items, uint32_t kind,
              uint64_t at) noexcept nogil:
    # Turn the values from `items` on into one value that starts with `first`.
    cdef uint64_t start = parts(k)[first].start if first < k.stack.len else at
    cdef uint64_t made = at
    if kind == P_PLAIN and items < k.stack.len:
        made = parts(k)[items].made
    if take(k, items, at) != OK:
        return ERR_OPCODE
    k.stack.len = first
    return push(k, kind, start, made, False)


cdef int wrap_last(Keeping* k, uint64_t n, uint64_t at) noexcept nogil:
    if k.stack.len < n:
        return wrong(k, "a tuple has more items than the stack")
    return wrap(k, k.stack.len - n, k.stack.len - n, P_PLAIN, at)


cdef int pop(Keeping* k, uint64_t at) noexcept nogil:
    if k.stack.len == 0:
        return wrong(k, "POP with an empty stack")
    k.stack.len -= 1
    settle(k, parts(k) + k.stack.len, at)
    return OK


cdef int call(Keeping* k) noexcept nogil:
    # Process a call of one of the two functions that return their first argument (see vm.pyx). The
    # reader has checked the call.
    cdef Part* v
    cdef uint64_t made
    if k.stack.len < 2:
        return wrong(k, "a call has no function")
    v = parts(k) + k.stack.len - 2
    made = v[1].made
    settle(k, &v[0], v[1].start)
    v[0].memo = 0
    k.stack.len -= 1
    v[0].made = made
    # The list is recognized by its position. An argument isn't filled later.
    v[0].kind = P_LIST if made == k.list_at else P_PLAIN
    return OK


cdef int walk(Keeping* k, const uint8_t* p, uint64_t n, uint64_t at) noexcept nogil:
    # Process one opcode of n bytes, at offset `at`.
    cdef uint8_t op = p[0]
    cdef int64_t mark
    cdef uint64_t index = 0
    cdef const Stored* entry
    cdef Effect effect = memo_effect(p, <int64_t> n, k.stored, &index)
    if effect == OF_NOTHING:
        return OK
    if effect == STORES:
        return store(k, index, at)
    if effect == FETCHES:
        if index >= k.memo.len or not (<const Stored*> k.memo.data)[index].known:
            return wrong(k, "its memo can't be followed")
        entry = <const Stored*> k.memo.data + index
        return push(k, entry.kind, at, entry.made, True)
    if effect == NO_INDEX or op == DUP:
        return wrong(k, "its memo can't be followed")
    if op == MARK:
        return push(k, P_MARK, at, at, False)
    if op == EMPTY_LIST:
        return push(k, P_LIST, at, at, False)
    if op == EMPTY_DICT:
        return push(k, P_DICT, at, at, False)
    if op == EMPTY_SET:
        return push(k, P_SET, at, at, False)
    if op == APPENDS or op == SETITEMS or op == ADDITEMS:
        mark = last_mark(k)
        return fill(k, mark - 1, <uint64_t> (mark + 1),
                    P_LIST if op == APPENDS else P_DICT if op == SETITEMS else P_SET, at)
    if op == APPEND:
        return fill(k, <int64_t> k.stack.len - 2, k.stack.len - 1, P_LIST, at)
    if op == SETITEM:
        return fill(k, <int64_t> k.stack.len - 3, k.stack.len - 2, P_DICT, at)
    if op == TUPLE or op == LIST or op == DICT or op == FROZENSET:
        mark = last_mark(k)
        if mark < 0:
            return wrong(k, "no MARK is on the stack")
        return wrap(k, <uint64_t> mark, <uint64_t> mark + 1,
                    P_LIST if op == LIST else P_DICT if op == DICT else P_PLAIN, at)
    if op == TUPLE1 or op == TUPLE2 or op == TUPLE3:
        return wrap_last(k, op - TUPLE1 + 1, at)
    if op == POP:
        return pop(k, at)
    if op == POP_MARK:
        mark = last_mark(k)
        if mark < 0:
            return wrong(k, "no MARK is on the stack")
        if take(k, <uint64_t> mark + 1, at) != OK:
            return ERR_OPCODE
        return pop(k, at)
    if op == REDUCE:
        return call(k)
    if op == STOP:
        k.stack.len = 0
        k.stored = 0
        return OK
    return push(k, P_PLAIN, at, at, False)


cdef int walk_all(Keeping* k) noexcept nogil:
    # Process the pickle that contains the list, up to its end.
    cdef const uint8_t* p = k.start
    cdef const uint8_t* end = k.end
    cdef bint ended = True
    cdef int64_t n
    cdef int code
    k.stack.len = 0
    k.memo.len = 0
    k.stored = 0
    k.pairs.len = 0
    while p < end:
        if ended and (p[0] == 0 or p[0] == 9 or p[0] == 10 or p[0] == 13 or p[0] == 32):
            p += 1
            continue
        n = opcode_size(p, end)
        if n < 0:
            return wrong(k, "an unsupported opcode")
        ended = p[0] == STOP
        if ended and <uint64_t> (p - k.start) > k.list_at:
            return OK
        code = walk(k, p, <uint64_t> n, <uint64_t> (p - k.start))
        if ended:
            k.memo.len = 0
        if code != OK:
            return code
        p += n
    return wrong(k, "it is truncated")


cdef int keeping_find(Keeping* k) noexcept nogil:
    # Find the items of the dict that contains the list, in order. Items may be set before the list,
    # when it isn't known yet that they belong to this dict, so everything is processed twice.
    cdef int code = walk_all(k)
    if code == OK and k.dict_at == NOWHERE:
        return wrong(k, "its dict can't be followed")
    if code == OK:
        code = walk_all(k)
    return code


# --- keys -----------------------------------------------------------------------------------------

cdef bint keeping_is(Keeping* k, uint64_t at, const char* name) noexcept nogil:
    # Whether the value at this position is this ASCII string. True for any string with escapes.
    cdef const uint8_t* p = k.start + at
    cdef int64_t n = opcode_size(p, k.end)
    cdef size_t size = strlen(name)
    cdef int64_t head
    cdef uint64_t index = 0
    cdef uint8_t op = p[0]
    if n >= 0 and memo_effect(p, n, 0, &index) == FETCHES and index < k.memo.len:
        p = k.start + (<const Stored*> k.memo.data)[index].start
        n = opcode_size(p, k.end)
        op = p[0]
    if n < 0:
        return False
    if op == UNICODE or op == STRING:
        head = 1 if op == UNICODE else 2
        return (memchr(p, 92, n) != NULL
                or (n == 2 * head + <int64_t> size and memcmp(p + head, name, size) == 0))
    head = 2 if op == SHORT_BINUNICODE or op == SHORT_BINSTRING else 9 if op == BINUNICODE8 else 5
    if op not in (SHORT_BINUNICODE, SHORT_BINSTRING, BINUNICODE8, BINUNICODE, BINSTRING):
        return False
    return n == head + <int64_t> size and memcmp(p + head, name, size) == 0


# --- writing --------------------------------------------------------------------------------------

cdef void keeping_again(Keeping* k) noexcept nogil:
    # Reset the state, as if nothing had been written.
    cdef Stored* entry = <Stored*> k.memo.data
    cdef uint64_t i
    for i in range(k.memo.len):
        entry[i].written = 0
    k.left = 2 * <uint64_t> (k.end - k.start) + SPARE


cdef inline int enter(Keeping* k, uint64_t at, uint64_t end) noexcept nogil:
    cdef Stretch stretch
    stretch.at = at
    stretch.end = end
    return OK if push_item(&k.open, &stretch) >= 0 else ERR_MEMORY


cdef int fetch(Keeping* k, uint64_t index, uint64_t at, Out* out) noexcept nogil:
    # Write a GET if the entry was already written, else the value itself.
    cdef const Stored* entry = <const Stored*> k.memo.data + index
    if index >= k.memo.len or not entry.known:
        return wrong(k, "its memo can't be followed")
    if entry.written:
        put_get(out, entry.written - 1)
        return OK
    if entry.end == 0 or entry.start <= at < entry.end:
        return wrong(k, "it contains itself")
    return enter(k, entry.start, entry.end)


cdef uint64_t memoised_at(const Keeping* k, uint64_t at) noexcept nogil:
    # Return the entry that the MEMOIZE at this byte created. Entries are in the order of their
    # positions.
    cdef const Stored* entry = <const Stored*> k.memo.data
    cdef uint64_t low = 0
    cdef uint64_t high = k.memo.len
    cdef uint64_t middle
    while low < high:
        middle = low + (high - low) // 2
        if entry[middle].stored_at < at:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint is_ascii(const uint8_t* p, uint64_t n) noexcept nogil:
    cdef uint64_t i
    for i in range(n):
        if p[i] > 127:
            return False
    return True


cdef int check_argument(Keeping* k, const uint8_t* p, uint64_t n) noexcept nogil:
    # Whether Python can load the argument of this opcode of n bytes. Strings of Python 2 must be
    # ASCII.
    cdef uint8_t op = p[0]
    cdef uint64_t head = 2 if op in (SHORT_BINUNICODE, SHORT_BINSTRING) else \
        9 if op == BINUNICODE8 else 5
    cdef Buf* text = &k.text
    cdef int code = OK
    text.len = 0
    if op in (SHORT_BINUNICODE, BINUNICODE, BINUNICODE8):
        code = OK if is_text(p + head, n - head) else ERR_TEXT
    elif op in (SHORT_BINSTRING, BINSTRING):
        code = OK if is_ascii(p + head, n - head) else ERR_TEXT
    elif op == UNICODE:
        code = unescape_unicode(text, p + 1, n - 2)
    elif op == STRING:
        code = unescape_string(text, p + 1, n - 2)
        if code == OK and not is_ascii(<const uint8_t*> text.data, text.len):
            code = ERR_TEXT
    elif op == FLOAT:
        code = OK if is_written_real(p + 1, n - 2) else ERR_TEXT
    elif op in (INT, LONG):
        code = OK if n - 2 <= DIGITS and is_written_integer(p + 1, n - 2, op == LONG) else ERR_TEXT
    if code == OK:
        return OK
    return ERR_MEMORY if code == -1 else wrong(k, "it has a text or number that can't be read")


cdef int copy(Keeping* k, const uint8_t* p, uint64_t n, Out* out,
              uint32_t* memoised) noexcept nogil:
    cdef uint64_t index = 0
    cdef uint64_t at = <uint64_t> (p - k.start)
    cdef uint8_t op = p[0]
    cdef Stored* entry
    cdef Effect effect = memo_effect(p, <int64_t> n, 0, &index)
    if effect == OF_NOTHING:
        return OK
    if effect == FETCHES:
        return fetch(k, index, at, out)
    if op in (GLOBAL, REDUCE):
        return wrong(k, "it is created by a call")
    if op == BYTEARRAY8:
        return wrong(k, "it has a bytearray, which needs protocol 5")
    if effect == STORES:
        if op == MEMOIZE:
            index = memoised_at(k, at)
        entry = <Stored*> k.memo.data + index
        if index >= k.memo.len or entry.stored_at != at:
            return wrong(k, "its memo can't be followed")
        if push_u32(&k.touched, <uint32_t> index) < 0:
            return ERR_MEMORY
        memoised[0] += 1
        entry.written = memoised[0]
        put_op(out, MEMOIZE)
        return OK
    put_bytes(out, p, n)
    return check_argument(k, p, n)


cdef int copy_all(Keeping* k, Out* out, uint32_t* memoised) noexcept nogil:
    # Copy the open byte ranges, innermost first.
    cdef Stretch* last
    cdef const uint8_t* p
    cdef size_t before
    cdef uint64_t cost
    cdef int64_t n
    cdef int code
    while k.open.len:
        last = <Stretch*> k.open.data + k.open.len - 1
        if last.at >= last.end:
            k.open.len -= 1
            continue
        p = k.start + last.at
        n = opcode_size(p, k.end)
        if n < 0:
            return wrong(k, "an unsupported opcode")
        last.at += <uint64_t> n
        before = out.b.len
        code = copy(k, p, <uint64_t> n, out, memoised)
        if code == OK and out.failed:
            code = ERR_MEMORY
        if code != OK:
            return code
        cost = out.b.len - before
        if cost < <uint64_t> n:
            cost = <uint64_t> n
        if cost > k.left:
            return wrong(k, "it would be larger than the whole file")
        k.left -= cost
    return OK


cdef int keeping_put(Keeping* k, uint64_t at, uint64_t end, Out* out,
                     uint32_t* memoised) noexcept nogil:
    # Write a range of whole values. `memoised` is the number of memo entries in the other pickle.
    # If the range can't be written (ERR_OPCODE), nothing is written.
    cdef size_t before = out.b.len
    cdef uint32_t had = memoised[0]
    cdef int code
    k.open.len = 0
    k.touched.len = 0
    code = enter(k, at, end)
    if code == OK:
        code = copy_all(k, out, memoised)
    if code == ERR_OPCODE:
        out.b.len = before
        memoised[0] = had
        keeping_forget(k)
    return code


cdef void keeping_forget(Keeping* k) noexcept nogil:
    # Undo the bookkeeping for the last value.
    cdef Stored* entry = <Stored*> k.memo.data
    cdef const uint32_t* touched = <const uint32_t*> k.touched.data
    cdef uint64_t i
    for i in range(k.touched.len):
        entry[touched[i]].written = 0
