# Find the role of a value in a dict. The value may show that the dict is a snapshot (wrapped.pxd).
from libc.stdint cimport uint32_t
from memreplay.engine.read.value cimport Value
from memreplay.engine.read.vm cimport VM

cdef uint32_t role_in(VM* vm, Value* owner, uint32_t key, bint a_list) noexcept nogil
cdef uint32_t role_among(VM* vm, Value* owner, const Value* last, uint32_t key,
                         bint a_list) noexcept nogil
