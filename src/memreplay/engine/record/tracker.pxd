# Classify a running program's allocations. The context is stored at the alloc and evaluated at the
# free.
#
# docs/categories.md has the rules. Any thread may call any of these functions, without the GIL.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64

cdef enum Phase:
    PHASE_START = 0          # before the first forward pass
    PHASE_DATA = 1           # from an optimizer's step to the next forward pass
    PHASE_FORWARD = 2        # from a module or an autograd node to the backward pass
    PHASE_BACKWARD = 3
    PHASE_RECOMPUTATION = 4  # while modules run inside a backward pass
    PHASE_OPTIMIZER = 5
    PHASE_OTHER = 6          # from a backward pass to the optimizer's step
    PHASE_BEFORE = 7         # before the recording
    PHASES = 8

# If several categories apply, the first one wins.
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
    # The following are derived from where an allocation was made and when it was freed.
    CATEGORY_ACTIVATION = 9
    CATEGORY_TEMPORARY = 10
    CATEGORY_DETAIL = 11
    CATEGORY_OTHER = 12
    CATEGORIES = 13

cdef struct Entry:
    # One allocation.
    uint64_t address
    int64_t born_us       # time by the system clock; 0: before the recording
    uint64_t died_at      # number of allocations and frees before its free; 0: live
    # the module that allocated it; once freed, the module it was marked with, if any
    uint32_t module
    # if live, 1 + the index of its Origin; else its phase and category (see tracker_what)
    uint32_t what

cdef struct Origin:
    # The context of a live allocation.
    uint64_t region       # number of the recomputation, optimizer step or pause at its alloc
    uint64_t node         # the running autograd node; 0: none
    uint64_t number       # the node's sequence number, because addresses are reused
    uint64_t graphs       # number of backward passes that began before it
    uint32_t steps        # number of steps that ended before it
    uint32_t phase
    uint32_t mark         # category with which it was marked
    # module with which it was marked; in an unused entry, 1 + the next unused entry
    uint32_t owner

cdef struct Made:
    # Autograd nodes with this number or higher, up to the next Made, belong to this module.
    uint64_t sequence
    uint32_t module

cdef struct Torch:
    # Functions of the loaded PyTorch; NULL if missing.
    int (*task)() noexcept nogil                # returns this thread's backward pass; -1: none
    # returns the number of this thread's next autograd node
    uint64_t (*sequence)() noexcept nogil
    # returns the running node, with a reference that the caller owns
    void* node
    # whether `node` returns a std::shared_ptr rather than a c10::intrusive_ptr
    bint shared
    size_t sequence_at                          # offset of the number in a node

cdef struct Tracker:
    bint on
    # an entry is dropped this many allocations and frees after its own free
    uint64_t keep
    uint64_t count           # allocations and frees so far
    uint64_t graphs
    uint32_t steps
    uint64_t regions         # recomputations, steps and pauses so far; also the latest one's number
    uint64_t pause           # the current pause
    uint64_t dropped         # allocations that weren't tracked for lack of memory
    int last_task
    uint32_t outside         # the phase outside modules, backward passes and optimizers
    Buf entries              # Entry, in order
    uint64_t most            # drop old entries once there are more than this many
    Buf origins              # Origin, unordered
    uint32_t free            # 1 + the first unused origin
    Buf made                 # Made, in order
    Map64 live               # address -> entry + 1; 0: none
    Torch torch

cdef struct Sums:
    uint64_t count    # allocations and frees so far
    uint64_t dropped  # allocations that weren't tracked for lack of memory
    uint64_t noted    # tracked allocations

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
