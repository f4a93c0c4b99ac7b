# Simulate a recorded program with other allocator settings.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.status cimport Status
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.sizes cimport Rules
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.simulate.editing cimport Columns, Edit
from memreplay.engine.simulate.heap cimport Allocator, Limits


cdef struct Wait:
    # A free that was requested at this event but not completed by the next event.
    uint32_t at
    uint32_t owner       # alloc event or CARRIED | block


cdef struct Waiting:
    # A pair of events between which the allocator was out of memory and waited for streams.
    uint32_t first, stop


cdef struct Emptied:
    # An event at which the program emptied the whole cache or that of one private pool.
    uint32_t at
    uint32_t pool        # pair id, or NONE32


cdef struct Recorded:
    # The recorded allocator's limits.
    int64_t limit        # above this many bytes, it ran out of memory or hit a limit
    int64_t collect_from  # garbage_collection_threshold in bytes; negative: none
    uint64_t handle      # bytes that large expandable segments map at a time


cdef struct Shift:
    # The distance from a segment's address in the simulation to its address in the recording.
    uint64_t bytes
    bint known


cdef struct Simulation:
    Status status
    Allocator a
    const Arena* arena
    const Held* held
    Buf block_of         # u32 per event and addition: an alloc's block
    Buf carried_block    # u32 per carried-over block
    Buf waits            # Wait, by event
    Buf waiting          # Waiting, by event
    Buf late             # u32: owners whose free completed during the wait that is being replayed
    Buf emptied          # Emptied, by event
    Edit edit
    Recorded recorded
    uint64_t recorded_retries  # driver retries in the recording
    # lowest total (reserved plus request) for which a driver retry was needed
    uint64_t recorded_shortfall
    # first request that waited for pending frees in the simulation but not in the recording, or
    # vice versa; -1: none
    int64_t resynced_at
    uint64_t mapped_ranges   # at the end
    uint64_t unplaced    # carried-over blocks whose position isn't known
    bint keeps_trace
    # stop at the first driver request that differs from the recording
    bint stop_at_difference
    uint64_t equal       # number of leading segment events that equal the recorded events
    Buf shifts           # each segment's Shift, if there is a log
    uint64_t misplaced   # blocks whose offset in their segment differs from the recording
    Buf failed           # u32: events whose requests failed
    int64_t stopped_at   # event at which a failed request ended the simulation; -1: none


cdef struct SimulationOptions:
    # The settings to simulate and the results to keep.
    Rules rules
    Limits limits
    Recorded recorded
    const Lives* edited      # allocations to change; NULL: none
    double factor
    bint twice
    Columns columns          # another change; zeros: none
    bint keeps_log, keeps_trace
    # with a log: stop at the first driver request that differs from the recording
    bint stop_at_difference


cdef int simulation_run(Simulation* s, const Arena* arena, const Held* held,
                        const SimulationOptions* options, uint64_t seed) noexcept nogil
cdef void simulation_free(Simulation* s) noexcept nogil
