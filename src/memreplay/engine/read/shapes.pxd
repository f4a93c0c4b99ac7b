# Store containers' items in the row and column that they belong to.
from memreplay.engine.read.tables cimport Tables
from memreplay.engine.read.value cimport Value

cdef int append_item(Tables* t, const Value* list, const Value* v) noexcept nogil
cdef int set_item(Tables* t, const Value* d, const Value* k, const Value* v) noexcept nogil
