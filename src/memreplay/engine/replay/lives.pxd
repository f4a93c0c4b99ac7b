# One measure of a replay: which allocations count, from when to when, and with how many bytes.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.read.tables cimport A_ALLOC

cdef extern from *:
    const uint32_t NEVER "0xFFFFFFFEu"   # in carried_end: does not count


cdef struct Lives:
    const Replay* replay
    const uint32_t* end     # an event: of an alloc the event that ended it, else NONE32
    const int64_t* bytes    # an event: of an alloc its bytes
    Buf carried_end         # u32 a carried block: the event that ended it, NONE32 or NEVER
    Buf carried_bytes       # i64 a carried block
    Buf keep                # u8 an event: whether an alloc counts; empty when all do


cdef inline bint counts(const Lives* l, const uint8_t* action, uint64_t i) noexcept nogil:
    # Whether event i is an alloc that counts.
    return action[i] == A_ALLOC and (l.keep.len == 0 or (<const uint8_t*> l.keep.data)[i])


cdef inline bint alive(uint32_t end, int64_t event) noexcept nogil:
    # Whether what ends there (NONE32: nowhere) is still alive after `event`. NEVER is not.
    return end != NEVER and <int64_t> end > event


cdef void lives_init(Lives* l) noexcept nogil
cdef int lives_requested(Lives* l, const Replay* r) noexcept nogil
cdef void lives_hold(Lives* l, const uint32_t* end, const uint32_t* carried_end) noexcept nogil
cdef void lives_weigh(Lives* l, const int64_t* bytes, const int64_t* carried_bytes) noexcept nogil
cdef void lives_free(Lives* l) noexcept nogil
cdef int lives_keep(Lives* l, const uint32_t* classes, const uint32_t* base_classes,
                    uint32_t wanted) noexcept nogil
cdef int lives_narrow(Lives* l, int64_t least, bint to_end, bint carried,
                      bint recorded) noexcept nogil
cdef int64_t lives_start(const Lives* l) noexcept nogil
cdef void lives_usage(const Lives* l, int64_t* out) noexcept nogil
cdef int lives_at(const Lives* l, int64_t event, Buf* allocs, Buf* carried) noexcept nogil
