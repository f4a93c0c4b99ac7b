"""Detect synthetic events, in which CUDA graph trees free and reallocate a private pool's blocks.

PyTorch restores a pool's checkpoint this way. In the trace, these events look like a spike or dip
that the program didn't cause. Also, the allocs have block sizes instead of requested sizes. The
events are recognized by their caller: the allocator's `setCheckpointPoolState`, or
`apply_checkpoint_execution_state_in_allocator` in torch/_inductor/cudagraph_trees.py.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport span_at, spans_len
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.read.tables cimport A_FREE_COMPLETED, FrameKey

cdef extern from * nogil:
    """
    #include <string.h>
    /* Whether the n bytes at `text` contain `word`; memmem() isn't portable. */
    static int memreplay_holds(const unsigned char *text, size_t n, const char *word) {
        size_t m = strlen(word), i;
        for (i = 0; i + m <= n; i++)
            if (text[i] == (unsigned char)word[0] && memcmp(text + i, word, m) == 0) return 1;
        return 0;
    }
    """
    bint holds "memreplay_holds" (const uint8_t* text, size_t n, const char* word)


cdef inline bint is_synthetic(const uint8_t* name, size_t n) noexcept nogil:
    return (holds(name, n, "setCheckpointPoolState")
            or holds(name, n, "apply_checkpoint_execution_state_in_allocator"))


cdef int mark_synthetic(const Replay* r, Buf* stacks) noexcept nogil:
    # For each stack, store in `stacks` (u8) whether it contains a caller that restores a
    # checkpoint; leave `stacks` empty if none does.
    cdef const FrameKey* frames = <const FrameKey*> r.tables.frames.data.data
    cdef uint32_t n_frames = spans_len(&r.tables.frames)
    cdef uint32_t n_stacks = spans_len(&r.tables.stacks)
    cdef uint32_t n_strings = spans_len(&r.tables.strings)
    cdef uint8_t* names = <uint8_t*> calloc(<size_t> n_strings + 1, 1)   # 0: not checked yet
    cdef const uint32_t* ids
    cdef const uint8_t* text
    cdef size_t n
    cdef uint64_t i, j
    cdef bint any_ = False
    if names == NULL:
        return ERR_MEMORY
    for i in range(n_frames):
        if names[frames[i].name] == 0:
            text = span_at(&r.tables.strings, frames[i].name, &n)
            names[frames[i].name] = 2 if is_synthetic(text, n) else 1
        any_ |= names[frames[i].name] == 2
    if any_:
        if buf_reserve(stacks, n_stacks) < 0:
            free(names)
            return ERR_MEMORY
        stacks.len = n_stacks
        memset(stacks.data, 0, n_stacks)
        for i in range(n_stacks):
            ids = <const uint32_t*> span_at(&r.tables.stacks, <uint32_t> i, &n)
            for j in range(n // 4):
                if names[frames[ids[j]].name] == 2:
                    (<uint8_t*> stacks.data)[i] = True
                    break
    free(names)
    return OK


cdef uint64_t count_synthetic(const Replay* r, const Buf* stacks) noexcept nogil:
    # Count the allocs and frees whose stack contains such a caller.
    cdef const uint8_t* action = <const uint8_t*> r.tables.action.data + r.first
    cdef const uint32_t* stack = <const uint32_t*> r.tables.stack.data + r.first
    cdef uint64_t found = 0
    cdef uint64_t i
    if stacks.len == 0:
        return 0
    for i in range(r.events):
        if action[i] <= A_FREE_COMPLETED:
            found += (<const uint8_t*> stacks.data)[stack[i]]
    return found
