"""The façade over simulations: a recorded program on an allocator of other settings.

No algorithm is in here. Event indices count from the first event that was read.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay._core cimport error_of, new_seed
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._measures cimport Blocks, Holding
from memreplay.engine.replay._timeline cimport Measure
from memreplay.engine.replay cimport sizes as _sizes
from memreplay.engine.replay.sizes cimport SMALL_LIMIT, SMALL_SEGMENT, Rules, segment_size
from memreplay.engine.read.column cimport Owned, column, owned
from memreplay.engine.simulate cimport heap as _heap
from memreplay.engine.simulate.editing cimport changes_all
from memreplay.engine.simulate cimport retelling as _retelling
from memreplay.engine.simulate cimport simulation as _simulation


@cython.final
cdef class Simulation:
    """One device's program on an allocator of these settings, of the backend that recorded it.
    Sizes are bytes.

    `divisions` are roundup_power2_divisions, a number a power of two from 1 MiB on; `max_split` is
    max_split_size (-1: no limit), `max_non_split` max_non_split_rounding_size. `total` is what the
    driver has for this process, `allowed` what it may have of that, `collect_from` from where on
    cached memory is collected (-1: no limit each); `space` the addresses of an expandable segment.
    `reuses`: whether the driver gives addresses again that it got back, so that the order of
    addresses is not that of segments. In the recording the process was in want of memory above
    `recorded_limit`, cached memory was collected above `recorded_collect_from` (-1: no such bytes),
    and large expandable segments were mapped by `recorded_handle`.

    With `alike`, and a log, it ends where it asks the driver for something else than the recording
    did.

    The allocations that count in `edited` are of `factor` times their size (0: there are none), or,
    with `twice`, end when the next one has been made, and come back before the last one ahead of
    their end.
    """

    cdef _simulation.Simulation s
    cdef readonly Blocks blocks
    cdef readonly Holding holding
    cdef readonly Measure edited

    def __cinit__(self, Blocks blocks not None, Holding holding not None, *, divisions,
                  int64_t max_split, int64_t max_non_split, int64_t large_segment, bint expandable,
                  int64_t total=-1, int64_t allowed=-1, int64_t collect_from=-1,
                  uint64_t space=1 << 42, bint reuses=False, int64_t recorded_limit=-1,
                  int64_t recorded_collect_from=-1, int64_t recorded_handle=20 << 20,
                  Measure edited=None, double factor=1.0, bint twice=False, bint log=True,
                  bint trace=False, bint alike=False):
        cdef _simulation.Asked asked
        cdef uint64_t seed = new_seed()
        cdef int code, i
        self.blocks = blocks
        self.holding = holding
        self.edited = edited
        if holding.replay is not blocks.reserved.replay:
            raise ValueError("a holding of another replay")
        if edited is not None and edited.replay is not holding.replay:
            raise ValueError("a measure of another replay")
        if len(divisions) != _sizes.DIVISION_STEPS:
            raise ValueError("divisions need a number a power of two")
        if large_segment <= 0 or space == 0 or recorded_handle <= 0:
            raise ValueError("segments have a size")
        if not 0 <= factor < 1e9:
            raise ValueError("sizes are multiplied by 0 or more")
        for i in range(_sizes.DIVISION_STEPS):
            asked.rules.divisions[i] = divisions[i]
        asked.rules.max_split = max_split
        asked.rules.max_non_split = max_non_split
        asked.rules.large_segment = large_segment
        asked.rules.expandable = expandable
        asked.rules.pad = blocks.a.rules.pad
        asked.rules.align = blocks.a.rules.align
        asked.limits.total = total
        asked.limits.allowed = allowed
        asked.limits.collect_from = collect_from
        asked.limits.space = space
        asked.limits.reuses = reuses
        asked.recorded.limit = recorded_limit if recorded_limit >= 0 else _heap.NO_TOTAL
        asked.recorded.collect_from = recorded_collect_from
        asked.recorded.handle = <uint64_t> recorded_handle
        asked.edited = &edited.l if edited is not None else NULL
        asked.factor = factor
        asked.twice = twice
        asked.keeps_log = log
        asked.keeps_trace = trace
        asked.alike = alike
        with nogil:
            code = _simulation.simulation_run(&self.s, &blocks.a, &holding.h, &asked, seed)
        if code != OK:
            raise error_of(&self.s.status)

    def __dealloc__(self):
        _simulation.simulation_free(&self.s)

    @property
    def reserved_peak(self) -> tuple:
        """(bytes, the event that made it)."""
        return self.s.a.reserved_peak, self.s.a.reserved_peak_at

    @property
    def active_peak(self) -> tuple:
        """(bytes of blocks, the event that made it)."""
        return self.s.a.active_peak, self.s.a.active_peak_at

    @property
    def requested_peak(self) -> tuple:
        """(requested bytes, the event that made it)."""
        return self.s.a.requested_peak, self.s.a.requested_peak_at

    @property
    def recorded_retries(self) -> int:
        """How often the driver was asked again in the recording, after all cached memory was given
        back."""
        return self.s.recorded_retries

    @property
    def recorded_want(self) -> int | None:
        """The least that the recording's driver did not have when it was asked again, with what was
        reserved; None where it never was."""
        return None if self.s.recorded_want == <uint64_t> _heap.NO_TOTAL else self.s.recorded_want

    @property
    def unplaced(self) -> int:
        """Blocks from before the recording of which nobody knows in which segment they lay."""
        return self.s.unplaced

    @property
    def changes_all(self) -> bool:
        """Whether all allocations were changed, and so the requests that failed."""
        return changes_all(&self.s.edit)

    @property
    def resynced_at(self) -> int | None:
        """The first event whose request waited for pending frees and did not in the recording, or
        the other way round: when others complete from there on is not known."""
        return None if self.s.resynced_at < 0 else self.s.resynced_at

    @property
    def reuses(self) -> bool:
        """Whether the driver gives addresses again that it got back."""
        return self.s.a.driver.reuses

    @property
    def misplaced(self) -> int:
        """How many blocks lie elsewhere in their segments than in the recording; with a log
        alone."""
        return self.s.misplaced

    @property
    def reserved(self) -> int:
        """At the end."""
        return self.s.a.reserved

    @property
    def driver_allocs(self) -> int:
        """How often the driver was asked for memory."""
        return self.s.a.driver_allocs

    @property
    def driver_frees(self) -> int:
        """How often memory was given back to it."""
        return self.s.a.driver_frees

    @property
    def retries(self) -> int:
        """How often it was asked again after all cached memory was given back."""
        return self.s.a.retries

    def failed(self) -> list:
        """The events whose requests failed."""
        cdef const uint32_t* found = <const uint32_t*> self.s.failed.data
        cdef size_t i
        return [found[i] for i in range(self.s.failed.len)]

    @property
    def stopped_at(self) -> int | None:
        """The first event whose request failed here and not in the recording: what the program
        would have done from there on is not known, and nothing more was replayed."""
        return None if self.s.stopped_at < 0 else self.s.stopped_at

    @property
    def mapped_ranges(self) -> int:
        """Segments at the end as a snapshot lists them: of an expandable one each mapped range."""
        return self.s.mapped_ranges

    @property
    def reproduced(self) -> tuple:
        """(how many of the recording's first segment events are those of the simulation, in kind
        and size, how many the recording has, how many the simulation); with a log alone."""
        return self.s.equal, self.s.arena.reserve.events.len, self.s.a.log.len

    def log(self) -> list:
        """What was asked of the driver: (event, action code, address, bytes, stream, pool id or
        None) each."""
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
        """The events as a recording of the simulation would have them, with `trace`: by name the
        columns at (u64, the event whose time it has), stack (u64, the event whose stack), address
        (u64; of an oom what the driver has left), size (i64), stream (u64), pool (u32, ABSENT_ID
        for the default pool) and action (u8)."""
        cdef _heap.TraceEvent none
        cdef _heap.TraceEvent* row = <_heap.TraceEvent*> self.s.a.trace.data
        cdef size_t n = self.s.a.trace.len
        cdef size_t each = sizeof(_heap.TraceEvent)
        if n == 0:
            row = &none  # columns of nothing, whose begin is somewhere
        return {
            "at": column(self, &row.at, n, b"Q", each),
            "stack": column(self, &row.stack, n, b"Q", each),
            "address": column(self, &row.address, n, b"Q", each),
            "size": column(self, &row.size, n, b"q", each),
            "stream": column(self, &row.stream, n, b"Q", each),
            "pool": column(self, &row.pool, n, b"I", each),
            "action": column(self, &row.action, n, b"B", each),
        }

    def told(self) -> tuple:
        """The segments at the end and their blocks, as a snapshot lists them: by name the columns
        address (u64), size, allocated, active, requested (i64), stream (u64), made_at (i64, -1 for
        before the first event), pool (u32, ABSENT_ID for the default pool), small and expandable
        (u8); of blocks address (u64), size, requested (i64), segment, stack (u32), state (u8)."""
        cdef Owned segments = owned(sizeof(_retelling.ToldSegment))
        cdef Owned blocks = owned(sizeof(_retelling.ToldBlock))
        cdef _retelling.ToldSegment no_segment
        cdef _retelling.ToldBlock no_block
        cdef _retelling.ToldSegment* g
        cdef _retelling.ToldBlock* b
        cdef size_t n, m
        cdef size_t each = sizeof(_retelling.ToldSegment)
        cdef size_t other = sizeof(_retelling.ToldBlock)
        cdef int code
        with nogil:
            code = _retelling.retell(&self.s, &segments.buf, &blocks.buf)
        if code != 0:
            raise MemoryError
        g = <_retelling.ToldSegment*> segments.buf.data
        b = <_retelling.ToldBlock*> blocks.buf.data
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
            "made_at": column(segments, &g.made_at, n, b"q", each),
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
        """The segments at the end, in the order in which they were made: (address, stream, pool id
        or None, small, expandable, blocks), of which each is (size, state, requested bytes, owner):
        states are FREE, USED, PENDING and UNMAPPED, owners an alloc event or a carried block."""
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
    """What the driver is asked for, for a request of so many bytes; of expandable segments, which
    grow from free memory at their end, at most. Raises OverflowError below 0 and above 2**64."""
    cdef Rules rules
    cdef uint64_t handle = SMALL_SEGMENT if request <= SMALL_LIMIT else large_segment
    rules.large_segment = <int64_t> large_segment
    rules.pad = rules.align = 0
    if expandable:
        return -(-int(request) // handle) * handle
    return segment_size(&rules, request)


FREE, USED = _heap.FREE_BLOCK, _heap.USED_BLOCK
PENDING, UNMAPPED = _heap.PENDING_BLOCK, _heap.UNMAPPED
