# Guess what carried-over blocks without a stack contain.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.replay cimport Replay

cdef enum Mark:            # bits per frame
    IN_BACKWARD = 1        # the backward pass is running
    OF_BACKWARD = 2        # outermost frame of an autograd thread, which runs the backward pass
    AT_ZERO_GRAD = 4       # gradients are freed here
    AT_EXIT = 8            # autocast frees its cached casts here
    IN_OPTIMIZER = 16      # an optimizer's step is running
    # an optimizer that keeps one or more tensors of the parameter's size per parameter
    ONE_STATE = 32
    TWO_STATES = 64        # two

cdef enum Likely:          # also values of Origin in origins.pxd
    HAS_STACK = 0           # the block has a stack
    UNKNOWN_ORIGIN = 1           # unknown
    A_PARAMETER = 5
    A_STATE = 6
    A_GRADIENT = 7
    A_SAVED = 8            # saved for the backward pass
    A_RENEWED = 9          # freed in an optimizer's step; a placeholder until its kind is known


cdef struct Tally:
    # Blocks of one size.
    int64_t bytes
    uint32_t carried       # blocks without a stack, carried over and never freed
    uint32_t replaced      # carried-over blocks without a stack, freed after a backward pass
    uint32_t renewed       # the part of `replaced` that an optimizer's step frees
    uint32_t live          # blocks allocated by the backward pass that are live
    uint32_t gradients     # highest value of `live` at the end of a backward pass
    uint32_t cached        # live casts that autocast made of parameters of this size
    uint32_t cast          # most of them
    uint32_t parameters    # never freed, and still to be labelled as parameters
    # still to be labelled as state: never freed, or `renewed` if state is recreated
    uint32_t states
    bint touched


cdef struct Before:
    const Replay* replay
    const uint8_t* mark    # Mark bits per frame
    bint only_python       # whether no stack has C++ frames
    Buf of_carried         # u32 per carried-over block: a Likely value
    Buf of_stack           # u8 per stack: Mark bits, or NOT_COMPUTED
    Buf tallies            # Tally
    Buf touched            # u32: indices of the tallies that changed since the last backward pass
    Map64 of_size          # bytes -> tally + 1
    uint32_t seen          # marks of all stacks seen so far
    bint renewed           # an optimizer's step recreates its states
    bint frees_have_stacks        # whether frees have their own stacks
    bint open_ended        # the only backward pass is still running at the end
    bint ran_out           # the program ran out of memory


cdef bint any_stackless(const Replay* r) noexcept nogil
cdef bint frees_have_own_stacks(const Replay* r) noexcept nogil
cdef int before_init(Before* b, const Replay* r, uint64_t seed) noexcept nogil
cdef void before_free(Before* b) noexcept nogil
cdef int before_find(Before* b) noexcept nogil
