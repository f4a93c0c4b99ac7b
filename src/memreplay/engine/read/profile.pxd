# A torch.profiler (Kineto) trace while it is read: memory events, and the spans that enclose them.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef enum Place:
    # What a container of the trace is: `num` of its Value. 0 is of no interest.
    AT_NOWHERE = 0
    AT_TOP = 1          # the dict of the file
    AT_EVENTS = 2       # its traceEvents, or the list that the file is
    AT_EVENT = 3
    AT_ARGS = 4         # an event's args

cdef enum Word:
    # The texts that are looked for, as bits of an event or as keys; their ids are in `words`.
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
    W_OPERATOR = 20     # cpu_op in older traces
    W_PYTHON = 21
    W_ANNOTATION = 22
    WORDS = 23


cdef struct MemoryRow:
    double time         # microseconds, as the trace has it
    uint64_t pid, tid
    uint64_t address
    int64_t size        # negative: freed; of a failed request what it asked for
    int64_t allocated, reserved
    int32_t device_type, device
    uint32_t flags      # MemoryFlag
    uint32_t unused

cdef enum MemoryFlag:
    M_OOM = 1
    M_ALLOCATED = 2     # it says what was allocated after it
    M_RESERVED = 4
    M_BROKEN = 8        # a number is missing, or does not fit


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
    Tables* tables      # its status, its limits and its texts; no rows
    Buf memory          # MemoryRow
    Buf spans           # SpanRow
    uint32_t[23] words
    int64_t base_ns     # what all times count from
    bint has_events
    # the event that is being read
    MemoryRow row
    double duration
    uint32_t ph, cat, name
    uint32_t seen       # bits of Word


cdef int profile_init(Profile* p, Tables* tables) noexcept nogil
cdef void profile_free(Profile* p) noexcept nogil
cdef uint64_t place_of(const Profile* p, const Value* parent, uint32_t key,
                       bint a_list) noexcept nogil
cdef bint text_wanted(const Profile* p, const Value* parent, uint32_t key) noexcept nogil
cdef int profile_open(Profile* p, const Value* container) noexcept nogil
cdef int profile_set(Profile* p, const Value* parent, uint32_t key, const Value* v) noexcept nogil
