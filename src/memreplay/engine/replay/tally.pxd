# Count a device's events and final blocks.
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.replay.replay cimport Replay
from memreplay.engine.read.tables cimport STATES


cdef struct StateTally:
    uint64_t blocks
    int64_t size         # total bytes of the blocks
    int64_t requested    # of active blocks


cdef struct Tally:
    uint64_t actions[256]       # events by action code
    uint64_t with_stack
    bint timed
    int64_t first_time, last_time
    uint64_t segments
    int64_t reserved            # total size of the segments
    StateTally states[5]        # by State
    uint64_t fixed, growing     # number of segments and segment events: not expandable, expandable


cdef void tally(const Replay* r, Tally* out) noexcept nogil
