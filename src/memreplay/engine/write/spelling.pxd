# Convert a pickle of plain data to JSON.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf

cdef struct Spelling:
    const uint8_t* start
    const uint8_t* p
    const uint8_t* end
    Out out              # the JSON text, with NUL bytes in unused slots
    Buf stack            # Item
    Buf memo             # Spelled
    uint64_t stored      # distinct memo entries
    uint64_t limit       # maximum size of the text in bytes
    const char* wrong    # the error, which is at p
    bint ended

cdef int spelling_init(Spelling* s, const uint8_t* p, size_t n, uint64_t limit) noexcept nogil
cdef void spelling_free(Spelling* s) noexcept nogil
cdef int spelling_run(Spelling* s) noexcept nogil
cdef size_t spelling_take(const Spelling* s, size_t* at, uint8_t* to, size_t room) noexcept nogil
