# Declares Holding, Reserved, Blocks and Classes for other Python interfaces.
from libc.stdint cimport uint64_t
from memreplay.engine.replay cimport arena as _arena
from memreplay.engine.replay cimport classes as _classes
from memreplay.engine.replay cimport held as _held
from memreplay.engine.replay cimport reserve as _reserve
from memreplay.engine.read.column cimport Column, Owned
from memreplay.engine.replay._timeline cimport Replay

cdef class Holding:
    cdef _held.Held h
    cdef readonly Replay replay

cdef class Reserved:
    cdef _reserve.Reserve v
    cdef readonly Replay replay

cdef class Blocks:
    cdef _arena.Arena a
    cdef readonly Reserved reserved

cdef int check_rows(Column rows, uint64_t n) except -1

cdef class Classes:
    cdef _classes.Classes c
    cdef readonly Blocks blocks
    cdef readonly str by

    cdef list _rows(self, Owned out)

cdef int take_only(Blocks blocks, only, _classes.Only* wanted) except -1
