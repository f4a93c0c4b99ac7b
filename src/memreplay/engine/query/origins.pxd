# Find where allocations come from if their own stacks don't show it.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.replay cimport Replay

cdef enum FrameMark:     # bits per frame
    IS_CAST = 1          # autocast casts an operator's argument here
    IS_EXIT = 2          # autocast frees its cached casts here
    IS_LOWER = 4         # an operator whose arguments autocast casts to a lower precision

cdef enum Origin:
    NOWHERE = 0          # unknown
    BEFORE = 1           # carried over, without a stack
    NO_PYTHON = 2        # no stack, in a recording without C++ frames
    CAST_WEIGHT = 3      # autocast's cast of a weight
    CAST_EITHER = 4      # autocast's cast of either a weight or an activation
    # From 5 on, the values are those of Likely in before.pxd.

cdef enum Role:          # roles of an allocation as the source of a cast
    NO_SOURCE = 0        # never cast: gradients, optimizer state
    A_WEIGHT = 1
    AN_ACTIVATION = 2
    UNSURE = 3           # either


cdef struct Origins:
    const Replay* replay
    const uint8_t* mark      # FrameMark bits per frame
    Keys* category           # categories of allocations, by rules
    const uint8_t* role      # a Role for each rule and for NO_RULE
    bint only_python         # whether no stack has C++ frames
    bint before              # whether to guess what carried-over blocks contain
    Buf of_event             # u32 per event: an Origin
    Buf of_carried           # u32 per carried-over block
    Buf of_stack             # u32 per stack: the frame that does the cast, NONE32, or NOT_COMPUTED
    Buf exits                # u8 per stack: whether it has an IS_EXIT frame; 2 if not checked yet
    Buf weights, activations  # u32 per frame: number of casts with a certain origin
    Map64 live


cdef int origins_init(Origins* o, const Replay* r, uint64_t seed) noexcept nogil
cdef void origins_free(Origins* o) noexcept nogil
cdef int origins_find(Origins* o) noexcept nogil
