# A program that is changed before it is simulated: some of its allocations, left out, of another
# size, or made twice.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.read.tables cimport A_ALLOC
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.lives cimport NEVER, Lives
from memreplay.engine.replay.replay cimport Replay

cdef extern from *:
    const int64_t LARGEST_SIZE "(INT64_C(1) << 60)"


cdef struct Move:
    # The life of an allocation ends after this event, or begins again before it.
    uint32_t at
    uint32_t owner


cdef struct Edit:
    const Lives* lives   # those that are changed; NULL: none is
    double factor        # of their sizes; 0 leaves them out
    bint twice           # they go as soon as what follows them is there, and come back when needed
    Buf gone             # Move, by event
    Buf back             # Move, by event


cdef int edit_init(Edit* e, const Lives* lives, double factor, bint twice, const Replay* r,
                   const Held* held) noexcept nogil
cdef void edit_free(Edit* e) noexcept nogil


cdef inline bint changes_all(const Edit* e) noexcept nogil:
    # Whether all allocations are changed, and so requests that failed: of some nobody knows whether
    # these would be among them.
    return e.lives != NULL and e.lives.keep.len == 0


cdef inline bint changes(const Edit* e, uint64_t event) noexcept nogil:
    # An alloc.
    return e.lives != NULL and (e.lives.keep.len == 0
                                or (<const unsigned char*> e.lives.keep.data)[event])


cdef inline bint changes_carried(const Edit* e, uint64_t block) noexcept nogil:
    return e.lives != NULL and (<const uint32_t*> e.lives.carried_end.data)[block] != NEVER


cdef inline int64_t changed_size(const Edit* e, int64_t size) noexcept nogil:
    # What is asked for instead: 0 for nothing, else a byte or more.
    cdef double wanted = <double> size * e.factor + 0.5
    if e.factor == 0:
        return 0
    if wanted >= <double> LARGEST_SIZE:
        return LARGEST_SIZE
    return <int64_t> wanted if wanted >= 1 else 1
