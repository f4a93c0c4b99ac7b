# Remember unknown dicts and lists, because they may turn out to be frames and frames lists.
from libc.stdint cimport uint32_t
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef int open_unknown(Tables* t, uint32_t role, Value* out) noexcept nogil
cdef int set_unknown(Tables* t, uint32_t idx, uint32_t key, const Value* v) noexcept nogil
cdef int append_unknown(Tables* t, uint32_t idx, const Value* v) noexcept nogil
cdef int open_tuple(Tables* t, const Value* items, size_t n, Value* out) noexcept nogil
cdef int unknown_frame(Tables* t, uint32_t idx, uint32_t* out) noexcept nogil
cdef int unknown_stack(Tables* t, uint32_t idx, uint32_t* out) noexcept nogil
cdef bint is_kept(const Value* items, size_t n) noexcept nogil
cdef int keep_tuple(Tables* t, const Value* items, size_t n, Value* out) noexcept nogil
