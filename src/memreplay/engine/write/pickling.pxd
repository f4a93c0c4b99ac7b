# A slice on its way out as a pickle.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.write.excerpt cimport Excerpt
from memreplay.engine.write.keeping cimport Keeping, Pair
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.read.tables cimport Tables

cdef extern from *:
    # Segment types of segments that no row of the file is: no ids of strings.
    const uint32_t KIND_SMALL "0xFFFFFFFEu"
    const uint32_t KIND_LARGE "0xFFFFFFFDu"


cdef struct Pickling:
    const Tables* tables
    const Spans* spans         # the frame ids of each stack, as it is written
    const uint32_t* stacks     # the file's stack id -> id in `spans`; NULL for the same
    Buf excerpts               # Excerpt*: one a device, by device
    Buf annotations            # u32: rows to be written
    Buf texts                  # u8: JSON of the other values, one after the other
    Buf keys                   # u64: their keys' ends and their own ends in `texts`, in turns
    Keeping* kept              # items that are copied out of another pickle, or NULL
    Buf copied                 # Pair: which of them
    uint64_t traces            # how many lists device_traces has
    Out out
    size_t frame               # where the open frame begins in `out`
    uint32_t memoised          # entries of the memo
    Buf strings, frames, lists, pools   # u32: memo index + 1 of what is out already
    uint32_t small, large
    int stage
    uint64_t at                # excerpt, trace or value of the stage
    uint64_t row
    uint64_t block             # of the excerpt, while segments are written
    const Excerpt* current     # of the trace that is written, or NULL
    int64_t time               # of its leading events
    uint64_t items             # of the open list
    uint64_t oom               # the next row of oom_event


cdef int pickling_init(Pickling* p, const Tables* t, const Spans* spans,
                       const uint32_t* stacks) noexcept nogil
cdef void pickling_free(Pickling* p) noexcept nogil
cdef int pickling_step(Pickling* p, size_t chunk) noexcept nogil
