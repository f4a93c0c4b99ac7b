# Compute each group's bytes at many events at once, for the layers of a stacked chart.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.classes cimport Classes, Only
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.query.keying cimport Keys
from memreplay.engine.replay.lives cimport Lives


cdef struct Layers:
    # `out` has one row per wanted group, in order, and one row for all other groups. Each row has
    # one number per sample.
    int64_t* out
    uint64_t rows
    uint64_t samples
    uint32_t* upto     # for each event and for the end: the number of samples before it


cdef struct Best:
    # The most bytes that a group ever holds, and the first event after which it holds them (-1: the
    # start).
    int64_t bytes
    int64_t at
    uint64_t name
    uint32_t group


cdef int layers_init(Layers* y, const int64_t* samples, uint64_t n_samples, uint64_t rows,
                     uint64_t events, int64_t* out) noexcept nogil
cdef void layers_free(Layers* y) noexcept nogil
cdef int layers_of_keys(Layers* y, Keys* k, const Lives* l, const uint32_t* wanted) noexcept nogil
cdef int layers_of_reserved(Layers* y, const Classes* c, const Arena* a, const Only* only,
                            size_t n_only, const uint32_t* keys) noexcept nogil
cdef int bests_of_keys(Keys* k, const Lives* l, Buf* out) noexcept nogil
