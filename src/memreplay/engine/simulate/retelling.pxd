# The segments and blocks of a simulation, as a snapshot lists them.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.simulate.simulation cimport Simulation


cdef struct ToldSegment:
    # A segment, or a mapped range of an expandable one.
    uint64_t address
    int64_t size, allocated, active, requested
    uint64_t stream
    int64_t made_at      # the event that made it, -1 for none
    uint32_t first       # its first block
    uint32_t pool        # pair id; NONE32 for the default pool
    uint8_t small, expandable


cdef struct ToldBlock:
    uint64_t address
    int64_t size, requested
    uint32_t segment     # the row of its segment
    uint32_t stack
    uint8_t state        # as in a snapshot


cdef int retell(const Simulation* s, Buf* segments, Buf* blocks) noexcept nogil
