"""Python interface for simulating a recorded program with other allocator settings.

Contains no algorithms. Event indices count from the first event read.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay._core cimport error_of, new_seed
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._measures cimport Blocks, Holding
from memreplay.engine.replay._timeline cimport Measure
from memreplay.engine.replay cimport sizes as _sizes
from memreplay.engine.replay.sizes cimport SMALL_LIMIT, SMALL_SEGMENT, Rules, segment_size
from memreplay.engine.read.column cimport Owned, column, owned
from memreplay.engine.simulate cimport heap as _heap
from memreplay.engine.read.tables cimport A_ALLOC
from memreplay.engine.simulate.editing cimport Addition, Columns, Move, changes_all
from memreplay.engine.simulate cimport retelling as _retelling
from memreplay.engine.simulate cimport simulation as _simulation


@cython.final
cdef class Changed:
    """A changed program: other sizes, and calls that the recorded program doesn't make.

    `sizes`: each event's new size; 0 drops its request, negative numbers leave it as it is. Each
    row of `at`, `owner` and `makes` is a call before an event (the number of events: after the last
    one), in order: it allocates an owner's memory or frees it, if it's there. An owner is an alloc
    event or, from the number of events on, an addition: an allocation of `added` bytes with the
    stream, pool and stack of the alloc event `like`.
    """

    cdef Buf sizes, moves, added

    def __cinit__(self, Holding holding not None, const int64_t[:] sizes, const int64_t[:] at,
                  const int64_t[:] owner, const int64_t[:] makes, const int64_t[:] like,
                  const int64_t[:] added):
        cdef int64_t events = <int64_t> holding.replay.r.events
        cdef const uint8_t* action = (<const uint8_t*> holding.replay.r.tables.action.data
                                      + holding.replay.r.first)
        cdef Py_ssize_t i
        cdef Move move
        cdef Addition addition
        buf_init(&self.sizes, sizeof(int64_t))
        buf_init(&self.moves, sizeof(Move))
        buf_init(&self.added, sizeof(Addition))
        if len(sizes) != events:
            raise ValueError("sizes needs one number per event")
        if not len(at) == len(owner) == len(makes) or len(like) != len(added):
            raise ValueError("the columns have different lengths")
        for i in range(len(sizes)):
            if push_item(&self.sizes, &sizes[i]) < 0:
                raise MemoryError
        for i in range(len(like)):
            if not (0 <= like[i] < events and action[like[i]] == A_ALLOC and added[i] > 0):
                raise ValueError("an addition needs bytes and an alloc event")
            addition.size, addition.like = added[i], <uint32_t> like[i]
            if push_item(&self.added, &addition) < 0:
                raise MemoryError
        for i in range(len(at)):
            if not (0 if i == 0 else at[i - 1]) <= at[i] <= events:
                raise ValueError("calls must be in the order of events")
            if not (0 <= owner[i] < events + len(like)
                    and (owner[i] >= events or action[owner[i]] == A_ALLOC)):
                raise ValueError("an owner is an alloc event or an addition")
            move.at, move.owner, move.makes = <uint32_t> at[i], <uint32_t> owner[i], makes[i] != 0
            if push_item(&self.moves, &move) < 0:
                raise MemoryError

    def __dealloc__(self):
        buf_free(&self.sizes)
        buf_free(&self.moves)
        buf_free(&self.added)

    cdef Columns columns(self):
        cdef Columns found
        found.sizes = <const int64_t*> self.sizes.data
        found.moves = <const Move*> self.moves.data
        found.moves_count = self.moves.len
        found.added = <const Addition*> self.added.data
        found.added_count = self.added.len
        return found


@cython.final
cdef class Simulation:
    """Simulates one device's program with these allocator settings, as on the backend that recorded
    it.

    Sizes are in bytes. `divisions` are roundup_power2_divisions, one per power of two from 1 MiB
    on; `max_split` is max_split_size (-1: no limit), `max_non_split` is
    max_non_split_rounding_size. `total` is the memory that the driver has for this process, and
    `allowed` is the part that the process may use. Cached memory is collected above `collect_from`
    bytes. For these three, -1 means no limit. `space` is the size of an expandable segment's
    address space.

    `reuses` means that the driver reuses addresses, so the order of addresses isn't the order of
    creation. In the recording, memory ran out above `recorded_limit` bytes, cached memory was
    collected above `recorded_collect_from` bytes (-1: never), and large expandable segments were
    mapped in units of `recorded_handle` bytes.

    With `stop_at_difference` and a log, the simulation ends at the first driver request that
    differs from the recording.

    The sizes of the allocations in `edited` are multiplied by `factor`; 0 drops them. With `twice`,
    each of these is freed as soon as the next allocation has been made, and made again just before
    the last allocation that precedes its end. `changed` is any other change, made in addition.
    """

    cdef _simulation.Simulation s
    cdef readonly Blocks blocks
    cdef readonly Holding holding
    cdef readonly Measure edited
    cdef Changed changed

    def __cinit__(self, Blocks blocks not None, Holding holding not None, *, divisions,
                  int64_t max_split, int64_t max_non_split, int64_t large_segment, bint expandable,
                  int64_t total=-1, int64_t allowed=-1, int64_t collect_from=-1,
                  uint64_t space=1 << 42, bint reuses=False, int64_t recorded_limit=-1,
                  int64_t recorded_collect_from=-1, int64_t recorded_handle=20 << 20,
                  Measure edited=None, double factor=1.0, bint twice=False, Changed changed=None,
                  bint log=True, bint trace=False, bint stop_at_difference=False):
        cdef _simulation.SimulationOptions options
        cdef uint64_t seed = new_seed()
        cdef int code, i
        self.blocks = blocks
        self.holding = holding
        self.edited = edited
        self.changed = changed
        if holding.replay is not blocks.reserved.replay:
            raise ValueError("holding belongs to another replay")
        if edited is not None and edited.replay is not holding.replay:
            raise ValueError("edited belongs to another replay")
        if len(divisions) != _sizes.DIVISION_STEPS:
            raise ValueError("divisions needs one number per power of two")
        if large_segment <= 0 or space == 0 or recorded_handle <= 0:
            raise ValueError("the segment size must be positive")
        if not 0 <= factor < 1e9:
            raise ValueError("factor must be 0 or more")
        for i in range(_sizes.DIVISION_STEPS):
            options.rules.divisions[i] = divisions[i]
        options.rules.max_split = max_split
        options.rules.max_non_split = max_non_split
        options.rules.large_segment = large_segment
        options.rules.expandable = expandable
        options.rules.pad = blocks.a.rules.pad
        options.rules.align = blocks.a.rules.align
        options.limits.total = total
        options.limits.allowed = allowed
        options.limits.collect_from = collect_from
        options.limits.space = space
        options.limits.reuses = reuses
        options.recorded.limit = recorded_limit if recorded_limit >= 0 else _heap.NO_TOTAL
        options.recorded.collect_from = recorded_collect_from
        options.recorded.handle = <uint64_t> recorded_handle
        options.edited = &edited.l if edited is not None else NULL
        options.factor = factor
        options.twice = twice
        memset(&options.columns, 0, sizeof(Columns))
        if changed is not None:
            if changed.sizes.len != holding.replay.r.events:
                raise ValueError("changed belongs to another replay")
            options.columns = changed.columns()
        options.keeps_log = log
        options.keeps_trace = trace
        options.stop_at_difference = stop_at_difference
        with nogil:
            code = _simulation.simulation_run(&self.s, &blocks.a, &holding.h, &options, seed)
        if code != OK:
            raise error_of(&self.s.status)

    def __dealloc__(self):
        _simulation.simulation_free(&self.s)

    @property
    def reserved_peak(self) -> tuple:
        """The highest number of reserved bytes, and the event that caused it."""
        return self.s.a.reserved_peak, self.s.a.reserved_peak_at

    @property
    def active_peak(self) -> tuple:
        """The highest number of bytes in blocks, and the event that caused it."""
        return self.s.a.active_peak, self.s.a.active_peak_at

    @property
    def requested_peak(self) -> tuple:
        """The highest number of requested bytes, and the event that caused it."""
        return self.s.a.requested_peak, self.s.a.requested_peak_at

    @property
    def recorded_retries(self) -> int:
        """Number of recorded driver retries after all cached memory was returned."""
        return self.s.recorded_retries

    @property
    def recorded_shortfall(self) -> int | None:
        """The lowest total (reserved bytes plus request) for which the recorded driver had too
        little memory at a retry; None without such a retry.
        """
        if self.s.recorded_shortfall == <uint64_t> _heap.NO_TOTAL:
            return None
        return self.s.recorded_shortfall

    @property
    def unplaced(self) -> int:
        """Number of carried-over blocks whose segment isn't known."""
        return self.s.unplaced

    @property
    def changes_all(self) -> bool:
        """Whether all allocations were changed, including failed requests."""
        return changes_all(&self.s.edit)

    @property
    def resynced_at(self) -> int | None:
        """First event whose request waited for pending frees in the simulation but not in the
        recording, or vice versa; None if there is none.

        After this event, it isn't known when other frees complete.
        """
        return None if self.s.resynced_at < 0 else self.s.resynced_at

    @property
    def reuses(self) -> bool:
        """Whether the driver reuses addresses."""
        return self.s.a.driver.reuses

    @property
    def misplaced(self) -> int:
        """Number of blocks whose offset in their segment differs from the recording. Only with a
        log.
        """
        return self.s.misplaced

    @property
    def reserved(self) -> int:
        """Reserved bytes at the end."""
        return self.s.a.reserved

    @property
    def driver_allocs(self) -> int:
        """Number of requests for memory made to the driver."""
        return self.s.a.driver_allocs

    @property
    def driver_frees(self) -> int:
        """Number of times memory was returned to the driver."""
        return self.s.a.driver_frees

    @property
    def retries(self) -> int:
        """Number of driver retries after all cached memory was returned."""
        return self.s.a.retries

    def failed(self) -> list:
        """Return the events whose requests failed."""
        cdef const uint32_t* found = <const uint32_t*> self.s.failed.data
        cdef size_t i
        return [found[i] for i in range(self.s.failed.len)]

    @property
    def stopped_at(self) -> int | None:
        """First event whose request failed in the simulation but not in the recording, or None.

        The simulation stops there, because the program's further course isn't known.
        """
        return None if self.s.stopped_at < 0 else self.s.stopped_at

    @property
    def mapped_ranges(self) -> int:
        """Number of segments at the end. As in a snapshot, each mapped range of an expandable
        segment counts.
        """
        return self.s.mapped_ranges

    @property
    def reproduced(self) -> tuple:
        """(matching, recorded, simulated): numbers of segment events.

        Only with a log.

        Recorded events match up to the first event with a different kind or size in the simulation.
        """
        return self.s.equal, self.s.arena.reserve.events.len, self.s.a.log.len

    def log(self) -> list:
        """Return the driver calls:

        (event, action code, address, bytes, stream, pool id or None).
        """
        cdef _heap.SegmentEvent* e = <_heap.SegmentEvent*> self.s.a.log.data
        cdef _heap.Shelf* shelf
        cdef uint64_t i
        cdef uint32_t pool
        found = []
        for i in range(self.s.a.log.len):
            shelf = _heap.shelf_at(&self.s.a, e[i].shelf)
            pool = _heap.pool_at(&self.s.a, shelf.pool).id
            found.append((e[i].at, e[i].action, e[i].address, e[i].size, shelf.stream,
                          None if pool == NONE32 else pool))
        return found

    def trace(self) -> dict:
        """Return the events that would be in a recording of the simulation, as columns by name.

        Requires `trace`. Columns: at (u64, the recorded event from which the time is taken), stack
        (u64, the recorded event from which the stack is taken), address (u64; for an oom, the
        driver's free memory), size (i64), stream (u64), pool (u32, ABSENT_ID for the default pool),
        action (u8).
        """
        cdef _heap.TraceEvent none
        cdef _heap.TraceEvent* row = <_heap.TraceEvent*> self.s.a.trace.data
        cdef size_t n = self.s.a.trace.len
        cdef size_t each = sizeof(_heap.TraceEvent)
        if n == 0:
            row = &none  # a valid pointer for empty columns
        return {
            "at": column(self, &row.at, n, b"Q", each),
            "stack": column(self, &row.stack, n, b"Q", each),
            "address": column(self, &row.address, n, b"Q", each),
            "size": column(self, &row.size, n, b"q", each),
            "stream": column(self, &row.stream, n, b"Q", each),
            "pool": column(self, &row.pool, n, b"I", each),
            "action": column(self, &row.action, n, b"B", each),
        }

    def final_state(self) -> tuple:
        """Return the final segments and blocks as in a snapshot, each as a dict of columns.

        Segments: address (u64), size, allocated, active, requested (i64), stream (u64), created_at
        (i64, -1 for before the first event), pool (u32, ABSENT_ID for the default pool), small and
        expandable (u8). Blocks: address (u64), size, requested (i64), segment, stack (u32), state
        (u8).
        """
        cdef Owned segments = owned(sizeof(_retelling.FinalSegment))
        cdef Owned blocks = owned(sizeof(_retelling.FinalBlock))
        cdef _retelling.FinalSegment no_segment
        cdef _retelling.FinalBlock no_block
        cdef _retelling.FinalSegment* g
        cdef _retelling.FinalBlock* b
        cdef size_t n, m
        cdef size_t each = sizeof(_retelling.FinalSegment)
        cdef size_t other = sizeof(_retelling.FinalBlock)
        cdef int code
        with nogil:
            code = _retelling.list_final(&self.s, &segments.buf, &blocks.buf)
        if code != 0:
            raise MemoryError
        g = <_retelling.FinalSegment*> segments.buf.data
        b = <_retelling.FinalBlock*> blocks.buf.data
        n, m = segments.buf.len, blocks.buf.len
        if n == 0:
            g = &no_segment
        if m == 0:
            b = &no_block
        return {
            "address": column(segments, &g.address, n, b"Q", each),
            "size": column(segments, &g.size, n, b"q", each),
            "allocated": column(segments, &g.allocated, n, b"q", each),
            "active": column(segments, &g.active, n, b"q", each),
            "requested": column(segments, &g.requested, n, b"q", each),
            "stream": column(segments, &g.stream, n, b"Q", each),
            "created_at": column(segments, &g.created_at, n, b"q", each),
            "pool": column(segments, &g.pool, n, b"I", each),
            "small": column(segments, &g.small, n, b"B", each),
            "expandable": column(segments, &g.expandable, n, b"B", each),
        }, {
            "address": column(blocks, &b.address, m, b"Q", other),
            "size": column(blocks, &b.size, m, b"q", other),
            "requested": column(blocks, &b.requested, m, b"q", other),
            "segment": column(blocks, &b.segment, m, b"I", other),
            "stack": column(blocks, &b.stack, m, b"I", other),
            "state": column(blocks, &b.state, m, b"B", other),
        }

    def segments(self) -> list:
        """Return the final segments in the order of their creation.

        A segment is (address, stream, pool id or None, small, expandable, blocks); a block is
        (size, state, requested bytes, owner). States are FREE, USED, PENDING and UNMAPPED; owners
        are alloc events or carried-over blocks.
        """
        cdef _heap.SimBlock* b
        cdef _heap.SimSegment* segment
        cdef _heap.Shelf* shelf
        cdef uint32_t i, pool
        cdef uint64_t k
        found = []
        for k in range(self.s.a.segments.len):
            segment = _heap.segment_at(&self.s.a, <uint32_t> k)
            if segment.first == NONE32:
                continue
            b = _heap.block_at(&self.s.a, segment.first)
            shelf = _heap.shelf_at(&self.s.a, b.shelf)
            pool = _heap.pool_at(&self.s.a, shelf.pool).id
            blocks = []
            i = segment.first
            address = b.address
            while i != NONE32:
                b = _heap.block_at(&self.s.a, i)
                owner = None if b.owner == NONE32 else b.owner
                blocks.append((b.size, b.state, b.requested, owner))
                i = b.next
            found.append((address, shelf.stream, None if pool == NONE32 else pool,
                          bool(shelf.small), segment.handle != 0, blocks))
        return found


def segment_bytes(uint64_t request, *, uint64_t large_segment, bint expandable) -> int:
    """Return the size of the segment that is created for a request of this many bytes.

    For expandable segments, this is an upper bound, because the free memory at their end is used
    first. Raises OverflowError for sizes that are negative or above 2**64.
    """
    cdef Rules rules
    cdef uint64_t handle = SMALL_SEGMENT if request <= SMALL_LIMIT else large_segment
    rules.large_segment = <int64_t> large_segment
    rules.pad = rules.align = 0
    if expandable:
        return -(-int(request) // handle) * handle
    return segment_size(&rules, request)


FREE, USED = _heap.FREE_BLOCK, _heap.USED_BLOCK
PENDING, UNMAPPED = _heap.PENDING_BLOCK, _heap.UNMAPPED
