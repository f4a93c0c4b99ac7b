# JSON text as the opcodes of a pickle.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans

cdef struct Reading:
    const uint8_t* start
    const uint8_t* p
    const uint8_t* end
    const char* wrong        # why it stopped
    Out out
    Buf text                 # u8: scratch, a text without its escapes
    Buf levels               # Level: the containers that are open
    int protocol
    size_t frame             # where the open frame begins in `out`
    bint began, ended
    bint shares              # texts, frames: written once
    uint32_t memoised
    Spans strings, objects   # as they are spelled
    Buf string_at, object_at   # u32: memo index of each

cdef int put_json(Out* o, const uint8_t* p, size_t n) noexcept nogil
cdef int reading_init(Reading* r, const uint8_t* p, size_t n, int protocol,
                      uint64_t seed) noexcept nogil
cdef void reading_free(Reading* r) noexcept nogil
cdef int reading_step(Reading* r, size_t chunk) noexcept nogil
