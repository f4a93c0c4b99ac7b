# What each allocation of a running program is: noted when it is made, made out when it ends.
#
# docs/categories.md says the rules. All functions may be called by any thread, without the GIL.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64

cdef enum Phase:
    PHASE_START = 0          # before the first forward pass
    PHASE_DATA = 1           # from an optimizer's step to the next forward pass
    PHASE_FORWARD = 2        # from a module or a node of autograd to the backward pass
    PHASE_BACKWARD = 3
    PHASE_RECOMPUTATION = 4  # modules that run inside a backward pass
    PHASE_OPTIMIZER = 5
    PHASE_OTHER = 6          # from a backward pass to the optimizer's step
    PHASE_BEFORE = 7         # before the recording
    PHASES = 8

# Of what is told by several, the first counts.
cdef enum Category:
    CATEGORY_NONE = 0
    CATEGORY_UNSHARDED = 1
    CATEGORY_PARAMETER = 2
    CATEGORY_BUFFER = 3
    CATEGORY_UNSHARDED_GRADIENT = 4
    CATEGORY_GRADIENT = 5
    CATEGORY_STATE = 6
    CATEGORY_INPUT = 7
    CATEGORY_COMMUNICATION = 8
    # These follow from where an allocation was made and when it ended.
    CATEGORY_ACTIVATION = 9
    CATEGORY_TEMPORARY = 10
    CATEGORY_DETAIL = 11
    CATEGORY_OTHER = 12
    CATEGORIES = 13

cdef struct Entry:
    # One allocation.
    uint64_t address
    int64_t born_us       # by the system's clock; 0: before the recording
    uint64_t died_at      # how many allocations and frees there had been; 0: it is live
    uint32_t module       # in which it was made; from its end on that which somebody told
    uint32_t what         # live: its Origin, + 1; else its phase and category (what_of)

cdef struct Origin:
    # What is known of an allocation while it is live.
    uint64_t region       # what it was made in: a recomputation, a step of an optimizer, a pause
    uint64_t node         # the autograd node that ran; 0: none
    uint64_t number       # … and its number: another may come to lie where it was
    uint64_t graphs       # backward passes that had begun
    uint32_t steps        # steps that had ended
    uint32_t phase
    uint32_t mark         # the category that somebody told
    uint32_t owner        # the module that somebody told; of those that are free: the next one, + 1

cdef struct Made:
    # Autograd nodes made from this number on were made in this module.
    uint64_t sequence
    uint32_t module

cdef struct Torch:
    # Functions of a PyTorch that is loaded; NULL where it has none.
    int (*task)() noexcept nogil                # the backward pass that this thread is in; -1: none
    uint64_t (*sequence)() noexcept nogil       # the number of this thread's next autograd node
    void* node                                  # the node that runs; owned by who asks
    bint shared                                 # … as std::shared_ptr, else c10::intrusive_ptr
    size_t sequence_at                          # where a node has its number

cdef struct Tracker:
    bint on
    uint64_t keep            # how many allocations and frees back what has ended is kept
    uint64_t count           # allocations and frees so far
    uint64_t graphs
    uint32_t steps
    uint64_t regions         # recomputations, steps and pauses so far, each with a number
    uint64_t pause           # the one that is now
    uint64_t dropped         # allocations for which there was no memory
    int last_task
    uint32_t outside         # the phase of what is in no module, backward pass or optimizer
    Buf entries              # Entry, in order
    uint64_t most            # entries at which what has ended is not forgotten yet
    Buf origins              # Origin, in no order
    uint32_t free            # the first that is not in use, + 1
    Buf made                 # Made, in order
    Map64 live               # address -> entry + 1; 0: none
    Torch torch

cdef struct Sums:
    uint64_t count    # allocations and frees so far
    uint64_t dropped  # allocations for which there was no memory
    uint64_t noted    # allocations that are noted

cdef int tracker_begin(uint64_t seed, uint64_t keep) except -1
cdef void tracker_end() noexcept nogil
cdef void tracker_forked() noexcept
cdef void tracker_torch(const Torch* torch) noexcept nogil
cdef void tracker_alloc(uint64_t address) noexcept nogil
cdef void tracker_free(uint64_t address) noexcept nogil
cdef void tracker_mark(uint64_t address, uint32_t category, uint32_t module) noexcept nogil
cdef void tracker_enter(uint32_t module) noexcept nogil
cdef void tracker_leave(uint32_t module) noexcept nogil
cdef void tracker_recompute(bint begins) noexcept nogil
cdef void tracker_optimize(bint begins) noexcept nogil
cdef uint32_t tracker_give(uint32_t category) noexcept nogil
cdef int tracker_optimizing() noexcept nogil
cdef int tracker_evaluate(int steps) noexcept nogil
cdef bint tracker_in_backward() noexcept nogil
cdef int tracker_depth() noexcept nogil
cdef uint32_t tracker_module() noexcept nogil
cdef void tracker_step() noexcept nogil
cdef void tracker_resume() noexcept nogil
cdef int64_t tracker_now_us() noexcept nogil
cdef Sums tracker_sums() noexcept nogil
cdef void tracker_lock() noexcept nogil
cdef void tracker_unlock() noexcept nogil
cdef bint tracker_mark_live(uint64_t address, uint32_t category, uint32_t module) noexcept nogil
cdef uint32_t tracker_what(const Origin* o, bint ended) noexcept nogil
cdef Tracker* tracker() noexcept nogil
