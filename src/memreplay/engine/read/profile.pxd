# State for reading torch.profiler (Kineto) traces: memory events and enclosing spans.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef enum Place:
    # A container's role in the trace, stored in its Value's `num`. 0: ignored.
    AT_NOWHERE = 0
    AT_TOP = 1          # the dict that makes up the whole file
    AT_EVENTS = 2       # the dict's traceEvents, or the list that makes up the whole file
    AT_EVENT = 3
    AT_ARGS = 4         # an event's args

cdef enum Word:
    # Strings of interest, as keys or as bits for an event. `words` has their string ids.
    W_TRACE_EVENTS = 0
    W_BASE = 1
    W_PH = 2
    W_CAT = 3
    W_NAME = 4
    W_TS = 5
    W_DUR = 6
    W_PID = 7
    W_TID = 8
    W_ARGS = 9
    W_ADDR = 10
    W_BYTES = 11
    W_ALLOC_SIZE = 12
    W_ALLOCATED = 13
    W_RESERVED = 14
    W_DEVICE_TYPE = 15
    W_DEVICE = 16
    # values
    W_MEMORY = 17
    W_OOM = 18
    W_CPU_OP = 19
    W_OPERATOR = 20     # old traces' name for cpu_op
    W_PYTHON = 21
    W_ANNOTATION = 22
    WORDS = 23


cdef struct MemoryRow:
    double time         # in microseconds, as in the trace
    uint64_t pid, tid
    uint64_t address
    int64_t size        # negative for a free; the requested size for a failed request
    int64_t allocated, reserved
    int32_t device_type, device
    uint32_t flags      # MemoryFlag
    uint32_t unused

cdef enum MemoryFlag:
    M_OOM = 1
    M_ALLOCATED = 2     # the event has the total number of bytes allocated afterwards
    M_RESERVED = 4
    M_BROKEN = 8        # a number is missing or out of range


cdef enum SpanKind:
    SPAN_OP = 0
    SPAN_PYTHON = 1
    SPAN_ANNOTATION = 2


cdef struct SpanRow:
    double begin, duration
    uint64_t pid, tid
    uint32_t name
    uint32_t kind


cdef struct Profile:
    Tables* tables      # used only for its status, limits and strings; has no rows
    Buf memory          # MemoryRow
    Buf spans           # SpanRow
    uint32_t[23] words
    int64_t base_ns     # time to which all times are relative
    bint has_events
    # the event that is being read
    MemoryRow row
    double duration
    uint32_t ph, cat, name
    uint32_t seen       # bits of Word


cdef uint64_t sortable(double x) noexcept nogil
cdef int64_t us_of(const Profile* p, double time) noexcept nogil
cdef int profile_init(Profile* p, Tables* tables) noexcept nogil
cdef void profile_free(Profile* p) noexcept nogil
cdef uint64_t place_of(const Profile* p, const Value* parent, uint32_t key,
                       bint a_list) noexcept nogil
cdef bint text_wanted(const Profile* p, const Value* parent, uint32_t key) noexcept nogil
cdef int profile_open(Profile* p, const Value* container) noexcept nogil
cdef int profile_set(Profile* p, const Value* parent, uint32_t key, const Value* v) noexcept nogil
