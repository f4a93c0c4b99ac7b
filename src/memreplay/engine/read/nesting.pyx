"""Build memory events' call stacks from the operators and Python calls that enclose them.

Entries are sorted by thread, then time; at the same time, spans come before events, and longer
spans before shorter spans. So the open spans form a stack.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_free, buf_init, buf_reserve, push_u32
from memreplay.engine.base.hashmap cimport NONE32, spans_free, spans_init, spans_intern
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.profile cimport SPAN_PYTHON, MemoryRow, SpanRow


cdef int nesting_init(Nesting* n, uint64_t seed) noexcept nogil:
    memset(n, 0, sizeof(Nesting))
    buf_init(&n.stack_of, 4)
    buf_init(&n.open, 4)
    buf_init(&n.known, 4)
    buf_init(&n.codes, 4)
    if spans_init(&n.stacks, seed) < 0 or buf_reserve(&n.stacks.data, 64) < 0:
        return ERR_MEMORY
    # Stack 0 has no frames.
    return OK if spans_intern(&n.stacks, n.stacks.data.data, 0) == 0 else ERR_MEMORY


cdef void nesting_free(Nesting* n) noexcept nogil:
    spans_free(&n.stacks)
    buf_free(&n.stack_of)
    buf_free(&n.open)
    buf_free(&n.known)
    buf_free(&n.codes)


cdef uint32_t stack_of_open(Nesting* n, const SpanRow* spans) noexcept nogil:
    # Return the stack that the open spans make up; NONE32 when out of memory.
    cdef const uint32_t* open_ = <const uint32_t*> n.open.data
    cdef uint32_t* known
    cdef uint64_t i = n.open.len
    if i == 0:
        return 0
    known = <uint32_t*> n.known.data + open_[i - 1]
    if known[0] == NONE32:
        n.codes.len = 0
        while i > 0 and n.codes.len < DEEPEST_STACK:
            i -= 1
            if push_u32(&n.codes, spans[open_[i]].name
                        | (PYTHON_FRAME if spans[open_[i]].kind == SPAN_PYTHON else 0)) < 0:
                return NONE32
        known[0] = spans_intern(&n.stacks, n.codes.data, n.codes.len * 4)
    return known[0]


cdef int nest(Nesting* n, const Buf* spans, const Buf* memory, const uint32_t* order,
              uint64_t entries) noexcept nogil:
    # `order` has the indices of all entries: spans come first in this numbering, then memory
    # events.
    cdef const SpanRow* s = <const SpanRow*> spans.data
    cdef const MemoryRow* m = <const MemoryRow*> memory.data
    cdef uint32_t* stack_of
    cdef uint64_t i, pid, tid
    cdef uint64_t last_pid = 0
    cdef uint64_t last_tid = 0
    cdef uint32_t at, top
    cdef double time
    cdef bint is_span
    if buf_reserve(&n.stack_of, memory.len + 1) < 0 or buf_reserve(&n.known, spans.len + 1) < 0:
        return ERR_MEMORY
    n.stack_of.len = memory.len
    n.known.len = spans.len
    memset(n.stack_of.data, 0, memory.len * 4)
    memset(n.known.data, 0xFF, spans.len * 4)
    stack_of = <uint32_t*> n.stack_of.data
    for i in range(entries):
        is_span = order[i] < spans.len
        at = order[i] if is_span else order[i] - <uint32_t> spans.len
        pid = s[at].pid if is_span else m[at].pid
        tid = s[at].tid if is_span else m[at].tid
        time = s[at].begin if is_span else m[at].time
        if pid != last_pid or tid != last_tid:
            n.open.len = 0
            last_pid = pid
            last_tid = tid
        while n.open.len:
            top = (<const uint32_t*> n.open.data)[n.open.len - 1]
            # A span that ends when another begins isn't its parent, but an event at a span's end is
            # inside it.
            if s[top].begin + s[top].duration > time or (
                    not is_span and s[top].begin + s[top].duration == time):
                break
            n.open.len -= 1
        if is_span:
            if push_u32(&n.open, at) < 0:
                return ERR_MEMORY
        else:
            stack_of[at] = stack_of_open(n, s)
            if stack_of[at] == NONE32:
                return ERR_MEMORY
    return OK
