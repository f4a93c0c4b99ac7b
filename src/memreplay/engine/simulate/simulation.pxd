# A recorded program on an allocator of other settings.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.status cimport Status
from memreplay.engine.replay.arena cimport Arena
from memreplay.engine.replay.held cimport Held
from memreplay.engine.replay.sizes cimport Rules
from memreplay.engine.replay.lives cimport Lives
from memreplay.engine.simulate.editing cimport Edit
from memreplay.engine.simulate.heap cimport Allocator, Limits


cdef struct Wait:
    # A free that was requested at this event, and did not complete with the next one.
    uint32_t at
    uint32_t owner       # alloc event or CARRIED block


cdef struct Waiting:
    # From this event on, up to another one, the allocator was out of memory, and waited for
    # streams.
    uint32_t first, stop


cdef struct Emptied:
    # With this event the program emptied the cache, of one private pool or all of it.
    uint32_t at
    uint32_t pool        # pair id, or NONE32


cdef struct Recorded:
    # What the recording's allocator had.
    int64_t limit        # above so many bytes it was in want of memory, or of leave to have it
    int64_t collect_from  # garbage_collection_threshold in bytes; none when negative
    uint64_t handle      # what large expandable segments were mapped by


cdef struct Shift:
    # Where a segment lies in the recording, from where it lies here.
    uint64_t bytes
    bint known


cdef struct Simulation:
    Status status
    Allocator a
    const Arena* arena
    const Held* held
    Buf block_of         # u32 an event: of an alloc its block
    Buf carried_block    # u32 a carried block
    Buf waits            # Wait, by event
    Buf waiting          # Waiting, by event
    Buf late             # u32: what ended in the one that is being replayed
    Buf emptied          # Emptied, by event
    Edit edit
    Recorded recorded
    uint64_t recorded_retries  # how often the recording's driver was asked again
    uint64_t recorded_want   # the least that it did not have then, with what was reserved
    int64_t resynced_at  # the first request that waited for pending frees, and did not in the
                         # recording, or the other way round; -1 where none did
    uint64_t mapped_ranges   # at the end
    uint64_t unplaced    # carried blocks of which nobody knows where they lay
    bint keeps_trace
    bint alike           # it ends where it asks the driver for something else than the recording
    uint64_t equal       # how many of the first segment events are those of the recording
    Buf shifts           # Shift, of each segment, where it is looked for
    uint64_t misplaced   # blocks that lie elsewhere in their segments than in the recording
    Buf failed           # u32: events whose requests failed
    int64_t stopped_at   # where that ended the program, and so the simulation; -1 for not at all


cdef struct Asked:
    # What to simulate, and what to keep of it.
    Rules rules
    Limits limits
    Recorded recorded
    const Lives* edited      # allocations that are changed; NULL for none
    double factor
    bint twice
    bint keeps_log, keeps_trace
    bint alike               # with a log: end where it asks for something else than the recording


cdef int simulation_run(Simulation* s, const Arena* arena, const Held* held, const Asked* asked,
                        uint64_t seed) noexcept nogil
cdef void simulation_free(Simulation* s) noexcept nogil
