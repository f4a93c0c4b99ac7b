# State of the pickle VM: window, value stack, marks, memo and limits, and the call stacks seen so
# far.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.read.tables cimport Event, Tables
from memreplay.engine.read.value cimport Value

cdef enum:
    GUESS_BITS = 13
    ROUGH_GUESS_BITS = 10
    MAX_STEPS = 16


cdef enum StepKind:
    STEP_OTHER
    STEP_SAME      # no value follows
    STEP_BYTES     # LONG1 with a fixed number of bytes
    STEP_INT
    STEP_ACTION
    STEP_FRAMES


cdef struct Step:
    # A part of an event: the bytes with which it begins, which are compared under a mask, and how
    # to read the value that follows. The bytes are keys and values that are always the same.
    uint64_t[4] bytes, mask
    uint32_t key
    uint32_t entry         # the memo entry that the bytes store; 0: none
    uint16_t field         # offset in an Event
    uint8_t size           # number of bytes to compare
    uint8_t kind           # StepKind
    uint8_t long_size      # STEP_BYTES


cdef struct Layout:
    # How an event was written: its keys in order. Events that are written alike are read without
    # looking up their keys.
    Step[MAX_STEPS] steps
    uint32_t count         # number of steps; 0: unknown
    Event event            # the values that are the same in each event
    uint32_t noted         # number of steps of the layout that is being learned
    uint64_t keys          # bit set of its keys
    bint plain             # only columns that push_plain() writes vary
    uint64_t varying       # bit set of keys whose values vary
    uint64_t[64] values    # hash of a key's last value
    uint64_t read          # number of events that were read with this layout
    uint32_t useless       # number of layouts in a row that fitted no further event
    uint32_t pause         # number of events before another layout is tried


cdef struct RawStack:
    # A frames list, identified by its bytes in the file.
    uint32_t stack
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
    Buf split          # u8: a frames list without the FRAME that was in it
    uint32_t raw_last, raw_before      # the last two lists
    # The list that followed, by a hash of where; 0: unknown. Only guesses: they may be stale.
    uint32_t[1 << GUESS_BITS] guesses
    uint32_t[1 << ROUGH_GUESS_BITS] rough_guesses
    Event event            # the event that the hot path reads
    Layout layout
    Buf written        # Written, indexed by frame id
    Buf written_bytes  # u8, their bytes
    uint64_t forgotten  # number of bytes at the start of written_bytes that are no longer valid
    uint32_t written_last, written_missed
    bint numbered      # an inline frame used an explicit memo index
    bint started
    uint64_t fast_events   # events that the hot path read; alike.pxd read alike_events of these
    uint64_t alike_events
    uint64_t frame_end     # stream offset at which the last FRAME ends
    # Values of the last event that fast_event read, because strings without a memo entry usually
    # repeat.
    uint32_t last_context, last_metadata, last_unknown, last_pool


cdef int vm_init(VM* vm, Tables* tables, const Limits* limits, uint64_t seed) noexcept nogil
cdef void vm_free(VM* vm) noexcept nogil
cdef int push_special(VM* vm, Value* v) noexcept nogil
cdef int vm_step(VM* vm) noexcept nogil
cdef int vm_step_any(void* reader) noexcept nogil
