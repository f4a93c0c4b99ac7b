"""The façade over what measures other than requested bytes need: holding, blocks, reserved memory.

No algorithm is in here. It is loaded when one of these is asked for. Event indices count from the
first event that was read; -1 is the start.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay._core cimport error_of, new_seed
from memreplay.engine.replay cimport arena as _arena
from memreplay.engine.replay cimport classes as _classes
from memreplay.engine.replay cimport held as _held
from memreplay.engine.replay cimport lives as _lives
from memreplay.engine.replay cimport reservations as _reservations
from memreplay.engine.replay cimport reserve as _reserve
from memreplay.engine.replay cimport series as _series
from memreplay.engine.replay cimport sizes as _sizes
from memreplay.engine.replay cimport synthetic as _synthetic
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.slim cimport Slim, slim_at
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._timeline cimport Measure, Replay, requested

NEVER = _lives.NEVER
UNKNOWN_CLASS = _classes.UNKNOWN_CLASS
DIVISION_STEPS = _sizes.DIVISION_STEPS


@cython.final
cdef class Holding:
    """What the program held: each allocation until its free was requested."""

    def __cinit__(self, Replay replay not None):
        cdef int code
        cdef uint64_t seed = new_seed()
        self.replay = replay
        with nogil:
            code = _held.held_init(&self.h, &replay.r, seed)
        if code != OK:
            raise error_of(&self.h.status)

    def __dealloc__(self):
        _held.held_free(&self.h)

    @property
    def requests(self) -> int:
        """How many free_requested events there are."""
        return self.h.requests

    @property
    def unrequested(self) -> int:
        """Allocations that a free_completed ended without a request."""
        return self.h.unrequested

    @property
    def unmatched(self) -> int:
        """Requests for what nobody held."""
        return self.h.unmatched

    @property
    def presumed(self) -> int:
        """Carried blocks that are taken to have been let go before the first event, as
        their free completes without a request."""
        return self.h.presumed

    @property
    def pending(self) -> int:
        """Allocations whose free was requested and did not complete."""
        return self.h.pending

    def measure(self) -> Measure:
        """Alloc to free_requested, in requested bytes."""
        cdef Measure m = requested(self.replay)
        _lives.lives_hold(&m.l, <const uint32_t*> self.h.end.data,
                          <const uint32_t*> self.h.carried_end.data)
        m.owners.append(self)
        return m


@cython.final
cdef class Reserved:
    """The segments over time. Sizes are bytes."""

    def __cinit__(self, Replay replay not None):
        cdef int code
        self.replay = replay
        with nogil:
            code = _reserve.reserve_init(&self.v, &replay.r)
        if code != OK:
            raise error_of(&self.v.status)

    def __dealloc__(self):
        _reserve.reserve_free(&self.v)

    @property
    def start_bytes(self) -> int:
        return self.v.start_bytes

    @property
    def end_bytes(self) -> int:
        """After the last event."""
        return self.v.end_bytes

    @property
    def final_bytes(self) -> int:
        """Of the segments in the file."""
        return self.v.final_bytes

    @property
    def misfits(self) -> int:
        """Bytes of addresses about which the trace and the final segments disagree."""
        return self.v.misfits

    @property
    def odd(self) -> int:
        """Segment events that cannot be."""
        return self.v.odd

    def usage(self) -> Column:
        """Reserved bytes after each event (i64)."""
        cdef Owned out = owned(8)
        if buf_reserve(&out.buf, self.replay.r.events) < 0:
            raise MemoryError
        with nogil:
            _reserve.reserve_usage(&self.v, &self.replay.r, <int64_t*> out.buf.data)
        return column(out, out.buf.data, self.replay.r.events, b"q")

    def events(self) -> Column:
        """The segment events, by index (u32)."""
        return column(self, self.v.events.data, self.v.events.len, b"I")

    def untold(self) -> tuple:
        """(blocks, recorded blocks, segments, recorded segments): carried blocks that are live at
        the end and final segments that no event made, and how many of them have a stack. Only a
        recording gives them one, so their events are missing. Expandable segments don't count."""
        cdef uint64_t seed = new_seed()
        cdef _reserve.Untold found
        cdef int code
        with nogil:
            code = _reserve.reserve_untold(&self.v, &self.replay.r, seed, &found)
        if code != OK:
            raise MemoryError
        return found.blocks, found.recorded_blocks, found.segments, found.recorded_segments

    def pieces(self, event: int) -> tuple:
        """What is reserved after an event (-1: at the start), a row each, by address: start (u64),
        end (u64), and what brought it (u32): one of `regions`, or, behind those, of `events`."""
        cdef Owned out = owned(sizeof(_reserve.Piece))
        cdef _reserve.Piece piece
        cdef char* at = <char*> &piece
        cdef int64_t last = event
        cdef int code
        with nogil:
            code = _reserve.reserve_pieces(&self.v, &self.replay.r, last, &out.buf)
        if code != OK:
            raise MemoryError
        return tuple(
            column(out, out.buf.data + <size_t> offset if out.buf.data != NULL else NULL,
                   out.buf.len, fmt, sizeof(_reserve.Piece))
            for offset, fmt in (
                (<char*> &piece.start - at, b"Q"),
                (<char*> &piece.end - at, b"Q"),
                (<char*> &piece.source - at, b"I"),
            )
        )

    def reservations(self) -> tuple:
        """From when to when addresses were reserved, a row each, in no order: start (u64), end
        (u64), the event that brought them (i64; -1: the start), the one that took them back (i64;
        the number of events where none did), and their source (u32) as in `pieces`."""
        cdef Owned out = owned(sizeof(_reservations.Reservation))
        cdef _reservations.Reservation row
        cdef char* at = <char*> &row
        cdef int code
        with nogil:
            code = _reservations.reservations_find(&self.v, &self.replay.r, &out.buf)
        if code != OK:
            raise MemoryError
        return tuple(
            column(out, out.buf.data + <size_t> offset if out.buf.data != NULL else NULL,
                   out.buf.len, fmt, sizeof(_reservations.Reservation))
            for offset, fmt in (
                (<char*> &row.start - at, b"Q"),
                (<char*> &row.end - at, b"Q"),
                (<char*> &row.begin - at, b"q"),
                (<char*> &row.stop - at, b"q"),
                (<char*> &row.source - at, b"I"),
            )
        )

    def regions(self) -> list:
        """(address, bytes, stream, pool id or None, small, expandable) of what was reserved at the
        start."""
        cdef _reserve.Region* g = <_reserve.Region*> self.v.regions.data
        cdef size_t i
        return [
            (g[i].start, g[i].end - g[i].start, g[i].stream,
             None if g[i].pool == NONE32 else g[i].pool, bool(g[i].small), bool(g[i].expandable))
            for i in range(self.v.regions.len)
        ]


@cython.final
cdef class Blocks:
    """The allocator's blocks, replayed: the size of each allocation's block, and its pool."""

    def __cinit__(self, Reserved reserved not None, divisions, int64_t max_split, bint expandable,
                  int64_t pad=0, int64_t align=0):
        # divisions: roundup_power2_divisions for sizes from 1 MiB on, a number a power of two.
        # pad, align: what the allocator adds to each request, and where large blocks begin.
        cdef _sizes.Rules rules
        cdef int code, i
        cdef uint64_t seed = new_seed()
        self.reserved = reserved
        # Checked by hand: the compiler's directives leave bounds checks out.
        if len(divisions) != _sizes.DIVISION_STEPS:
            raise ValueError("divisions need a number a power of two")
        for i in range(_sizes.DIVISION_STEPS):
            rules.divisions[i] = divisions[i]
        rules.max_split = max_split
        rules.max_non_split = _reserve.LARGE_HANDLE
        rules.large_segment = _reserve.LARGE_HANDLE
        rules.expandable = expandable
        if not 0 <= pad <= _sizes.MIN_BLOCK or not 0 <= align <= _sizes.ROUND_LARGE:
            raise ValueError("padding and alignment are less than a block and a page")
        rules.pad = pad
        rules.align = align
        with nogil:
            code = _arena.arena_init(&self.a, &reserved.replay.r, &reserved.v, &rules, seed)
        if code != OK:
            raise error_of(&self.a.status)

    def __dealloc__(self):
        _arena.arena_free(&self.a)

    @property
    def proven(self) -> int:
        """Blocks whose size follows from the addresses in the trace."""
        return self.a.proven

    @property
    def assumed(self) -> int:
        """Blocks whose size is taken to be their rounded request."""
        return self.a.assumed

    @property
    def misplaced(self) -> int:
        """Allocations and segment events that do not fit what was there."""
        return self.a.misplaced

    @property
    def outside(self) -> int:
        """Of `misplaced`, those that tell of segment events that are missing."""
        return self.a.outside

    @property
    def passed(self) -> int:
        """Allocations that passed a segment by which should have been there, and would have been
        taken."""
        return self.a.idle.passed

    @property
    def fitting(self) -> int:
        """Segments of the start with nothing in them whose first allocation is one that would have
        made them."""
        return self.a.idle.fitting

    @property
    def fitting_recorded(self) -> int:
        """Of these, segments that were made while a recording was on."""
        return self.a.idle.recorded

    @property
    def end_blocks(self) -> int:
        """Blocks in the final segments."""
        return self.a.end_blocks

    @property
    def end_misfits(self) -> int:
        """Blocks at the end that differ from those of the final segments."""
        return self.a.end_misfits

    @property
    def end_strangers(self) -> int:
        """Of these, blocks that are in use in the replay alone, or in the segments alone."""
        return self.a.end_strangers

    @property
    def synthetic(self) -> int:
        """Allocs and frees by which a CUDA graph tree set a pool back to a checkpoint."""
        return _synthetic.count_synthetic(&self.reserved.replay.r, &self.a.synthetic)

    def pools(self) -> Column:
        """u32 an event: of an alloc or a segment event its pool (for `Tables.pool`), or
        ABSENT_ID."""
        return wide(&self.a.pool)

    def origins(self) -> list:
        """(pool or None, stream) of what blocks were cut from: the segments, or parts of them."""
        cdef _arena.Origin* o = <_arena.Origin*> self.a.origins.data
        cdef size_t i
        return [(None if o[i].pool == NONE32 else o[i].pool, o[i].stream)
                for i in range(self.a.origins.len)]

    def carried_origins(self) -> Column:
        """u32 a carried block: what of `origins` it was cut from, or ABSENT_ID."""
        return column(self, self.a.carried_origin.data, self.a.carried_origin.len, b"I")

    def reserved_of(self, only) -> tuple:
        """(start, after each event (i64)) of the reserved bytes in all of `only`, up to two pairs
        (Classes, class)."""
        cdef Owned out = owned(8)
        cdef _classes.Only wanted[2]
        cdef int n = take_only(self, only, wanted)
        cdef size_t events = self.reserved.replay.r.events
        cdef int64_t start
        if buf_reserve(&out.buf, events) < 0:
            raise MemoryError
        with nogil:
            start = _classes.reserved_of(&self.a, wanted, n, <int64_t*> out.buf.data)
        return start, column(out, out.buf.data, events, b"q")

    def weigh(self, Measure measure not None) -> Measure:
        """The same measure in bytes of blocks. Changes `measure`, which is of the same replay."""
        check_replay(measure, self)
        measure.owners.append(self)  # first: it may fail
        _lives.lives_weigh(&measure.l, &self.a.weights,
                           <const int64_t*> self.a.carried_bytes.data)
        return measure


@cython.final
cdef class Classes:
    """Allocations and segments by "pool" or "stream": classes count from 0, which is unknown."""

    def __cinit__(self, Blocks blocks not None, str by):
        cdef int code
        cdef uint64_t seed = new_seed()
        _classes.classes_init(&self.c)
        self.blocks = blocks
        self.by = by
        if by == "pool":
            code = _classes.classes_of_pools(&self.c, &blocks.a)
        elif by == "stream":
            code = _classes.classes_of_streams(&self.c, &blocks.a, seed)
        else:
            raise ValueError(by)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _classes.classes_free(&self.c)

    def keys(self) -> list:
        """Of each class its pool (for `Tables.pool`) or stream; None for class 0."""
        cdef uint64_t* keys = <uint64_t*> self.c.keys.data
        return [None, *(keys[i] for i in range(1, self.c.keys.len))]

    def of_events(self) -> Column:
        """u32 an event: the class of an alloc or segment event."""
        return wide(&self.c.of_event)

    def of_carried(self) -> Column:
        """u32 a carried block: its class."""
        return column(self, self.c.of_carried.data, self.c.of_carried.len, b"I")

    def keep(self, Measure measure not None, uint32_t wanted) -> Measure:
        """The same measure of one class alone. Changes `measure`, which is of the same replay."""
        check_replay(measure, self.blocks)
        if _lives.lives_keep(&measure.l, &self.c.of_event,
                             <const uint32_t*> self.c.of_carried.data, wanted) != OK:
            raise MemoryError
        return measure

    def sums(self, Measure measure not None, event: int) -> list:
        """Of each class (start, peak, peak event, bytes and allocations after `event`, final,
        allocations in all)."""
        cdef Owned out = owned(sizeof(_classes.ClassSum))
        cdef int64_t at = event
        cdef int code
        check_replay(measure, self.blocks)
        with nogil:
            code = _classes.sum_lives(&self.c, &measure.l, at, &out.buf)
        if code != OK:
            raise MemoryError
        return self._rows(out)

    def listed_sums(
        self, Measure measure not None, Column allocs not None, Column carried not None
    ) -> list:
        """Of each class (bytes, allocations) of a live set, which is what `Measure.live` lists."""
        cdef Owned out = owned(sizeof(_classes.ClassSum))
        cdef int code
        check_replay(measure, self.blocks)
        check_rows(allocs, measure.replay.r.events)
        check_rows(carried, measure.replay.r.carried.len)
        with nogil:
            code = _classes.sum_listed(
                &self.c, &measure.l, <const uint32_t*> allocs.data, <uint64_t> allocs.shape[0],
                <const uint32_t*> carried.data, <uint64_t> carried.shape[0], &out.buf)
        if code != OK:
            raise MemoryError
        return [(row[3], row[4]) for row in self._rows(out)]

    def reserved_sums(self, event: int, only=()) -> list:
        """The same of reserved memory; of what is in all of `only`, up to two pairs (Classes,
        class), alone."""
        cdef Owned out = owned(sizeof(_classes.ClassSum))
        cdef _classes.Only wanted[2]
        cdef int n = take_only(self.blocks, only, wanted)
        cdef int64_t at = event
        cdef int code
        with nogil:
            code = _classes.sum_reserved(&self.c, &self.blocks.a, wanted, n, at, &out.buf)
        if code != OK:
            raise MemoryError
        return self._rows(out)

    cdef list _rows(self, Owned out):
        cdef _classes.ClassSum* s = <_classes.ClassSum*> out.buf.data
        return [(s[i].start, s[i].peak, s[i].peak_at, s[i].then, s[i].live_then, s[i].final,
                 s[i].blocks)
                for i in range(out.buf.len)]


cdef int check_replay(Measure measure, Blocks blocks) except -1:
    # Their columns have a number an event of their own replay.
    if measure.replay is not blocks.reserved.replay:
        raise ValueError("a measure of another replay")
    return 0


cdef Column wide(const Slim* numbers):
    # u32 an item.
    cdef Owned out = owned(4)
    cdef uint64_t n = numbers.items.len
    cdef uint64_t i
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    for i in range(n):
        (<uint32_t*> out.buf.data)[i] = slim_at(numbers, i)
    return column(out, out.buf.data, n, b"I")


cdef int check_rows(Column rows, uint64_t n) except -1:
    # What `Measure.live` hands out: u32, each below `n`.
    cdef const uint32_t* row = <const uint32_t*> rows.data
    cdef Py_ssize_t i
    if rows.fmt != b"I" or rows.strides[0] != 4:
        raise ValueError("a live set is of u32")
    for i in range(rows.shape[0]):
        if row[i] >= n:
            raise IndexError(row[i])
    return 0


cdef int take_only(Blocks blocks, only, _classes.Only* wanted) except -1:
    # How many there are: at most two.
    cdef Classes classes
    cdef int n = 0
    if len(only) > 2:
        raise ValueError("only one pool and one stream")
    for classes, number in only:
        if classes is None or classes.blocks is not blocks:
            raise ValueError("classes of another replay")
        wanted[n].classes = &classes.c
        wanted[n].wanted = number
        n += 1
    return n


cdef int check_series(Column series) except -1:
    # What usage() and times() hand out: one i64 an event, without gaps.
    if series.fmt != b"q" or series.strides[0] != 8:
        raise ValueError("a series has an i64 an event")
    return 0


def extremes(Column usage not None, int64_t start, Column times=None) -> tuple:
    """(peak, its event, minimum, its event, end, mean weighted by time or None) of a series (i64).

    `times` are i64 an event, ABSENT_TIME where there is none.
    """
    cdef _series.Extremes e
    cdef const int64_t* at = NULL
    check_series(usage)
    if times is not None:
        check_series(times)
        if times.shape[0] < usage.shape[0]:
            raise ValueError("times need one number an event")
        at = <const int64_t*> times.data
    _series.series_extremes(<const int64_t*> usage.data, <uint64_t> usage.shape[0], start, at,
                            _tables.ABSENT_TIME, &e)
    return (e.peak, e.peak_at, e.minimum, e.minimum_at, e.end, e.mean if e.timed else None)


def maxima(Column usage not None, int64_t start, uint64_t drop, most: int) -> list:
    """(bytes, event) of the highest maxima that falls of `drop` bytes or more lie between."""
    cdef Owned out = owned(sizeof(_series.Maximum))
    cdef _series.Maximum* m
    cdef size_t i, shown
    check_series(usage)
    if _series.series_maxima(<const int64_t*> usage.data, <uint64_t> usage.shape[0], start,
                             max(drop, 1), &out.buf) != OK:
        raise MemoryError
    m = <_series.Maximum*> out.buf.data
    shown = min(max(most, 0), out.buf.len)
    return [(m[i].bytes, m[i].at) for i in range(shown)]


def highest(Column usage not None, first: int, last: int) -> tuple:
    """(bytes, event) of the highest value from event `first` to `last`, the first of equal ones."""
    cdef const int64_t* values = <const int64_t*> usage.data
    cdef Py_ssize_t i, best
    check_series(usage)
    if not 0 <= first <= last < usage.shape[0]:
        raise IndexError(f"no events {first} to {last}")
    best = first
    for i in range(first, <Py_ssize_t> last + 1):
        if values[i] > values[best]:
            best = i
    return values[best], best


def buckets(Column usage not None, int64_t start, parts: int, Column clock=None,
            int64_t origin=0, whole: int = 0) -> tuple:
    """A series cut into `parts`: (first event, events, minimum, maximum, event of it), a Column
    each.

    By event, or by time: of the `whole` microseconds from `origin` on; `clock` is an i64 an event
    that never falls. A bucket of time counts what it begins with, too; one without events has that
    alone, and as its event the last one before it. By event there are at most as many as events.
    """
    cdef Owned out = owned(sizeof(_series.Bucket))
    cdef uint64_t events = <uint64_t> usage.shape[0]
    cdef const int64_t* times = NULL
    cdef uint64_t length = events
    cdef uint64_t n
    cdef char* at
    check_series(usage)
    if clock is not None:
        check_series(clock)
        if clock.shape[0] < usage.shape[0]:
            raise ValueError("a clock needs one number an event")
        times = <const int64_t*> clock.data
        length = whole
    if not 1 <= parts < 1 << 31:
        raise ValueError("1 to 2**31 - 1 parts")
    n = max(min(<uint64_t> parts, length), 1)
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    with nogil:
        _series.series_buckets(<const int64_t*> usage.data, events, start, times, origin,
                               max(length, 1), n, <_series.Bucket*> out.buf.data)
    at = out.buf.data
    return (column(out, at + offset_of(0), n, b"q", sizeof(_series.Bucket)),
            column(out, at + offset_of(1), n, b"Q", sizeof(_series.Bucket)),
            column(out, at + offset_of(2), n, b"q", sizeof(_series.Bucket)),
            column(out, at + offset_of(3), n, b"q", sizeof(_series.Bucket)),
            column(out, at + offset_of(4), n, b"q", sizeof(_series.Bucket)))


def ranges(Column usage not None, int64_t start, const int64_t[::1] bounds not None) -> tuple:
    """(minimum, maximum, event of it) of many ranges of a series, a Column each.

    `bounds` are i64, one more than there are ranges, from 0 to the number of events, and never
    fall: a range has the events from its bound up to the next one. One without events has the value
    after the event before it (at -1: the start). Raises ValueError for other bounds.
    """
    cdef Owned out = owned(sizeof(_series.Range))
    cdef uint64_t events = <uint64_t> usage.shape[0]
    cdef uint64_t n
    cdef int64_t wrong
    cdef char* at
    cdef _series.Range* found
    check_series(usage)
    if bounds.shape[0] == 0:
        raise ValueError("no bounds: one more than there are ranges")
    n = <uint64_t> bounds.shape[0] - 1
    if buf_reserve(&out.buf, max(n, 1)) < 0:
        raise MemoryError
    found = <_series.Range*> out.buf.data
    with nogil:
        wrong = _series.series_ranges(<const int64_t*> usage.data, events, start, &bounds[0], n,
                                      found)
    if wrong >= 0:
        raise ValueError(f"bound {wrong} falls, or is not from 0 to {events}")
    at = <char*> found
    return (column(out, at, n, b"q", sizeof(_series.Range)),
            column(out, at + 8, n, b"q", sizeof(_series.Range)),
            column(out, at + 16, n, b"q", sizeof(_series.Range)))


cdef size_t offset_of(int field) noexcept:
    # Of a Bucket, in the order of `buckets`.
    cdef _series.Bucket b
    cdef char* at = <char*> &b
    if field == 0:
        return <char*> &b.first - at
    if field == 1:
        return <char*> &b.events - at
    if field == 2:
        return <char*> &b.low - at
    return <char*> &b.high - at if field == 3 else <char*> &b.high_at - at
