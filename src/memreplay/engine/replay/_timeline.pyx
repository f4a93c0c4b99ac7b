"""Python interface to a device's replay and its measures.

Contains no algorithms. Event indices count from the first event read; -1 is the state before that
event.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay._core cimport Tables, error_of, new_seed
from memreplay.engine.replay cimport backend as _backend
from memreplay.engine.replay cimport label as _label
from memreplay.engine.replay cimport listing as _listing
from memreplay.engine.replay cimport lives as _lives
from memreplay.engine.replay cimport moments as _moments
from memreplay.engine.replay cimport replay as _replay
from memreplay.engine.replay cimport series as _series
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.replay cimport tally as _tally
from memreplay.engine.read.column cimport Column, Owned, column, field_column, owned
from memreplay.engine.read.sparse cimport DENSE, Sparse
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.status cimport DONE, ERR_NUMBER, NEED_MORE, OK

from memreplay.engine.base.diagnosis import DAMAGED as _DAMAGED
from memreplay.errors import SnapshotError

cdef enum:
    REPLAY_CHUNK = 1 << 22     # events between checks for signals


@cython.final
cdef class Replay:
    """One device's replayed trace. Event indices count from its first event."""

    def __cinit__(self, Tables tables not None, int device):
        cdef int code
        self.tables = tables
        code = _replay.replay_init(&self.r, &tables.t, device, new_seed())
        if code == OK:
            code = NEED_MORE
        while code == NEED_MORE:
            with nogil:
                code = _replay.replay_step(&self.r, REPLAY_CHUNK)
            PyErr_CheckSignals()
        if code == ERR_NUMBER:  # without an offset, because each size is valid by itself
            raise SnapshotError(f"the sizes of device {device} add up to more than 64 bits",
                                hint=_DAMAGED)
        if code != DONE:
            raise error_of(&self.r.status)

    def __dealloc__(self):
        _replay.replay_free(&self.r)

    @property
    def device(self) -> int:
        return self.r.device

    @property
    def first_row(self) -> int:
        """Event 0's row in the columns of `tables`."""
        return self.r.first

    @property
    def events(self) -> int:
        return self.r.events

    @property
    def base(self) -> int:
        """Event 0's index in the whole trace; positive if only a range was read."""
        return self.r.base

    @property
    def first_time(self) -> int:
        """The whole trace's first time if only a range was read, else ABSENT_TIME."""
        return _tables.ABSENT_TIME if self.r.window == NULL else self.r.window.first_time

    @property
    def reaches_end(self) -> bool:
        """Whether the replay's last event is also the trace's last.

        Only then can the final state be compared with the segments.
        """
        return self.r.window == NULL or self.r.window.phase != _tables.AFTER

    @property
    def carried_bytes(self) -> int:
        return self.r.carried_bytes

    @property
    def carried_blocks(self) -> int:
        return self.r.carried.len

    @property
    def peak_bytes(self) -> int:
        return self.r.peak_bytes

    @property
    def peak_event(self) -> int:
        return self.r.best_at

    @property
    def final_bytes(self) -> int:
        return self.r.final_bytes

    @property
    def segment_requested_bytes(self) -> int:
        return self.r.segment_requested

    @property
    def allocs(self) -> int:
        return self.r.allocs

    @property
    def unmatched_frees(self) -> int:
        return self.r.unmatched_frees

    @property
    def double_allocs(self) -> int:
        return self.r.double_allocs

    @property
    def size_mismatches(self) -> int:
        return self.r.size_mismatches

    @property
    def unknown_actions(self) -> int:
        return self.r.unknown_actions

    def match(self) -> Column:
        """Return each event's counterpart (u32) or ABSENT_ID.

        An alloc's counterpart is the event that ended it; a free's counterpart is the alloc that it
        ended.
        """
        return column(self, self.r.match.data, self.r.events, b"I")

    def segment_bytes(self, measure: str) -> int:
        """Sum up the blocks of the final segments.

        `measure` is "requested", "held", "active" or "allocated".
        """
        cdef const _tables.Segment* segments = <_tables.Segment*> self.tables.t.segments.data
        cdef const _tables.Block* b = <_tables.Block*> self.tables.t.blocks.data
        cdef bint rounded = measure == "active" or measure == "allocated"
        cdef bint held = measure == "held" or measure == "allocated"
        cdef _tables.DeviceRows rows = _tables.rows_of(&self.tables.t, self.r.device)
        cdef uint64_t sum_ = 0
        cdef size_t i
        for i in range(rows.first_block, rows.end_block):
            if (b[i].state == _tables.STATE_INACTIVE
                    or segments[b[i].segment].device != self.r.device
                    or (held and _tables.is_pending(&b[i]))):
                continue
            sum_ += <uint64_t> (b[i].size if rounded else _tables.block_requested(&b[i]))
        return <int64_t> sum_

    def tally(self) -> dict:
        """Count the events read and the device's final segments and blocks.

        `actions`: (code, events) per action; `with_stack`; `times`: (first, last) or None;
        `segments`, `reserved_bytes`; `states`: (code, blocks, bytes, requested bytes of active
        blocks) per state; `expandable`: (expandable, other) segments and segment events.
        """
        cdef _tally.Tally t
        cdef int state
        with nogil:
            _tally.tally(&self.r, &t)
        return {
            "actions": [(code, t.actions[code]) for code in range(256) if t.actions[code]],
            "with_stack": t.with_stack,
            "times": (t.first_time, t.last_time) if t.timed else None,
            "segments": t.segments,
            "reserved_bytes": t.reserved,
            "expandable": (t.growing, t.fixed),
            "states": [
                (state, t.states[state].blocks, t.states[state].size, t.states[state].requested)
                for state in range(<int> _tables.STATES) if t.states[state].blocks
            ],
        }

    def snapshot_events(self) -> list:
        """Return (event, total active bytes) for each `snapshot` event."""
        cdef const uint8_t* action = <uint8_t*> self.tables.t.action.data + self.r.first
        cdef const int64_t* size = <int64_t*> self.tables.t.size.data + self.r.first
        cdef uint64_t i
        found = []
        for i in range(self.r.events):
            if action[i] == _tables.A_SNAPSHOT:
                found.append((i, size[i]))
        return found

    def times(self) -> Column | None:
        """Return each event's time (i64) or ABSENT_TIME; None if all are equal."""
        cdef const Sparse* s = &self.r.tables.time
        if s.kept != DENSE:
            return None
        return column(self.tables, <const int64_t*> s.b.data + self.r.first, self.r.events, b"q")

    def clock(self) -> Column | None:
        """Return the latest time up to each event (i64), which never decreases; None as for
        `times`.
        """
        cdef const Sparse* s = &self.r.tables.time
        cdef const int64_t* times = <const int64_t*> s.b.data + self.r.first
        cdef Owned out
        if s.kept != DENSE:
            return None
        if _series.series_never_falls(times, self.r.events):  # nearly always: no copy needed
            return column(self, times, self.r.events, b"q")
        out = owned(sizeof(int64_t))
        if buf_reserve(&out.buf, self.r.events) < 0:
            raise MemoryError
        _series.series_highest_so_far(times, self.r.events, <int64_t*> out.buf.data)
        return column(out, out.buf.data, self.r.events, b"q")

    def carried(self, field: str) -> Column:
        """Return one field of the carried-over blocks.

        address, size, stack, end (event), block (row), alloc_index (1 + index of its alloc in the
        whole trace; 0: none).
        """
        return field_column(self, &self.r.carried, self.r.carried.len, "carried", field)


@cython.final
cdef class Measure:
    """A selection of a replay's allocations, with their lifetimes and byte counts."""

    def __init__(self, *args):
        raise TypeError("use requested_measure() or a method of _measures to create a Measure")

    def __cinit__(self, Replay replay not None):
        # All measures start as requested bytes from alloc to free_completed.
        _lives.lives_init(&self.l)
        self.replay = replay
        self.owners = []
        if _lives.lives_requested(&self.l, &replay.r) != OK:
            raise MemoryError

    def __dealloc__(self):
        _lives.lives_free(&self.l)

    @property
    def start_bytes(self) -> int:
        """Bytes before the first event."""
        return _lives.lives_start(&self.l)

    @property
    def end_bytes(self) -> int:
        """Bytes after the last event."""
        return _lives.lives_end(&self.l)

    def narrow(self, least: int, to_end: bool, carried: bool, recorded: bool = False) -> Measure:
        """Limit this measure to allocations of at least `least` bytes, and return it.

        `to_end` keeps only allocations that were never freed, `carried` only carried-over blocks,
        and `recorded` all except carried-over blocks.
        """
        if _lives.lives_narrow(&self.l, least, to_end, carried, recorded) != OK:
            raise MemoryError
        return self

    def carried_held(self, event: int) -> int:
        """Return the bytes of carried-over blocks still live after `event`. Raises IndexError."""
        cdef const uint32_t* ends = <const uint32_t*> self.l.carried_end.data
        cdef const int64_t* sizes = <const int64_t*> self.l.carried_bytes.data
        cdef int64_t at = self._event(event)
        cdef uint64_t held = 0
        cdef size_t i
        for i in range(self.l.carried_end.len):
            if _lives.alive(ends[i], at):
                held += <uint64_t> sizes[i]
        return <int64_t> held

    def usage(self) -> Column:
        """Return the live bytes after each event (i64)."""
        cdef Owned out = owned(8)
        if buf_reserve(&out.buf, self.replay.r.events) < 0:
            raise MemoryError
        with nogil:
            _lives.lives_usage(&self.l, <int64_t*> out.buf.data)
        return column(out, out.buf.data, self.replay.r.events, b"q")

    def ends(self) -> Column:
        """Return the event that ended each alloc (u32, one per event), or ABSENT_ID."""
        return column(self, self.l.end, self.replay.r.events, b"I")

    def weights(self) -> Column:
        """Return the number of bytes that each alloc counts for (i64, one per event)."""
        cdef Owned out
        cdef const uint8_t* action = (<const uint8_t*> self.replay.r.tables.action.data
                                      + self.replay.r.first)
        cdef uint64_t i
        if self.l.weights == NULL:
            return column(self, self.l.size, self.replay.r.events, b"q")
        out = owned(8)
        if buf_reserve(&out.buf, self.replay.r.events) < 0:
            raise MemoryError
        for i in range(self.replay.r.events):
            (<int64_t*> out.buf.data)[i] = (_lives.bytes_of(&self.l, i)
                                            if action[i] == _tables.A_ALLOC else 0)
        return column(out, out.buf.data, self.replay.r.events, b"q")

    def weight(self, event: int) -> int:
        """Return the number of bytes that one alloc event counts for. Raises IndexError."""
        cdef int64_t at = self._event(event)
        if at < 0:
            raise IndexError(event)
        return _lives.bytes_of(&self.l, <uint64_t> at)

    def counted(self) -> Column:
        """Return whether each event is an alloc that counts (u8)."""
        cdef Owned out = owned(1)
        cdef const uint8_t* action = (<const uint8_t*> self.replay.r.tables.action.data
                                      + self.replay.r.first)
        cdef uint64_t i
        if buf_reserve(&out.buf, self.replay.r.events) < 0:
            raise MemoryError
        for i in range(self.replay.r.events):
            (<uint8_t*> out.buf.data)[i] = _lives.counts(&self.l, action, i)
        return column(out, out.buf.data, self.replay.r.events, b"B")

    def carried_ends(self) -> Column:
        """Return the event that ended each carried-over block (u32), ABSENT_ID, or NEVER."""
        return column(self, self.l.carried_end.data, self.l.carried_end.len, b"I")

    def carried_weights(self) -> Column:
        """Return the number of bytes that each carried-over block counts for (i64)."""
        return column(self, self.l.carried_bytes.data, self.l.carried_bytes.len, b"q")

    def live(self, event: int) -> tuple:
        """Return (alloc events, carried-over blocks) live after `event`, as u32 indices."""
        cdef Owned allocs = owned(4)
        cdef Owned carried = owned(4)
        cdef int64_t at = self._event(event)
        cdef int code
        with nogil:
            code = _lives.lives_at(&self.l, at, &allocs.buf, &carried.buf)
        if code != OK:
            raise MemoryError
        return (column(allocs, allocs.buf.data, allocs.buf.len, b"I"),
                column(carried, carried.buf.data, carried.buf.len, b"I"))

    cdef int64_t _event(self, event) except -2:
        if not -1 <= event < self.replay.r.events:
            raise IndexError(event)
        return event

    def largest(self, event: int, top: int) -> list:
        """Return (index, carried, bytes, end) for each allocation live after `event`, largest
        first.

        The index is an alloc event, or a carried-over block if `carried`. The end is an event or
        ABSENT_ID. `top` limits the list (0: all). Raises IndexError.
        """
        allocs, carried = self.live(event)
        return listed_rows(self, allocs, carried, top)

    def label_frame(self, stack: int, file_rank: bytes, function_rank: bytes) -> int:
        """Return the id of the frame that a stack is attributed to; ABSENT_ID for the empty stack.

        `_groups.stack_keys` describes the ranks.
        """
        cdef uint64_t n = self.replay.tables.n_strings
        if len(file_rank) != n or len(function_rank) != n:
            raise ValueError("ranks must have one byte per string")
        if not 0 <= stack < self.replay.tables.n_stacks:
            raise IndexError(stack)
        return _label.label_frame(&self.replay.r, stack, file_rank, function_rank)


cdef list listed_rows(Measure measure, Column allocs, Column carried, top):
    # Return the `top` largest allocations in a live set.
    cdef Owned out = owned(sizeof(_listing.Listed))
    cdef _listing.Listed* found
    cdef uint64_t most = top if top > 0 else 0
    cdef size_t i
    if _listing.list_largest(&measure.l, &(<Owned> allocs.owner).buf, &(<Owned> carried.owner).buf,
                             most, &out.buf) != OK:
        raise MemoryError
    found = <_listing.Listed*> out.buf.data
    return [(found[i].index, bool(found[i].carried), found[i].bytes, found[i].end)
            for i in range(out.buf.len)]


@cython.final
cdef class Moments:
    """An index that finds one measure's live set at any event.

    A query takes time proportional to its result.
    """

    cdef _moments.Moments m
    cdef readonly Measure measure

    def __cinit__(self, Measure measure not None):
        cdef int code
        self.measure = measure
        with nogil:
            code = _moments.moments_init(&self.m, &measure.l)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _moments.moments_free(&self.m)

    def live(self, event: int) -> tuple:
        """`Measure.live`."""
        cdef Owned allocs = owned(4)
        cdef Owned carried = owned(4)
        cdef int64_t at = self.measure._event(event)
        if _moments.moments_live(&self.m, at, &allocs.buf, &carried.buf) != OK:
            raise MemoryError
        return (column(allocs, allocs.buf.data, allocs.buf.len, b"I"),
                column(carried, carried.buf.data, carried.buf.len, b"I"))

    def largest(self, event: int, top: int) -> list:
        """`Measure.largest`."""
        allocs, carried = self.live(event)
        return listed_rows(self.measure, allocs, carried, top)


cdef Measure requested(Replay replay):
    return Measure.__new__(Measure, replay)


def requested_measure(Replay replay not None):
    """Measure requested bytes from alloc to free_completed."""
    return requested(replay)


def rounding(Tables tables not None, int64_t pad) -> tuple:
    """Count blocks by how they were rounded, to tell backends apart.

    Only considers blocks in use whose remainder is always split off. Returns (plain, padded).
    `plain` is the number of blocks whose size can only be the rounded request. `padded` is the
    number of blocks whose size can only be the request plus `pad` bytes, rounded.
    """
    cdef uint64_t plain, padded
    if not 0 <= pad <= 512:
        raise ValueError("pad must be 0 to 512 bytes")
    with nogil:
        _backend.count_rounding(&tables.t, pad, &plain, &padded)
    return plain, padded


def names_file(Tables tables not None, bytes part not None) -> bool:
    """Whether any frame's file name contains `part`, which must not be empty."""
    if not part:
        raise ValueError("part must not be empty")
    return _backend.names_file(&tables.t, <const uint8_t*> <const char*> part, len(part))
