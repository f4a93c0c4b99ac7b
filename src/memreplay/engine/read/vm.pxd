# State of the pickle VM: window, value stack, marks, memo and limits, and the call stacks seen so
# far.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef struct RawStack:
    # A frames list, identified by its bytes in the file. Also stores which lists came next the last
    # two times.
    uint32_t stack
    uint32_t next
    uint32_t after_next
    uint32_t puts          # number of memo entries that its inline frames stored
    uint64_t memo_at       # index of the first of these memo entries


cdef struct Written:
    # An inline frame: the frame_of row that its memo entries refer to (or NONE32), its bytes if
    # comparable (size > 0), and the frame that followed last time.
    uint32_t row
    uint32_t next
    uint32_t at
    uint16_t size
    uint16_t puts          # number of memo entries that it stores: 0 or 1


cdef struct VM:
    Cursor cur
    Tables* tables
    Limits limits
    Buf stack          # Value
    Buf marks          # u32, stack height at each MARK
    Buf memo           # u32: kind (5 bits) and index (27 bits)
    Buf memo_num       # u64, values of memoised scalars
    uint64_t memo_used  # number of memo entries that are set
    uint64_t need      # minimum size of the opcode at the cursor
    int protocol       # -1 until the file states it
    bint binary        # an opcode beyond protocol 0 was read
    Spans raw          # bytes of frames lists, between MARK and APPENDS
    Buf raw_info       # RawStack, one row per span of raw
    uint32_t raw_last
    Buf written        # Written, indexed by frame id
    Buf written_bytes  # u8, their bytes
    uint64_t forgotten  # number of bytes at the start of written_bytes that are no longer valid
    uint32_t written_last, written_missed
    bint numbered      # an inline frame used an explicit memo index
    bint started
    uint64_t fast_events
    uint64_t frame_end     # stream offset at which the last FRAME ends
    # Values of the last event that fast_event read, because strings without a memo entry usually
    # repeat.
    uint32_t last_context, last_metadata, last_unknown, last_pool


cdef int vm_init(VM* vm, Tables* tables, const Limits* limits, uint64_t seed) noexcept nogil
cdef void vm_free(VM* vm) noexcept nogil
cdef int push_special(VM* vm, Value* v) noexcept nogil
cdef int vm_step(VM* vm) noexcept nogil
cdef int vm_step_any(void* reader) noexcept nogil
