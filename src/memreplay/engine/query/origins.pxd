# Where an allocation comes from, as far as more than its own stack says it.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.replay cimport Replay

cdef enum FrameMark:     # bits of a frame
    IS_CAST = 1          # autocast casts an argument here
    IS_EXIT = 2          # autocast gives its cached casts back here
    IS_LOWER = 4         # an operator whose arguments are cast to a lower precision

cdef enum Origin:
    NOWHERE = 0          # nothing more is known
    BEFORE = 1           # it was there before the first event, and has no stack
    NO_PYTHON = 2        # no stack, where all that has one has Python's
    CAST_WEIGHT = 3      # autocast's cast of a weight
    CAST_EITHER = 4      # autocast's cast of a weight or of an activation
    # From 5 on those of before.pxd's Likely.

cdef enum Role:          # what the source of a cast may be
    NO_SOURCE = 0        # neither: gradients, optimizer state
    A_WEIGHT = 1
    AN_ACTIVATION = 2
    UNSURE = 3           # either


cdef struct Origins:
    const Replay* replay
    const uint8_t* mark      # FrameMark bits a frame
    Keys* category           # of allocations, by rules
    const uint8_t* role      # a Role for each rule, and one for NO_RULE
    bint only_python         # whether all stacks are Python's
    bint before              # whether what was there before is told
    Buf of_event             # u32 an event: an Origin
    Buf of_carried           # u32 a carried block
    Buf of_stack             # u32 a stack: its frame that casts, NONE32, or UNASKED
    Buf exits                # u8 a stack: whether it has an IS_EXIT, or 2: unasked
    Buf weights, activations  # u32 a frame: how many casts there are surely of which
    Map64 live


cdef int origins_init(Origins* o, const Replay* r, uint64_t seed) noexcept nogil
cdef void origins_free(Origins* o) noexcept nogil
cdef int origins_find(Origins* o) noexcept nogil
