# What was live before the recording, and has no stack: what it likely is.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.replay cimport Replay

cdef enum Mark:            # bits of a frame
    IN_BACKWARD = 1        # the backward pass runs
    OF_BACKWARD = 2        # it does where this frame is the outermost: a thread of autograd
    AT_ZERO_GRAD = 4       # gradients are given back here
    AT_EXIT = 8            # autocast gives its cached casts back here
    IN_OPTIMIZER = 16      # an optimizer steps
    ONE_STATE = 32         # and keeps at least one tensor of each parameter's size
    TWO_STATES = 64        # two

cdef enum Likely:          # numbers of origins.pxd's Origin
    NOT_SAID = 0           # it has a stack
    A_RIDDLE = 1           # nothing is known
    A_PARAMETER = 5
    A_STATE = 6
    A_GRADIENT = 7
    A_SAVED = 8            # the backward pass needed it
    A_RENEWED = 9          # an optimizer's step lets go of it: until it is known what it is


cdef struct Tally:
    # What has one size.
    int64_t bytes
    uint32_t carried       # that were there before, without a stack, and stay
    uint32_t replaced      # and go after a backward pass
    uint32_t renewed       # in an optimizer's step
    uint32_t live          # made by the backward pass, and live
    uint32_t gradients     # the most of them that outlived a backward pass
    uint32_t cached        # autocast's casts of parameters of this size that are live
    uint32_t cast          # the most of them
    uint32_t parameters    # left to be given out, of those that stay
    uint32_t states        # of those that stay, or where states are replaced, of those that go
    bint touched


cdef struct Before:
    const Replay* replay
    const uint8_t* mark    # Mark bits a frame
    bint only_python       # whether all stacks are Python's
    Buf of_carried         # u32 a carried block: a Likely
    Buf of_stack           # u8 a stack: its marks, or UNASKED
    Buf tallies            # Tally
    Buf touched            # u32: tallies that have changed since the last backward pass
    Map64 of_size          # bytes -> tally + 1
    uint32_t seen          # marks of all stacks that were met
    bint renewed           # an optimizer's step makes its states anew
    bint frees_tell        # whether a free has a stack of its own
    bint open_ended        # the one backward pass has no end
    bint ran_out           # of memory


cdef bint any_stackless(const Replay* r) noexcept nogil
cdef bint have_stacks_of_their_own(const Replay* r) noexcept nogil
cdef int before_init(Before* b, const Replay* r, uint64_t seed) noexcept nogil
cdef void before_free(Before* b) noexcept nogil
cdef int before_find(Before* b) noexcept nogil
