"""Extract memory events and spans from a torch.profiler (Kineto) trace while its JSON is read.

Kineto writes a dict with a list `traceEvents`. An instant event named `[memory]` is an allocation
of `Bytes` at `Addr`, or a free if `Bytes` is negative; the event also has the total bytes allocated
and reserved afterwards (torch/csrc/profiler/kineto_shim.cpp and
torch/csrc/autograd/profiler_kineto.cpp). Complete events ("X") are operators (category cpu_op),
Python calls (python_function), or record_function and ProfilerStep (user_annotation). Other events
are checked as JSON and dropped.
"""

from libc.math cimport floor, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strlen
from memreplay.engine.base.growbuf cimport buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport NONE32, spans_intern
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail, fail_limit
from memreplay.engine.read.tables cimport MAX_BYTES, Tables
from memreplay.engine.read.value cimport V_FLOAT, V_INT, V_STR, V_UINT, is_dict

ctypedef const char* Spelling

# Constant after import.
cdef Spelling[WORDS] SPELLED = [
    b"traceEvents", b"baseTimeNanoseconds", b"ph", b"cat", b"name", b"ts", b"dur", b"pid", b"tid",
    b"args", b"Addr", b"Bytes", b"Alloc size", b"Total Allocated", b"Total Reserved",
    b"Device Type", b"Device Id",
    b"[memory]", b"[OutOfMemory]", b"cpu_op", b"Operator", b"python_function", b"user_annotation",
]


cdef uint64_t sortable(double x) noexcept nogil:
    # Return a number that sorts like `x`: IEEE 754 orders positive numbers by their bits, and
    # negative ones the other way round.
    cdef uint64_t bits
    x += 0.0  # -0.0 is equal to 0.0
    memcpy(&bits, &x, sizeof(bits))
    return ~bits if bits >> 63 else bits | (<uint64_t> 1 << 63)


cdef int64_t us_of(const Profile* p, double time) noexcept nogil:
    # Convert a time to microseconds since the epoch, rounded down. It's below 2e18 (`real_value`).
    cdef int64_t rest = p.base_ns % 1000
    if rest < 0:
        rest += 1000
    return <int64_t> floor(time + <double> rest / 1000) + (p.base_ns - rest) // 1000


cdef int profile_init(Profile* p, Tables* tables) noexcept nogil:
    cdef int i
    memset(p, 0, sizeof(Profile))
    p.tables = tables
    buf_init(&p.memory, sizeof(MemoryRow))
    buf_init(&p.spans, sizeof(SpanRow))
    for i in range(WORDS):
        p.words[i] = spans_intern(&tables.strings, SPELLED[i], strlen(SPELLED[i]))
        if p.words[i] == NONE32:
            return fail(&tables.status, ERR_MEMORY, "strings")
    return OK


cdef void profile_free(Profile* p) noexcept nogil:
    buf_free(&p.memory)
    buf_free(&p.spans)


cdef inline uint32_t word(const Profile* p, int which) noexcept nogil:
    return p.words[which]


cdef inline int word_of(const Profile* p, uint32_t id, int first, int stop) noexcept nogil:
    # Return the index of the word with this id, or -1.
    cdef int i
    for i in range(first, stop):
        if p.words[i] == id:
            return i
    return -1


# ---- places --------------------------------------------------------------------------------------

cdef uint64_t place_of(const Profile* p, const Value* parent, uint32_t key,
                       bint a_list) noexcept nogil:
    # Return a container's role in its parent (NULL at the top level).
    if parent == NULL:
        return AT_EVENTS if a_list else AT_TOP
    if parent.num == AT_TOP:
        return AT_EVENTS if a_list and key == word(p, W_TRACE_EVENTS) else AT_NOWHERE
    if parent.num == AT_EVENTS:
        return AT_NOWHERE if a_list else AT_EVENT
    if parent.num == AT_EVENT and not a_list and key == word(p, W_ARGS):
        return AT_ARGS
    return AT_NOWHERE


cdef bint text_wanted(const Profile* p, const Value* parent, uint32_t key) noexcept nogil:
    # Whether a string under this key is used.
    if parent == NULL or parent.num != AT_EVENT:
        return False
    return (key == word(p, W_PH) or key == word(p, W_CAT) or key == word(p, W_NAME)
            or key == word(p, W_PID) or key == word(p, W_TID))


cdef int profile_open(Profile* p, const Value* container) noexcept nogil:
    if container.num == AT_EVENT:
        memset(&p.row, 0, sizeof(MemoryRow))
        p.ph = NONE32
        p.cat = NONE32
        p.name = 0
        p.seen = 0
        p.duration = 0
    elif container.num == AT_EVENTS:
        p.has_events = True
    return OK


# ---- values --------------------------------------------------------------------------------------

cdef inline bint real_value(const Value* v, double* out) noexcept nogil:
    if v.kind == V_INT:
        out[0] = <double> <int64_t> v.num
    elif v.kind == V_UINT:
        out[0] = <double> v.num
    elif v.kind == V_FLOAT:
        memcpy(out, &v.num, 8)
    else:
        return False
    return isfinite(out[0]) and -1e18 < out[0] < 1e18


cdef inline bint whole_value(const Value* v, int64_t* out) noexcept nogil:
    # Read a byte count, which may be negative.
    out[0] = <int64_t> v.num
    return v.kind == V_INT and -MAX_BYTES <= out[0] <= MAX_BYTES


cdef inline uint64_t thread_value(const Value* v) noexcept nogil:
    # Read a process or thread id, which is a number or a string.
    return ~<uint64_t> v.idx if v.kind == V_STR else v.num


cdef int set_field(Profile* p, uint32_t key, const Value* v) noexcept nogil:
    cdef int which = word_of(p, key, W_PH, W_ARGS)
    cdef bint fits = True
    if which < 0:
        return OK
    p.seen |= <uint32_t> 1 << which
    if which == W_PH:
        p.ph = v.idx if v.kind == V_STR else NONE32
    elif which == W_CAT:
        p.cat = v.idx if v.kind == V_STR else NONE32
    elif which == W_NAME:
        p.name = v.idx if v.kind == V_STR else 0
    elif which == W_TS:
        fits = real_value(v, &p.row.time)
    elif which == W_DUR:
        fits = real_value(v, &p.duration)
    elif which == W_PID:
        p.row.pid = thread_value(v)
    else:
        p.row.tid = thread_value(v)
    if not fits:
        p.row.flags |= M_BROKEN
    return OK


cdef int set_argument(Profile* p, uint32_t key, const Value* v) noexcept nogil:
    cdef int which = word_of(p, key, W_ADDR, W_MEMORY)
    cdef int64_t n = 0
    cdef bint fits = True
    if which < 0:
        return OK
    p.seen |= <uint32_t> 1 << which
    if which == W_ADDR:
        fits = v.kind == V_INT or v.kind == V_UINT
        p.row.address = v.num
    elif which == W_BYTES or which == W_ALLOC_SIZE:
        fits = whole_value(v, &p.row.size)
    elif which == W_ALLOCATED:
        fits = whole_value(v, &p.row.allocated)
        p.row.flags |= M_ALLOCATED
    elif which == W_RESERVED:
        fits = whole_value(v, &p.row.reserved)
        p.row.flags |= M_RESERVED
    else:
        fits = whole_value(v, &n) and -1 <= n < 0x7FFFFFFF
        if which == W_DEVICE:
            p.row.device = <int32_t> n
        else:
            p.row.device_type = <int32_t> n
    if not fits:
        p.row.flags |= M_BROKEN
    return OK


cdef inline bint saw(const Profile* p, int which) noexcept nogil:
    return (p.seen >> which) & 1


cdef int push_row(Profile* p, Buf* rows, const void* row, const char* what) noexcept nogil:
    if rows.len >= p.tables.max_rows:
        return fail_limit(&p.tables.status, what, rows.len + 1, p.tables.max_rows)
    if push_item(rows, row) < 0:
        return fail(&p.tables.status, ERR_MEMORY, what)
    return OK


cdef int end_event(Profile* p) noexcept nogil:
    cdef SpanRow span
    cdef int which
    if p.name == word(p, W_MEMORY) or p.name == word(p, W_OOM):
        if p.name == word(p, W_OOM):
            p.row.flags |= M_OOM
        elif not saw(p, W_ADDR):
            p.row.flags |= M_BROKEN
        if not saw(p, W_TS) or not (saw(p, W_BYTES) or saw(p, W_ALLOC_SIZE)):
            p.row.flags |= M_BROKEN
        return push_row(p, &p.memory, &p.row, "rows of memory events")
    which = word_of(p, p.cat, W_CPU_OP, WORDS)
    if which < 0 or not saw(p, W_TS) or not saw(p, W_DUR) or p.row.flags & M_BROKEN:
        return OK
    span.begin = p.row.time
    span.duration = p.duration
    span.pid = p.row.pid
    span.tid = p.row.tid
    span.name = p.name
    span.kind = SPAN_OP
    if which == W_PYTHON:
        span.kind = SPAN_PYTHON
    elif which == W_ANNOTATION:
        span.kind = SPAN_ANNOTATION
    return push_row(p, &p.spans, &span, "rows of spans")


cdef int profile_set(Profile* p, const Value* parent, uint32_t key, const Value* v) noexcept nogil:
    # Set a complete value in its container.
    if parent.num == AT_EVENT:
        return set_field(p, key, v)
    if parent.num == AT_ARGS:
        return set_argument(p, key, v)
    if parent.num == AT_EVENTS and v.num == AT_EVENT and is_dict(v.kind):
        return end_event(p)
    if parent.num == AT_TOP and key == word(p, W_BASE) and v.kind == V_INT:
        p.base_ns = <int64_t> v.num
    return OK
