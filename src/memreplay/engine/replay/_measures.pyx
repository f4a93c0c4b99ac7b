"""Python interface to held, block and reserved memory: all measures except requested bytes.

Contains no algorithms; loaded on first use. Event indices count from the first event read; -1 is
the state before that event.
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
    """The memory that the program holds, that is, each allocation until its free is requested."""

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
        """Number of free_requested events."""
        return self.h.requests

    @property
    def unrequested(self) -> int:
        """Allocations that a free_completed ended without a request."""
        return self.h.unrequested

    @property
    def unmatched(self) -> int:
        """Requests to free memory that the program didn't hold."""
        return self.h.unmatched

    @property
    def presumed(self) -> int:
        """Carried-over blocks that the program presumably freed before the first event.

        The free of such a block completes without a request.
        """
        return self.h.presumed

    @property
    def pending(self) -> int:
        """Allocations whose free was requested but didn't complete."""
        return self.h.pending

    def measure(self) -> Measure:
        """Measure requested bytes from alloc to free_requested."""
        cdef Measure m = requested(self.replay)
        _lives.lives_hold(&m.l, <const uint32_t*> self.h.end.data,
                          <const uint32_t*> self.h.carried_end.data)
        m.owners.append(self)
        return m


@cython.final
cdef class Reserved:
    """The allocator's segments over time. Sizes are in bytes."""

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
        """Reserved bytes after the last event."""
        return self.v.end_bytes

    @property
    def final_bytes(self) -> int:
        """Reserved bytes according to the file's final segments."""
        return self.v.final_bytes

    @property
    def misfits(self) -> int:
        """Number of bytes on which the trace and the final segments disagree."""
        return self.v.misfits

    @property
    def impossible_events(self) -> int:
        """Number of impossible segment events."""
        return self.v.impossible_events

    def usage(self) -> Column:
        """Return the reserved bytes after each event (i64)."""
        cdef Owned out = owned(8)
        if buf_reserve(&out.buf, self.replay.r.events) < 0:
            raise MemoryError
        with nogil:
            _reserve.reserve_usage(&self.v, &self.replay.r, <int64_t*> out.buf.data)
        return column(out, out.buf.data, self.replay.r.events, b"q")

    def events(self) -> Column:
        """Return the indices of the segment events (u32)."""
        return column(self, self.v.events.data, self.v.events.len, b"I")

    def unexplained(self) -> tuple:
        """Count blocks and segments that no recorded event created.

        Returns (blocks, recorded blocks, segments, recorded segments, bytes, recorded bytes). These
        count carried-over blocks that are live at the end, final segments without an event, and the
        bytes that the blocks requested. The recorded blocks and segments are those with a stack.
        Only a recording sets stacks, so their events are missing. Expandable segments aren't
        counted.
        """
        cdef uint64_t seed = new_seed()
        cdef _reserve.Unexplained found
        cdef int code
        with nogil:
            code = _reserve.reserve_unexplained(&self.v, &self.replay.r, seed, &found)
        if code != OK:
            raise MemoryError
        return (found.blocks, found.recorded_blocks, found.segments, found.recorded_segments,
                found.bytes, found.recorded_bytes)

    def ranges_at(self, event: int) -> tuple:
        """Return the reserved ranges after an event (-1: before the first), sorted by address.

        Columns: start (u64), end (u64), source (u32). A source is an index into a list of
        `regions`, then `events`.
        """
        cdef Owned out = owned(sizeof(_reserve.ReservedRange))
        cdef _reserve.ReservedRange piece
        cdef char* at = <char*> &piece
        cdef int64_t last = event
        cdef int code
        with nogil:
            code = _reserve.reserve_ranges(&self.v, &self.replay.r, last, &out.buf)
        if code != OK:
            raise MemoryError
        return tuple(
            column(out, out.buf.data + <size_t> offset if out.buf.data != NULL else NULL,
                   out.buf.len, fmt, sizeof(_reserve.ReservedRange))
            for offset, fmt in (
                (<char*> &piece.start - at, b"Q"),
                (<char*> &piece.end - at, b"Q"),
                (<char*> &piece.source - at, b"I"),
            )
        )

    def reservations(self) -> tuple:
        """Return when each address range was reserved, unsorted.

        Columns: start (u64), end (u64), event that reserved it (i64; -1: before the first), event
        that released it (i64; the number of events if none), source (u32) as in `ranges_at`.
        """
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
        """Return the ranges reserved before the first event.

        Each is (address, bytes, stream, pool id or None, small, expandable).
        """
        cdef _reserve.Region* g = <_reserve.Region*> self.v.regions.data
        cdef size_t i
        return [
            (g[i].start, g[i].end - g[i].start, g[i].stream,
             None if g[i].pool == NONE32 else g[i].pool, bool(g[i].small), bool(g[i].expandable))
            for i in range(self.v.regions.len)
        ]


@cython.final
cdef class Blocks:
    """The replayed allocator blocks: each allocation's block size and pool."""

    def __cinit__(self, Reserved reserved not None, divisions, int64_t max_split, bint expandable,
                  int64_t pad=0, int64_t align=0):
        # divisions: roundup_power2_divisions for sizes from 1 MiB on, one per power of two. pad:
        # bytes that the allocator adds to each request. align: alignment of large blocks.
        cdef _sizes.Rules rules
        cdef int code, i
        cdef uint64_t seed = new_seed()
        self.reserved = reserved
        # Check explicitly, because compiler directives turn bounds checks off.
        if len(divisions) != _sizes.DIVISION_STEPS:
            raise ValueError("divisions needs one number per power of two")
        for i in range(_sizes.DIVISION_STEPS):
            rules.divisions[i] = divisions[i]
        rules.max_split = max_split
        rules.max_non_split = _reserve.LARGE_HANDLE
        rules.large_segment = _reserve.LARGE_HANDLE
        rules.expandable = expandable
        if not 0 <= pad <= _sizes.MIN_BLOCK or not 0 <= align <= _sizes.ROUND_LARGE:
            raise ValueError("pad must be at most a block, align at most a page")
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
        """Number of blocks whose size addresses in the trace prove."""
        return self.a.proven

    @property
    def assumed(self) -> int:
        """Number of blocks whose size is assumed to be the rounded request."""
        return self.a.assumed

    @property
    def misplaced(self) -> int:
        """Number of allocations and segment events that contradict the replayed blocks."""
        return self.a.misplaced

    @property
    def outside(self) -> int:
        """Number of `misplaced` allocations and events that indicate missing segment events."""
        return self.a.outside

    @property
    def passed_over(self) -> int:
        """Number of allocations that should have used a free segment but didn't."""
        return self.a.idle.passed_over

    @property
    def fitting(self) -> int:
        """Number of initially empty segments whose size is exactly what their first allocation
        would have required.
        """
        return self.a.idle.fitting

    @property
    def fitting_recorded(self) -> int:
        """Number of `fitting` segments that were created while recording."""
        return self.a.idle.recorded

    @property
    def end_blocks(self) -> int:
        """Number of blocks in the final segments."""
        return self.a.end_blocks

    @property
    def end_misfits(self) -> int:
        """Number of blocks at the end that differ from the final segments."""
        return self.a.end_misfits

    @property
    def end_strangers(self) -> int:
        """Number of `end_misfits` that are in use either in the replay or in the final segments,
        but not in both.
        """
        return self.a.end_strangers

    @property
    def synthetic(self) -> int:
        """Number of allocs and frees that a CUDA graph tree made to restore a pool's checkpoint."""
        return _synthetic.count_synthetic(&self.reserved.replay.r, &self.a.synthetic)

    def pools(self) -> Column:
        """Return the pool of each alloc or segment event (u32, for `Tables.pool`), or ABSENT_ID."""
        return wide(&self.a.pool)

    def origins(self) -> list:
        """Return (pool or None, stream) for each segment or part of a segment from which blocks
        were cut.
        """
        cdef _arena.Origin* o = <_arena.Origin*> self.a.origins.data
        cdef size_t i
        return [(None if o[i].pool == NONE32 else o[i].pool, o[i].stream)
                for i in range(self.a.origins.len)]

    def carried_origins(self) -> Column:
        """Return the index into `origins` of each carried-over block (u32), or ABSENT_ID."""
        return column(self, self.a.carried_origin.data, self.a.carried_origin.len, b"I")

    def origins_of_whole_blocks(self, int64_t smallest) -> set:
        """Return an index into `origins` (ABSENT_ID if unknown) for each carried-over block that is
        gone at the end, if its request was a multiple of `smallest`.
        """
        cdef const _tables.Carried* carried
        cdef const uint32_t* origin = <const uint32_t*> self.a.carried_origin.data
        cdef size_t known = self.a.origins.len
        cdef bytearray seen = bytearray(known + 1)
        cdef unsigned char* at = seen
        cdef size_t i
        carried = <const _tables.Carried*> self.reserved.replay.r.carried.data
        with nogil:
            for i in range(self.a.carried_origin.len):
                if carried[i].block == NONE32 and carried[i].size % smallest == 0:
                    at[min(<size_t> origin[i], known)] = 1
        found = {i for i in range(known) if at[i]}
        if at[known]:
            found.add(NONE32)
        return found

    def reserved_of(self, only) -> tuple:
        """Return the reserved bytes that match all of `only`.

        Returns (bytes at the start, bytes after each event (i64)). `only` has up to two pairs
        (Classes, class).
        """
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
        """Make `measure` count block bytes, and return it. Both must be from the same replay."""
        check_replay(measure, self)
        measure.owners.append(self)  # first, because it may fail
        _lives.lives_weigh(&measure.l, &self.a.weights,
                           <const int64_t*> self.a.carried_bytes.data)
        return measure


@cython.final
cdef class Classes:
    """Group allocations and segments by "pool" or "stream".

    Classes are numbered from 0, which means unknown.
    """

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
        """Return each class's pool (for `Tables.pool`) or stream; None for class 0."""
        cdef uint64_t* keys = <uint64_t*> self.c.keys.data
        return [None, *(keys[i] for i in range(1, self.c.keys.len))]

    def of_events(self) -> Column:
        """Return the class of each alloc or segment event (u32)."""
        return wide(&self.c.of_event)

    def of_carried(self) -> Column:
        """Return the class of each carried-over block (u32)."""
        return column(self, self.c.of_carried.data, self.c.of_carried.len, b"I")

    def keep(self, Measure measure not None, uint32_t wanted) -> Measure:
        """Limit `measure` to one class, and return it. Both must be from the same replay."""
        check_replay(measure, self.blocks)
        if _lives.lives_keep(&measure.l, &self.c.of_event,
                             <const uint32_t*> self.c.of_carried.data, wanted) != OK:
            raise MemoryError
        return measure

    def sums(self, Measure measure not None, event: int) -> list:
        """Sum up the measure for each class.

        Returns (bytes at the start, peak, peak event, bytes after `event`, allocations after
        `event`, final bytes, total allocations) for each class.
        """
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
        """Return (bytes, allocations) for each class in a live set that `Measure.live` returned."""
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
        """Like `sums`, but for reserved memory that matches all of `only`.

        `only` has up to two pairs (Classes, class).
        """
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
    # A measure's columns have one item per event in its own replay.
    if measure.replay is not blocks.reserved.replay:
        raise ValueError("the measure belongs to another replay")
    return 0


cdef Column wide(const Slim* numbers):
    # Widen to u32.
    cdef Owned out = owned(4)
    cdef uint64_t n = numbers.items.len
    cdef uint64_t i
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    for i in range(n):
        (<uint32_t*> out.buf.data)[i] = slim_at(numbers, i)
    return column(out, out.buf.data, n, b"I")


cdef int check_rows(Column rows, uint64_t n) except -1:
    # Check rows from `Measure.live`, which must be u32 and below `n`.
    cdef const uint32_t* row = <const uint32_t*> rows.data
    cdef Py_ssize_t i
    if rows.fmt != b"I" or rows.strides[0] != 4:
        raise ValueError("a live set must be u32")
    for i in range(rows.shape[0]):
        if row[i] >= n:
            raise IndexError(row[i])
    return 0


cdef int take_only(Blocks blocks, only, _classes.Only* wanted) except -1:
    # Fill `wanted` and return the number of entries, at most two.
    cdef Classes classes
    cdef int n = 0
    if len(only) > 2:
        raise ValueError("at most one pool and one stream")
    for classes, number in only:
        if classes is None or classes.blocks is not blocks:
            raise ValueError("the classes belong to another replay")
        wanted[n].classes = &classes.c
        wanted[n].wanted = number
        n += 1
    return n


cdef int check_series(Column series) except -1:
    # Check that a series is contiguous i64, like those from usage() and times().
    if series.fmt != b"q" or series.strides[0] != 8:
        raise ValueError("a series must have one i64 per event")
    return 0


def extremes(Column usage not None, int64_t start, Column times=None) -> tuple:
    """Return a series' (peak, event of the peak, minimum, event of the minimum, end, time-weighted
    mean or None).

    `usage` and `times` are i64 per event; ABSENT_TIME marks events without a time.
    """
    cdef _series.Extremes e
    cdef const int64_t* at = NULL
    check_series(usage)
    if times is not None:
        check_series(times)
        if times.shape[0] < usage.shape[0]:
            raise ValueError("times must have one number per event")
        at = <const int64_t*> times.data
    _series.series_extremes(<const int64_t*> usage.data, <uint64_t> usage.shape[0], start, at,
                            _tables.ABSENT_TIME, &e)
    return (e.peak, e.peak_at, e.minimum, e.minimum_at, e.end, e.mean if e.timed else None)


def maxima(Column usage not None, int64_t start, uint64_t drop, most: int) -> list:
    """Return (bytes, event) for the highest maxima that are separated by falls of at least `drop`
    bytes.
    """
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
    """Return (bytes, event) for the highest value from event `first` to `last`, the first one on a
    tie.
    """
    cdef const int64_t* values = <const int64_t*> usage.data
    cdef Py_ssize_t i, best
    check_series(usage)
    if not 0 <= first <= last < usage.shape[0]:
        raise IndexError(f"events {first} to {last} don't exist")
    best = first
    for i in range(first, <Py_ssize_t> last + 1):
        if values[i] > values[best]:
            best = i
    return values[best], best


def buckets(Column usage not None, int64_t start, parts: int, Column clock=None,
            int64_t origin=0, whole: int = 0) -> tuple:
    """Cut a series into `parts` buckets and return columns: first event, events, minimum, maximum,
    event of the maximum.

    Buckets have equal numbers of events. If `clock` is given (an i64 per event that never
    decreases), they have equal durations instead, over `whole` microseconds from `origin` on. A
    time bucket includes the value at its start; without events, that's the only value, and its
    event is the last event before the bucket. Without `clock`, there are at most as many buckets as
    events.
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
            raise ValueError("clock must have one number per event")
        times = <const int64_t*> clock.data
        length = whole
    if not 1 <= parts < 1 << 31:
        raise ValueError("parts must be 1 to 2**31 - 1")
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
    """Return columns for many ranges of a series: minimum, maximum, event of the maximum.

    `bounds` are i64 that never decrease, from 0 to the number of events; there is one more bound
    than ranges. A range has the events from its bound up to the next bound. A range without events
    has the value after the previous event (-1: the start). Raises ValueError for other bounds.
    """
    cdef Owned out = owned(sizeof(_series.Range))
    cdef uint64_t events = <uint64_t> usage.shape[0]
    cdef uint64_t n
    cdef int64_t wrong
    cdef char* at
    cdef _series.Range* found
    check_series(usage)
    if bounds.shape[0] == 0:
        raise ValueError("bounds is empty; it needs one more item than ranges")
    n = <uint64_t> bounds.shape[0] - 1
    if buf_reserve(&out.buf, max(n, 1)) < 0:
        raise MemoryError
    found = <_series.Range*> out.buf.data
    with nogil:
        wrong = _series.series_ranges(<const int64_t*> usage.data, events, start, &bounds[0], n,
                                      found)
    if wrong >= 0:
        raise ValueError(f"bound {wrong} isn't in order or isn't from 0 to {events}")
    at = <char*> found
    return (column(out, at, n, b"q", sizeof(_series.Range)),
            column(out, at + 8, n, b"q", sizeof(_series.Range)),
            column(out, at + 16, n, b"q", sizeof(_series.Range)))


cdef size_t offset_of(int field) noexcept:
    # Return the offset of a field in a Bucket, in the order in which `buckets` returns the fields.
    cdef _series.Bucket b
    cdef char* at = <char*> &b
    if field == 0:
        return <char*> &b.first - at
    if field == 1:
        return <char*> &b.events - at
    if field == 2:
        return <char*> &b.low - at
    return <char*> &b.high - at if field == 3 else <char*> &b.high_at - at
