# State for computing each group's bytes at sampled events.
from memreplay.engine.query cimport layers as _layers
from memreplay.engine.read.column cimport Owned

cdef class Layering:
    cdef _layers.Layers y
    cdef Owned keys
    cdef Owned out
    cdef list rows(self, int code)
