# Set up the allocator's state at the start of the recording.
from memreplay.engine.simulate.simulation cimport Simulation

cdef int take_start(Simulation* s) noexcept nogil
