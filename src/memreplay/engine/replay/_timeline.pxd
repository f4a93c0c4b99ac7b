# Declares Replay and Measure for other Python interfaces.
from libc.stdint cimport int64_t
from memreplay._core cimport Tables
from memreplay.engine.replay cimport lives as _lives
from memreplay.engine.replay cimport replay as _replay

cdef class Replay:
    cdef _replay.Replay r
    cdef readonly Tables tables

cdef class Measure:
    cdef _lives.Lives l
    cdef readonly Replay replay
    cdef list owners    # own the columns in `l`

    cdef int64_t _event(self, event) except -2

cdef Measure requested(Replay replay)
