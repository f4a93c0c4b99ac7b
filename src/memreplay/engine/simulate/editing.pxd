# Change a program before simulating it: drop, resize, move, recompute or add allocations.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport A_ALLOC
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.lives cimport NEVER, Lives
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    const int64_t LARGEST_SIZE "(INT64_C(1) << 60)"


cdef struct Move:
    # A call that the changed program makes before an event: it frees an owner's memory or makes it.
    # Calls before the same event are in order.
    uint32_t at          # the number of events: after the last one
    uint32_t owner       # an alloc event, or the number of events + the place of an addition
    bint makes


cdef struct Addition:
    # An allocation that the recording doesn't have.
    int64_t size
    uint32_t like        # the alloc event whose stream, pool and stack it has


cdef struct Columns:
    # A change given as columns.
    const int64_t* sizes     # per event: a request's new size, 0: dropped, negative: as recorded
    const Move* moves
    uint64_t moves_count
    const Addition* added
    uint64_t added_count


cdef struct Edit:
    const Lives* lives   # allocations to change; NULL: none
    double factor        # multiplies the sizes of these allocations; 0 drops them
    bint twice           # each is freed once the next one is made, and made again when needed
    const int64_t* sizes     # as in Columns; NULL: as recorded
    Buf moves            # Move, by event
    Buf added            # Addition


cdef int edit_init(Edit* e, const Lives* lives, double factor, bint twice, const Replay* r,
                   const Held* held) noexcept nogil
cdef int edit_columns(Edit* e, const Columns* columns) noexcept nogil
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


cdef inline uint32_t like(const Edit* e, uint32_t owner, uint64_t events) noexcept nogil:
    # Return the recorded alloc event that an owner resembles: itself, unless it's an addition.
    if owner < events:
        return owner
    return (<const Addition*> e.added.data)[owner - events].like
