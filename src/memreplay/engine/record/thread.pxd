# What each thread of the program is at: modules that are running, and whether it is in an
# optimizer.
#
# Allocations come in any thread and at any time; what a thread notes of itself needs no lock.
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
        uint32_t modules[MEMREPLAY_DEEPEST]; /* the innermost last; deeper ones count alone */
        int32_t depth;
        int32_t recomputing;                 /* modules and checkpoints in a backward pass */
        int32_t optimizing;                  /* optimizer steps that run */
        uint32_t given;                      /* the category of all it allocates; 0: none */
        uint64_t region;                     /* which recomputation this is, among all */
        uint64_t step;                       /* which optimizer step, likewise */
        uint64_t pause, sequence;            /* which pause it has seen, and its next node then */
        uint64_t node, number;               /* the autograd node that was asked about last … */
        uint32_t node_module;                /* … and the module that made it */
        uint32_t recording;                  /* which recording all of this is of */
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
