# Without the value stack, read frames lists that have inline frames or are outside events.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay.engine.base.hashmap cimport Spans
from memreplay.engine.read.vm cimport VM

cdef int fast_alike(VM* vm, const uint8_t** pp, const uint8_t* end) noexcept nogil
cdef int fast_new(VM* vm, const uint8_t* p, size_t m, uint64_t h, uint32_t* stack) noexcept nogil
cdef int fast_split(VM* vm, const uint8_t** pp, const uint8_t* end,
                    uint32_t* stack) noexcept nogil
cdef int fast_repeat(VM* vm, uint32_t id, uint64_t n) noexcept nogil
cdef int fast_written(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                      uint32_t* stack) noexcept nogil
cdef int fast_one(VM* vm, const uint8_t** pp, const uint8_t* end, uint64_t* n,
                  uint32_t* stack) noexcept nogil
cdef const uint8_t* fast_list(VM* vm, const uint8_t* at) noexcept nogil
cdef uint32_t intern_other(Spans* t, const void* p, size_t n) noexcept nogil
