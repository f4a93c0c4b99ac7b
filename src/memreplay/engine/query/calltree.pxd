# Stacks folded into a tree of calls, from either end, with totals at every level.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    # Frames of lines that stand for no code.
    const uint32_t CALL_NO_STACK "0xFFFFFFFFu"
    const uint32_t CALL_CARRIED "0xFFFFFFFEu"


cdef struct Call:
    int64_t bytes        # of all stacks that go through it
    uint64_t count
    int64_t own_bytes    # of those that end here
    uint64_t own_count
    uint32_t parent      # a number of a Call; that of the root is its own
    uint32_t frame
    uint32_t children    # where they begin in `order`, and how many they are
    uint32_t n_children


cdef struct Line:
    # A call, with those that it leads to as long as that is one alone.
    int64_t bytes
    uint64_t count
    int64_t own_bytes
    uint64_t own_count
    uint64_t frames      # where they begin, and how many they are
    uint32_t n_frames
    uint32_t level       # 1 for those that stacks begin with: the outermost, or the innermost
    uint32_t n_children  # with those that have no line


cdef struct CallTree:
    const Replay* replay
    const uint8_t* file_rank      # of a string; frames up to CODE count, all when NULL
    const uint8_t* function_rank
    Buf calls          # of Call; the root is 0
    Map64 known        # parent << 32 | frame -> a number of a Call
    Buf order          # Call*: sorted by parent, then the largest first
    Buf open           # u64: level << 32 | a number of a Call whose line is still to be made
    Buf lines          # of Line, depth first
    Buf frames         # u32 a frame of a line, in the order in which stacks are gone through


cdef int calltree_init(CallTree* t, const Replay* r, uint64_t seed) noexcept nogil
cdef void calltree_free(CallTree* t) noexcept nogil
cdef int calltree_fold(CallTree* t, const Buf* sums, bint whole, bint inverted) noexcept nogil
cdef int calltree_lines(CallTree* t, uint64_t depth, int64_t least) noexcept nogil
