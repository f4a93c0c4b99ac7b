# Declares BlockMap for the interface that writes slices.
from libc.stdint cimport uint32_t
from memreplay.engine.replay._measures cimport Blocks, Holding
from memreplay.engine.replay cimport blockmap as _blockmap
from memreplay.engine.read cimport tables as _tables

cdef class BlockMap:
    cdef _blockmap.BlockMap m
    cdef uint32_t default_id
    cdef bint unknown_is_default
    cdef readonly Blocks blocks
    cdef readonly Holding holding

    cdef int _find_default(self, const _tables.Tables* t) except -1
    cdef object _pool(self, uint32_t pool)
