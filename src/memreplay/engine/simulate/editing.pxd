# Change a program before simulating it: drop, resize or recompute some allocations.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport A_ALLOC
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.lives cimport NEVER, Lives
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    const int64_t LARGEST_SIZE "(INT64_C(1) << 60)"


cdef struct Move:
    # The event after which a lifetime ends, or before which it begins again.
    uint32_t at
    uint32_t owner


cdef struct Edit:
    const Lives* lives   # allocations to change; NULL: none
    double factor        # multiplies the sizes of these allocations; 0 drops them
    bint twice           # each is freed once the next one is made, and made again when needed
    Buf gone             # Move, by event
    Buf back             # Move, by event


cdef int edit_init(Edit* e, const Lives* lives, double factor, bint twice, const Replay* r,
                   const Held* held) noexcept nogil
cdef void edit_free(Edit* e) noexcept nogil


cdef inline bint changes_all(const Edit* e) noexcept nogil:
    # Whether all allocations change, including failed requests. If only some allocations change, it
    # isn't known whether a failed request would be one of these.
    return e.lives != NULL and e.lives.keep.len == 0


cdef inline bint changes(const Edit* e, uint64_t event) noexcept nogil:
    # Whether this alloc event is one of the allocations to change.
    return e.lives != NULL and (e.lives.keep.len == 0
                                or (<const unsigned char*> e.lives.keep.data)[event])


cdef inline bint changes_carried(const Edit* e, uint64_t block) noexcept nogil:
    return e.lives != NULL and (<const uint32_t*> e.lives.carried_end.data)[block] != NEVER


cdef inline int64_t changed_size(const Edit* e, int64_t size) noexcept nogil:
    # Return the new size: 0 to drop the allocation, else at least 1.
    cdef double wanted = <double> size * e.factor + 0.5
    if e.factor == 0:
        return 0
    if wanted >= <double> LARGEST_SIZE:
        return LARGEST_SIZE
    return <int64_t> wanted if wanted >= 1 else 1
