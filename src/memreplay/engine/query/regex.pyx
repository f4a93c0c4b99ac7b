"""Search texts for many regular expressions at once.

Compiling an expression takes microseconds here, which matters for small files: Python's `re` takes
a millisecond. Supports only what memreplay's own expressions need, only in ASCII texts, and only
whether there is a match; the results are the same as `re`'s.

    letters, \\w \\W \\d \\D \\s \\S \\b \\Z, escaped punctuation, . ^ $, [...] and [^...], a|b
    (?:...) (?i:...) (?!...) (?<!letters)
    ? for letters, sets and groups; * + {m,n} for letters and sets

An expression becomes a list of instructions without loops, so the recursion that tries one way
after another is no deeper than the list is long. Like `re`, it's as fast as the expression's
repetitions allow.
"""

from libc.string cimport memchr, memcmp, memmove, memset
from memreplay.engine.base.bits cimport ctz64
from memreplay.engine.base.charset cimport (
    Set, fold, has, invert, is_digit, is_letter, is_word, next_in, overlap, put, put_named,
    put_range, unite
)
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, push_bytes, push_item, push_zeroed
)
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport ERR_MEMORY, OK

cdef enum Op:
    LITERAL      # the bytes letters[a : a + b]
    # `least` to `most` bytes that are in sets[a]; as many as there are if b, because no other byte
    # can follow
    CLASS
    SPLIT        # the next instruction, or the one `a` further on
    JUMP         # the instruction `a` further on
    START
    END          # the end, or before a final newline
    LAST         # the end
    BOUNDARY     # of a word
    NOT_AHEAD    # the next instructions don't match here; continue `a` further on
    NOT_BEHIND   # the bytes letters[a : a + b] aren't before this place
    MATCH


cdef struct Instruction:
    Op op
    uint32_t a, b
    uint32_t least, most


cdef struct First:
    # What a match can begin with.
    Set bytes
    bint end             # it can be empty at the end of a text


cdef struct Parser:
    Regexes* r
    const uint8_t* p
    const uint8_t* end
    uint32_t literal     # the LITERAL that another letter can extend, or NONE32


cdef void regexes_init(Regexes* r) noexcept nogil:
    memset(r, 0, sizeof(Regexes))
    buf_init(&r.code, sizeof(Instruction))
    buf_init(&r.letters, 1)
    buf_init(&r.sets, sizeof(Set))
    buf_init(&r.rest, sizeof(First))


cdef void regexes_free(Regexes* r) noexcept nogil:
    buf_free(&r.code)
    buf_free(&r.letters)
    buf_free(&r.sets)
    buf_free(&r.rest)


# ---- parsing

cdef inline bint is_plain(uint8_t c) noexcept nogil:
    # Whether a character stands for itself, outside a set. A brace could begin a repetition.
    return c < 128 and not memchr(<const char*> b".^$*+?{}[]\\|()", c, 14)


cdef inline bint is_escaped_sign(uint8_t c) noexcept nogil:
    return c < 128 and not is_letter(c) and not is_digit(c)


cdef int emit(Parser* y, Op op, uint32_t a, uint32_t b) noexcept nogil:
    cdef Instruction one
    one.op = op
    one.a = a
    one.b = b
    one.least = 1
    one.most = 1
    y.literal = NONE32
    return OK if push_item(&y.r.code, &one) == 0 else ERR_MEMORY


cdef int insert(Parser* y, uint32_t at, Op op) noexcept nogil:
    # Put an instruction before those from `at` on, whose jumps are relative and stay valid.
    cdef Instruction* code
    cdef Instruction one
    cdef int failed = emit(y, op, 0, 0)
    if failed:
        return failed
    code = <Instruction*> y.r.code.data
    one = code[y.r.code.len - 1]
    memmove(code + at + 1, code + at, (y.r.code.len - 1 - at) * sizeof(Instruction))
    one.a = <uint32_t> y.r.code.len - at
    code[at] = one
    return OK


cdef int emit_set(Parser* y, const Set* s) noexcept nogil:
    if push_item(&y.r.sets, s) < 0:
        return ERR_MEMORY
    return emit(y, CLASS, <uint32_t> y.r.sets.len - 1, 0)


cdef int emit_letter(Parser* y, uint8_t c) noexcept nogil:
    # Add a letter as a LITERAL, or to the one before it.
    cdef Instruction* code = <Instruction*> y.r.code.data
    cdef uint32_t at = y.literal
    cdef int failed
    if push_bytes(&y.r.letters, &c, 1) < 0:
        return ERR_MEMORY
    if at != NONE32:
        code[at].b += 1
        return OK
    failed = emit(y, LITERAL, <uint32_t> y.r.letters.len - 1, 1)
    y.literal = <uint32_t> y.r.code.len - 1
    return failed


cdef int parse_number(Parser* y, uint32_t* found) noexcept nogil:
    cdef uint32_t value = 0
    if y.p == y.end or not is_digit(y.p[0]):
        return UNSUPPORTED
    while y.p < y.end and is_digit(y.p[0]):
        value = value * 10 + y.p[0] - c"0"
        if value > 65535:
            return UNSUPPORTED
        y.p += 1
    found[0] = value
    return OK


cdef int parse_repeat(Parser* y, uint32_t* least, uint32_t* most) noexcept nogil:
    # Parse the repetition that follows, if any. Lazy and possessive ones aren't supported.
    cdef uint8_t c = y.p[0] if y.p < y.end else 0
    least[0] = 1
    most[0] = 1
    if c == c"{":
        y.p += 1
        if parse_number(y, least) != OK:
            return UNSUPPORTED
        most[0] = least[0]
        if y.p < y.end and y.p[0] == c",":
            y.p += 1
            if parse_number(y, most) != OK or most[0] < least[0]:
                return UNSUPPORTED
        if y.p == y.end or y.p[0] != c"}":
            return UNSUPPORTED
    elif c == c"?" or c == c"*":
        least[0] = 0
    elif c != c"+":
        return OK
    if c == c"*" or c == c"+":
        most[0] = NO_END
    y.p += 1
    if y.p < y.end and memchr(<const char*> b"?*+{", y.p[0], 4):
        return UNSUPPORTED
    return OK


cdef int parse_set(Parser* y, bint any_case, Set* s) noexcept nogil:
    # Parse what follows a bracket. Signs that have, or may get, a special meaning in a set must be
    # escaped.
    cdef bint opposite = False
    cdef uint8_t c, last
    cdef const uint8_t* begin
    memset(s, 0, sizeof(Set))
    if y.p < y.end and y.p[0] == c"^":
        opposite = True
        y.p += 1
    begin = y.p
    while True:
        if y.p == y.end:
            return UNSUPPORTED
        c = y.p[0]
        y.p += 1
        if c == c"]" and y.p - 1 != begin:
            break
        if c >= 128 or memchr(<const char*> b"[]-&~|", c, 6):
            return UNSUPPORTED
        if c == c"\\":
            if y.p == y.end:
                return UNSUPPORTED
            c = y.p[0]
            y.p += 1
            if not is_escaped_sign(c):
                if not put_named(s, c):
                    return UNSUPPORTED
                continue
        last = c
        if y.end - y.p >= 2 and y.p[0] == c"-":
            last = y.p[1]
            if last < c or not is_word(last):
                return UNSUPPORTED
            y.p += 2
        put_range(s, c, last)
    if any_case:
        fold(s)
    if opposite:
        invert(s)
    return OK


cdef int parse_one(Parser* y, bint any_case, Set* s, int* letter) noexcept nogil:
    # Parse a letter or set. `letter` is the letter, or -1 for a set.
    cdef uint8_t c = y.p[0]
    memset(s, 0, sizeof(Set))
    letter[0] = -1
    y.p += 1
    if c == c"[":
        return parse_set(y, any_case, s)
    if c == c".":
        put(s, c"\n")
        invert(s)
        return OK
    if c == c"\\":
        if y.p == y.end:
            return UNSUPPORTED
        c = y.p[0]
        y.p += 1
        if not is_escaped_sign(c):
            if not put_named(s, c):
                return UNSUPPORTED
            return OK
    elif not is_plain(c):
        return UNSUPPORTED
    put(s, c)
    if any_case and is_letter(c):
        fold(s)
    else:
        letter[0] = c
    return OK


cdef int parse_group(Parser* y, bint any_case) noexcept nogil:
    # Parse what follows a parenthesis, up to and including the closing one.
    cdef size_t at = y.r.code.len
    cdef uint32_t begin = <uint32_t> y.r.letters.len
    cdef size_t left = y.end - y.p
    cdef bint ahead = False
    cdef int failed
    if left >= 3 and memcmp(y.p, b"?<!", 3) == 0:
        y.p += 3
        while y.p < y.end and is_plain(y.p[0]) and not (any_case and is_letter(y.p[0])):
            if push_bytes(&y.r.letters, y.p, 1) < 0:
                return ERR_MEMORY
            y.p += 1
        if y.p == y.end or y.p[0] != c")":
            return UNSUPPORTED
        y.p += 1
        return emit(y, NOT_BEHIND, begin, <uint32_t> y.r.letters.len - begin)
    if left >= 2 and memcmp(y.p, b"?:", 2) == 0:
        y.p += 2
    elif left >= 3 and memcmp(y.p, b"?i:", 3) == 0:
        y.p += 3
        any_case = True
    elif left >= 2 and memcmp(y.p, b"?!", 2) == 0:
        y.p += 2
        ahead = True
    else:
        return UNSUPPORTED
    y.literal = NONE32
    failed = parse_either(y, any_case)
    if failed:
        return failed
    if y.p == y.end or y.p[0] != c")":
        return UNSUPPORTED
    y.p += 1
    if ahead:
        failed = emit(y, MATCH, 0, 0)
        if failed == OK:
            failed = insert(y, <uint32_t> at, NOT_AHEAD)
    y.literal = NONE32
    return failed


cdef int parse_optional(Parser* y, size_t at) noexcept nogil:
    # Make the group that begins at `at` optional if a question mark follows.
    cdef uint32_t least = 0
    cdef uint32_t most = 0
    if parse_repeat(y, &least, &most) != OK:
        return UNSUPPORTED
    if least == 1 and most == 1:
        return OK
    if most != 1:
        return UNSUPPORTED
    return insert(y, <uint32_t> at, SPLIT)


cdef int parse_sign(Parser* y, bint* found) noexcept nogil:
    # Parse a position: ^ $ \b \Z.
    cdef uint8_t c = y.p[0]
    cdef uint8_t after = y.p[1] if y.end - y.p >= 2 else 0
    cdef Op op = START
    cdef size_t n = 1
    found[0] = True
    if c == c"$":
        op = END
    elif c == c"\\" and (after == c"b" or after == c"Z"):
        op = BOUNDARY if after == c"b" else LAST
        n = 2
    elif c != c"^":
        found[0] = False
        return OK
    y.p += n
    if y.p < y.end and memchr(<const char*> b"?*+{", y.p[0], 4):
        return UNSUPPORTED
    return emit(y, op, 0, 0)


cdef int parse_sequence(Parser* y, bint any_case) noexcept nogil:
    cdef Set s
    cdef Instruction* last
    cdef int letter = 0
    cdef bint position = False
    cdef uint32_t least = 1
    cdef uint32_t most = 1
    cdef size_t at
    cdef int failed = OK
    while failed == OK and y.p < y.end and y.p[0] != c"|" and y.p[0] != c")":
        at = y.r.code.len
        if y.p[0] == c"(":
            y.p += 1
            failed = parse_group(y, any_case)
            if failed == OK:
                failed = parse_optional(y, at)
            continue
        failed = parse_sign(y, &position)
        if failed or position:
            continue
        failed = parse_one(y, any_case, &s, &letter)
        if failed == OK:
            failed = parse_repeat(y, &least, &most)
        if failed:
            continue
        if letter >= 0 and least == 1 and most == 1:
            failed = emit_letter(y, <uint8_t> letter)
            continue
        failed = emit_set(y, &s)
        if failed == OK:
            last = <Instruction*> y.r.code.data + y.r.code.len - 1
            last.least = least
            last.most = most
    return failed


cdef int parse_either(Parser* y, bint any_case) noexcept nogil:
    # Parse alternatives: SPLIT, the first one, JUMP to the end, the others.
    cdef size_t at = y.r.code.len
    cdef size_t jump
    cdef int failed = parse_sequence(y, any_case)
    if failed or y.p == y.end or y.p[0] != c"|":
        return failed
    y.p += 1
    jump = y.r.code.len + 1
    failed = emit(y, JUMP, 0, 0)
    if failed == OK:
        failed = insert(y, <uint32_t> at, SPLIT)
    if failed == OK:
        failed = parse_either(y, any_case)
    if failed == OK:
        (<Instruction*> y.r.code.data)[jump].a = <uint32_t> (y.r.code.len - jump)
    y.literal = NONE32
    return failed


# ---- the bytes that a match can begin with

cdef inline uint32_t step(const Instruction* i) noexcept nogil:
    # Return how far on the next instruction is, or the second of two.
    return i.a if i.op == SPLIT or i.op == JUMP or i.op == NOT_AHEAD else 1


cdef void put_first(const Regexes* r, const Instruction* i, First* first) noexcept nogil:
    # Add the bytes that a match of these instructions can begin with.
    while True:
        if i.op == LITERAL:
            put(&first.bytes, (<const uint8_t*> r.letters.data)[i.a])
            return
        if i.op == CLASS:
            if i.most:
                unite(&first.bytes, <const Set*> r.sets.data + i.a)
            if i.least:
                return
        elif i.op == SPLIT:
            put_first(r, i + 1, first)
        elif i.op == END or i.op == LAST or i.op == MATCH:
            first.end = True
            if i.op == END:
                put(&first.bytes, c"\n")
            elif i.op == MATCH:
                memset(&first.bytes, 0xFF, sizeof(Set))
            return
        i += step(i)


cdef inline bint can_begin(const First* first, const uint8_t* text, size_t n,
                           size_t at) noexcept nogil:
    return has(&first.bytes, text[at]) if at < n else first.end


cdef void note_bytes(uint64_t* table, uint64_t one, const First* first) noexcept nogil:
    cdef uint32_t c = next_in(&first.bytes, 0)
    while c < AT_END:
        table[c] |= one
        c = next_in(&first.bytes, c + 1)
    if first.end:
        table[AT_END] |= one


cdef void note_pairs(Regexes* r, const Set* s, const First* then) noexcept nogil:
    # Note that the last expression can match at a byte of `s` if `then` can follow.
    cdef uint64_t one = <uint64_t> 1 << r.n
    cdef uint32_t c = next_in(s, 0)
    cdef uint32_t d
    while c < AT_END:
        d = next_in(&then.bytes, 0)
        while d < AT_END:
            r.pairs[pair_of(c, d)] |= one
            d = next_in(&then.bytes, d + 1)
        if then.end:
            r.pairs[pair_of(c, AT_END)] |= one
        c = next_in(s, c + 1)


cdef void note_later(Regexes* r, const Instruction* i, const First* rest) noexcept nogil:
    # Note where the last expression can match, except at the start of a text. `rest` belongs to
    # `i`.
    cdef const uint8_t* letters = <const uint8_t*> r.letters.data
    cdef uint64_t one = <uint64_t> 1 << r.n
    cdef Set first
    cdef uint32_t pair
    while i.op != START:
        if i.op == LITERAL and i.b > 1:
            r.pairs[pair_of(letters[i.a], letters[i.a + 1])] |= one
            return
        if i.op == LITERAL:
            memset(&first, 0, sizeof(Set))
            put(&first, letters[i.a])
            note_pairs(r, &first, rest + 1)
            return
        if i.op == CLASS and i.most == 1 and i.least == 1:
            note_pairs(r, <const Set*> r.sets.data + i.a, rest + 1)
            return
        if i.op == CLASS or i.op == END or i.op == LAST or i.op == MATCH:
            for pair in range(PAIRS):
                r.pairs[pair] |= one
            return
        if i.op == SPLIT:
            note_later(r, i + 1, rest + 1)
        rest += step(i)
        i += step(i)


cdef void put_last(const Regexes* r, const Instruction* i, Set last, Set* found) noexcept nogil:
    # Add the bytes with which a text can end if these instructions match up to its end, and all
    # bytes if they can match elsewhere. `last`: the bytes that can come before.
    while i.op != MATCH:
        if i.op == LITERAL:
            memset(&last, 0, sizeof(Set))
            put(&last, (<const uint8_t*> r.letters.data)[i.a + i.b - 1])
        elif i.op == CLASS:
            if i.least:
                memset(&last, 0, sizeof(Set))
            unite(&last, <const Set*> r.sets.data + i.a)
        elif i.op == END or i.op == LAST:
            unite(found, &last)
            return
        elif i.op == SPLIT:
            put_last(r, i + 1, last, found)
        i += step(i)
    memset(found, 0xFF, sizeof(Set))


cdef int find_first(Regexes* r) noexcept nogil:
    # Find what the rest of the last expression can begin with, at each instruction, and where in a
    # text to try it.
    cdef uint64_t one = <uint64_t> 1 << r.n
    cdef Instruction* code = <Instruction*> r.code.data
    cdef const First* rest
    cdef uint32_t begin = r.begin[r.n]
    cdef First last
    cdef Set every
    cdef uint32_t i
    for i in range(begin, <uint32_t> r.code.len):
        if push_zeroed(&r.rest) < 0:
            return ERR_MEMORY
        put_first(r, code + i, <First*> r.rest.data + i)
    rest = <const First*> r.rest.data + begin
    for i in range(begin, <uint32_t> r.code.len - 1):
        if code[i].op == CLASS:
            code[i].b = not overlap(<const Set*> r.sets.data + code[i].a,
                                    &rest[i + 1 - begin].bytes)
    note_bytes(r.first, one, rest)
    note_later(r, code + begin, rest)
    memset(&every, 0xFF, sizeof(Set))
    memset(&last, 0, sizeof(First))
    last.end = True
    put_last(r, code + begin, every, &last.bytes)
    # Before a final newline, $ also matches.
    put(&last.bytes, c"\n")
    note_bytes(r.last, one, &last)
    return OK


cdef int regexes_add(Regexes* r, const uint8_t* pattern, size_t n, uint64_t bits) noexcept nogil:
    # Add an expression; `bits` is the result of searching a text that it matches. Its alternatives
    # become expressions of their own, because fewer places need to be tried for each. After any
    # other return value than OK, only regexes_free() may follow.
    cdef Parser y
    cdef int failed
    if n > MAX_LENGTH:
        return UNSUPPORTED
    y.r = r
    y.p = pattern
    y.end = pattern + n
    while True:
        if r.n == MAX_REGEXES:
            return UNSUPPORTED
        y.literal = NONE32
        r.begin[r.n] = <uint32_t> r.code.len
        r.bits[r.n] = bits
        failed = parse_sequence(&y, False)
        if failed == OK:
            failed = emit(&y, MATCH, 0, 0)
        if failed == OK:
            failed = find_first(r)
        if failed:
            return failed
        r.n += 1
        if y.p == y.end:
            return OK
        if y.p[0] != c"|":
            return UNSUPPORTED
        y.p += 1


# ---- searching

cdef bint matches(const Regexes* r, const Instruction* i, const uint8_t* text, size_t n,
                  size_t at) noexcept nogil:
    # Whether the instructions match from this place on.
    cdef const Instruction* code = <const Instruction*> r.code.data
    cdef const First* rest = <const First*> r.rest.data
    cdef const uint8_t* letters = <const uint8_t*> r.letters.data
    cdef const Set* s
    cdef size_t most, got
    while True:
        if i.op == LITERAL:
            if n - at < i.b or memcmp(text + at, letters + i.a, i.b) != 0:
                return False
            at += i.b
        elif i.op == CLASS:
            s = <const Set*> r.sets.data + i.a
            most = min(n - at, <size_t> i.most)
            got = 0
            while got < most and has(s, text[at + got]):
                got += 1
            if got < i.least:
                return False
            while got > i.least and not i.b:
                if (can_begin(rest + (i + 1 - code), text, n, at + got)
                        and matches(r, i + 1, text, n, at + got)):
                    return True
                got -= 1
            at += got
        elif i.op == SPLIT:
            if (can_begin(rest + (i + 1 - code), text, n, at)
                    and matches(r, i + 1, text, n, at)):
                return True
            i += i.a
            continue
        elif i.op == JUMP:
            i += i.a
            continue
        elif i.op == START:
            if at:
                return False
        elif i.op == END:
            if at != n and (at + 1 != n or text[at] != c"\n"):
                return False
        elif i.op == LAST:
            if at != n:
                return False
        elif i.op == BOUNDARY:
            if (at > 0 and is_word(text[at - 1])) == (at < n and is_word(text[at])):
                return False
        elif i.op == NOT_AHEAD:
            if matches(r, i + 1, text, n, at):
                return False
            i += i.a
            continue
        elif i.op == NOT_BEHIND:
            if at >= i.b and memcmp(text + at - i.b, letters + i.a, i.b) == 0:
                return False
        else:
            return True
        i += 1


cdef uint64_t regexes_search(const Regexes* r, const uint8_t* text, size_t n) noexcept nogil:
    # Return the bits of the expressions that are found in an ASCII text.
    cdef const Instruction* code = <const Instruction*> r.code.data
    cdef uint64_t left = r.last[text[n - 1] if n else AT_END]
    cdef uint64_t found = 0
    cdef uint32_t c = text[0] if n else AT_END
    cdef uint64_t tried = r.first[c] & left
    cdef uint32_t then = text[1] if n > 1 else AT_END
    cdef uint32_t one
    cdef size_t at = 0
    while True:
        while tried:
            one = <uint32_t> ctz64(tried)
            tried &= tried - 1
            if matches(r, code + r.begin[one], text, n, at):
                found |= r.bits[one]
                left &= ~(<uint64_t> 1 << one)
        if at == n or not left:
            return found
        at += 1
        c = then
        then = text[at + 1] if at + 1 < n else AT_END
        tried = r.pairs[pair_of(c, then)] & left
