# Turn metadata (compile_context, user_metadata) into string ids.
from libc.stdint cimport uint32_t
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef uint32_t key_text(Tables* t, const Value* k) noexcept nogil
cdef int want_metadata(Tables* t, const Value* v, uint32_t* out) noexcept nogil
