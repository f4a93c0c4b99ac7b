# Convert JSON text to pickle opcodes.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans

cdef struct Reading:
    const uint8_t* start
    const uint8_t* p
    const uint8_t* end
    const char* wrong        # the error
    Out out
    Buf text                 # u8, scratch space for a string without its escapes
    Buf levels               # Level: open containers
    int protocol
    size_t frame             # where the open frame in `out` starts
    bint began, ended
    bint shares              # whether equal strings and frames are written only once
    uint32_t memoised
    Spans strings, objects   # by their spelling
    Buf string_at, object_at   # u32: memo index of each string

cdef int put_json(Out* o, const uint8_t* p, size_t n) noexcept nogil
cdef int reading_init(Reading* r, const uint8_t* p, size_t n, int protocol,
                      uint64_t seed) noexcept nogil
cdef void reading_free(Reading* r) noexcept nogil
cdef int reading_step(Reading* r, size_t chunk) noexcept nogil
