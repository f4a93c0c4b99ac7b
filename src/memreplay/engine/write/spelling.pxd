# A pickle of plain data spelled as JSON.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.emit cimport Out
from memreplay.engine.base.growbuf cimport Buf

cdef struct Spelling:
    const uint8_t* start
    const uint8_t* p
    const uint8_t* end
    Out out              # the text, with a NUL byte where nothing has to stand
    Buf stack            # Item
    Buf memo             # Spelled
    uint64_t stored      # distinct entries of the memo
    uint64_t limit       # bytes of text
    const char* wrong    # why it stopped, at p
    bint ended

cdef int spelling_init(Spelling* s, const uint8_t* p, size_t n, uint64_t limit) noexcept nogil
cdef void spelling_free(Spelling* s) noexcept nogil
cdef int spelling_run(Spelling* s) noexcept nogil
cdef size_t spelling_take(const Spelling* s, size_t* at, uint8_t* to, size_t room) noexcept nogil
