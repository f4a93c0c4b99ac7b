# The pickle machine's state: window, value stack, marks, memo, limits; and the stacks seen before.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef struct RawStack:
    # A frames list as its bytes stood in the file, and which ones came after it last time.
    uint32_t stack
    uint32_t next
    uint32_t after_next
    uint32_t puts          # entries that it stores in the memo: of frames that are written out
    uint64_t memo_at       # where it stored them


cdef struct Written:
    # A frame that stood written out: the row of frame_of that its memo entries name (or NONE32),
    # its bytes where they may be compared (size is not 0), and the frame that came after it last.
    uint32_t row
    uint32_t next
    uint32_t at
    uint16_t size
    uint16_t puts          # entries that it stores: its own, or none


cdef struct VM:
    Cursor cur
    Tables* tables
    Limits limits
    Buf stack          # Value
    Buf marks          # u32: the stack's height at each MARK
    Buf memo           # u32: kind (5 bits) and index (27 bits)
    Buf memo_num       # u64: the numbers of memoised scalars
    uint64_t memo_used  # entries that are set
    uint64_t need      # bytes that the opcode at the cursor needs at least
    int protocol       # -1 until the file says it
    bint binary        # an opcode that protocol 0 does not have was read
    Spans raw          # the bytes of frames lists, between MARK and APPENDS
    Buf raw_info       # RawStack, a row a span of raw
    uint32_t raw_last
    Buf written        # Written, by frame id
    Buf written_bytes  # u8: how they were written
    uint64_t forgotten  # of these bytes: what they say holds no more
    uint32_t written_last, written_missed
    bint numbered      # a frame that was written out names its place in the memo
    bint started
    uint64_t fast_events
    uint64_t frame_end     # stream offset at which the last FRAME says that it ends
    # Of the last event that fast_event read: texts that nobody shares are mostly the same again.
    uint32_t last_context, last_metadata, last_unknown, last_pool


cdef int vm_init(VM* vm, Tables* tables, const Limits* limits, uint64_t seed) noexcept nogil
cdef void vm_free(VM* vm) noexcept nogil
cdef int push_special(VM* vm, Value* v) noexcept nogil
cdef int vm_step(VM* vm) noexcept nogil
cdef int vm_step_any(void* reader) noexcept nogil
