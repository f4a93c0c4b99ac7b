# Fold stacks into a call tree with totals at every level, starting from either end.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    # Used instead of a frame in lines for allocations without a stack.
    const uint32_t CALL_NO_STACK "0xFFFFFFFFu"
    const uint32_t CALL_CARRIED "0xFFFFFFFEu"


cdef struct Call:
    int64_t bytes        # sum over all stacks that contain this call
    uint64_t count
    int64_t own_bytes    # sum over the stacks that end at this call
    uint64_t own_count
    uint32_t parent      # index of a Call; the root is its own parent
    uint32_t frame
    uint32_t children    # the first child's index in `order`, and number of children
    uint32_t n_children


cdef struct Line:
    # A chain of calls, all but the last of which have a single callee.
    int64_t bytes
    uint64_t count
    int64_t own_bytes
    uint64_t own_count
    uint64_t frames      # the first frame's index in CallTree.frames, and number of frames
    uint32_t n_frames
    uint32_t level       # 1 for the outermost calls, or if inverted, the innermost
    uint32_t n_children  # including children without a line


cdef struct CallTree:
    const Replay* replay
    # per string; only frames of rank CODE or lower are used; NULL: all frames
    const uint8_t* file_rank
    const uint8_t* function_rank
    Buf calls          # Call; the root is 0
    Map64 known        # parent << 32 | frame -> index of the Call
    Buf order          # Call*, sorted by parent, then largest first
    Buf open           # u64: level << 32 | index of a Call whose line isn't written yet
    Buf lines          # Line, depth first
    Buf frames         # u32 per frame, line by line


cdef int calltree_init(CallTree* t, const Replay* r, uint64_t seed) noexcept nogil
cdef void calltree_free(CallTree* t) noexcept nogil
cdef int calltree_fold(CallTree* t, const Buf* sums, bint whole, bint inverted) noexcept nogil
cdef int calltree_lines(CallTree* t, uint64_t depth, int64_t least) noexcept nogil
