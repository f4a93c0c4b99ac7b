# Per-thread state: running modules, and whether an optimizer is running.
#
# Any thread may allocate at any time, and thread-local state needs no lock.
from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define MEMREPLAY_THREAD __declspec(thread)
    #else
    #define MEMREPLAY_THREAD _Thread_local
    #endif
    enum { MEMREPLAY_DEEPEST = 256 };
    struct memreplay_thread {
        uint32_t modules[MEMREPLAY_DEEPEST]; /* innermost last; more are only counted */
        int32_t depth;
        int32_t recomputing;                 /* modules and checkpoints in a backward pass */
        int32_t optimizing;                  /* running optimizer steps */
        uint32_t given;                      /* category for its allocations; 0: detect */
        uint64_t region;                     /* number of the current recomputation */
        uint64_t step;                       /* number of the current optimizer step */
        uint64_t pause, sequence;            /* last pause seen, and the next node then */
        uint64_t node, number;               /* the last autograd node looked up … */
        uint32_t node_module;                /* … and the module that created it */
        uint32_t recording;                  /* the recording that this state belongs to */
    };
    static struct memreplay_thread *memreplay_this_thread(void) {
        static MEMREPLAY_THREAD struct memreplay_thread here;
        return &here;
    }
    """
    enum: DEEPEST "MEMREPLAY_DEEPEST"
    ctypedef struct Thread "struct memreplay_thread":
        uint32_t modules[256]
        int32_t depth
        int32_t recomputing
        int32_t optimizing
        uint32_t given
        uint64_t region
        uint64_t step
        uint64_t pause
        uint64_t sequence
        uint64_t node
        uint64_t number
        uint32_t node_module
        uint32_t recording
    Thread* this_thread "memreplay_this_thread" () noexcept nogil
