# List a simulation's segments and blocks as a snapshot does.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.simulate.simulation cimport Simulation


cdef struct FinalSegment:
    # A segment, or a mapped range of an expandable segment.
    uint64_t address
    int64_t size, allocated, active, requested
    uint64_t stream
    int64_t created_at      # the event that created it; -1: before the first event
    uint32_t first       # its first block
    uint32_t pool        # pair id; NONE32 for the default pool
    uint8_t small, expandable


cdef struct FinalBlock:
    uint64_t address
    int64_t size, requested
    uint32_t segment     # row of its segment
    uint32_t stack
    uint8_t state        # as in a snapshot


cdef int list_final(const Simulation* s, Buf* segments, Buf* blocks) noexcept nogil
