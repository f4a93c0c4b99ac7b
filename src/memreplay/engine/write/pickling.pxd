# Write a slice as a pickle.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.write.excerpt cimport Excerpt
from memreplay.engine.write.keeping cimport Keeping, Pair
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.read.tables cimport Tables

cdef extern from *:
    # Types for segments that aren't rows in the file. These numbers aren't string ids.
    const uint32_t KIND_SMALL "0xFFFFFFFEu"
    const uint32_t KIND_LARGE "0xFFFFFFFDu"


cdef struct Pickling:
    const Tables* tables
    const Spans* spans         # the frame ids of each stack to write
    const uint32_t* stacks     # stack id in the file -> id in `spans`; NULL if equal
    Buf excerpts               # Excerpt*: one per device, by device
    Buf annotations            # u32: rows to write
    Buf texts                  # u8: other keys and their values as JSON, concatenated
    Buf keys                   # u64: the ends of each key and its value in `texts`, alternating
    Keeping* kept              # items to copy from another pickle, or NULL
    Buf copied                 # Pair: the items to copy
    uint64_t traces            # number of traces in device_traces
    Out out
    size_t frame               # where the open frame in `out` starts
    uint32_t memoised          # memo entries
    Buf strings, frames, lists, pools   # u32: 1 + memo index of each item that was written
    uint32_t small, large
    int stage
    uint64_t at                # number of the excerpt, trace or value in this stage
    uint64_t row
    uint64_t block             # row in the excerpt's blocks, while segments are written
    const Excerpt* current     # the current trace's excerpt, or NULL
    int64_t time               # time of the excerpt's leading events
    uint64_t items             # number of items in the open list
    uint64_t oom               # the next row of oom_event


cdef int pickling_init(Pickling* p, const Tables* t, const Spans* spans,
                       const uint32_t* stacks) noexcept nogil
cdef void pickling_free(Pickling* p) noexcept nogil
cdef int pickling_step(Pickling* p, size_t chunk) noexcept nogil
