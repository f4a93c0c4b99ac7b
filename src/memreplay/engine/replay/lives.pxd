# One measure of a replay: which allocations count, and their lifetimes and byte counts.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.slim cimport Slim
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.read.tables cimport A_ALLOC

cdef extern from *:
    const uint32_t NEVER "0xFFFFFFFEu"   # in carried_end: the block doesn't count
    const uint32_t UNLIKE "0xFFFFFFFFu"


cdef struct Weight:
    uint64_t event
    int64_t bytes


cdef struct Weights:
    # Each alloc's byte count, stored as the excess over its requested size.
    Buf more      # u32 per event; UNLIKE if the excess doesn't fit or is negative
    Buf unlike    # Weight, by event


cdef struct Lives:
    const Replay* replay
    const uint32_t* end     # per event: the event that ended an alloc, else NONE32
    const int64_t* size     # per event: requested bytes of an alloc
    const Weights* weights  # byte counts to use instead; NULL for requested bytes
    # u32 per carried-over block: the event that ended it, or NONE32 or NEVER
    Buf carried_end
    Buf carried_bytes       # i64 per carried-over block
    Buf keep                # u8 per event: whether an alloc counts; empty if all do


cdef inline bint counts(const Lives* l, const uint8_t* action, uint64_t i) noexcept nogil:
    # Whether event i is an alloc that counts.
    return action[i] == A_ALLOC and (l.keep.len == 0 or (<const uint8_t*> l.keep.data)[i])


cdef inline int64_t bytes_at(const Weights* w, const int64_t* size, uint64_t i) noexcept nogil:
    # Return the byte count for the alloc at event i.
    cdef uint32_t more = (<const uint32_t*> w.more.data)[i]
    if more == UNLIKE:
        return weight_of(w, i)
    return <int64_t> (<uint64_t> size[i] + more)


cdef inline int64_t bytes_of(const Lives* l, uint64_t i) noexcept nogil:
    # Return the number of bytes that the alloc at event i counts for.
    return l.size[i] if l.weights == NULL else bytes_at(l.weights, l.size, i)


cdef inline bint alive(uint32_t end, int64_t event) noexcept nogil:
    # Whether an allocation with this end (NONE32: never freed) is still live after `event`. NEVER
    # isn't live.
    return end != NEVER and <int64_t> end > event


cdef void lives_init(Lives* l) noexcept nogil
cdef int lives_requested(Lives* l, const Replay* r) noexcept nogil
cdef void lives_hold(Lives* l, const uint32_t* end, const uint32_t* carried_end) noexcept nogil
cdef void lives_weigh(Lives* l, const Weights* weights,
                      const int64_t* carried_bytes) noexcept nogil
cdef void weights_init(Weights* w) noexcept nogil
cdef void weights_free(Weights* w) noexcept nogil
cdef int weights_add(Weights* w, uint64_t event, int64_t size, int64_t n_bytes) noexcept nogil
cdef int64_t weight_of(const Weights* w, uint64_t event) noexcept nogil
cdef void lives_free(Lives* l) noexcept nogil
cdef int lives_keep(Lives* l, const Slim* classes, const uint32_t* base_classes,
                    uint32_t wanted) noexcept nogil
cdef int lives_narrow(Lives* l, int64_t least, bint to_end, bint carried,
                      bint recorded) noexcept nogil
cdef int64_t lives_start(const Lives* l) noexcept nogil
cdef int64_t lives_end(const Lives* l) noexcept nogil
cdef void lives_usage(const Lives* l, int64_t* out) noexcept nogil
cdef int lives_at(const Lives* l, int64_t event, Buf* allocs, Buf* carried) noexcept nogil
