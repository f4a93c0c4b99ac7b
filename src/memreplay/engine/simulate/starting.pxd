# What the allocator held when the recording began.
from memreplay.engine.simulate.simulation cimport Simulation

cdef int take_start(Simulation* s) noexcept nogil
