"""Python interface to block maps: segments and blocks at a moment, and the groups that keep free
memory from being returned to the driver.

Contains no algorithms; loaded on first use. Event indices count from the first event read; -1 is
the state before that event.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from memreplay.engine.query._groups cimport Keys
from memreplay.engine.replay._measures cimport Blocks, Holding, check_rows
from memreplay.engine.replay cimport blockmap as _blockmap
from memreplay.engine.query cimport blockers as _blockers
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport Buf, buf_reserve
from memreplay.engine.base.hashmap cimport NONE32, span_at, spans_len
from memreplay.engine.replay.replay cimport CARRIED as _CARRIED
from memreplay.engine.replay.sizes cimport max_split
from memreplay.engine.base.status cimport OK

FREE, IN_USE, PENDING = _blockmap.TILE_FREE, _blockmap.TILE_IN_USE, _blockmap.TILE_PENDING
CARRIED = _CARRIED
NO_OWNER = NONE32


@cython.final
cdef class BlockMap:
    """Segments and blocks after one event.

    Sizes are in bytes.

    A pool is a pair id, or None if unknown. If the file names no private pool, all segments are in
    the default pool, `default_pool`.
    """

    def __cinit__(self, Blocks blocks not None, Holding holding not None, Column allocs not None,
                  Column carried not None, int64_t event):
        # The live set comes from `Measure.live`.
        cdef const _tables.Tables* t = blocks.reserved.replay.r.tables
        cdef int code
        _blockmap.blockmap_init(&self.m, &blocks.a)
        self.blocks = blocks
        self.holding = holding
        if holding.replay is not blocks.reserved.replay:
            raise ValueError("holding belongs to another replay")
        if not -1 <= event < <int64_t> blocks.reserved.replay.r.events:
            raise IndexError(event)
        check_rows(allocs, blocks.reserved.replay.r.events)
        check_rows(carried, blocks.reserved.replay.r.carried.len)
        self._find_default(t)
        with nogil:
            code = _blockmap.blockmap_fill(
                &self.m, event, <const uint32_t*> holding.h.end.data,
                <const uint32_t*> holding.h.carried_end.data, <const uint32_t*> allocs.data,
                <uint64_t> allocs.shape[0], <const uint32_t*> carried.data,
                <uint64_t> carried.shape[0], self.default_id, self.unknown_is_default)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _blockmap.blockmap_free(&self.m)

    cdef int _find_default(self, const _tables.Tables* t) except -1:
        cdef const int64_t* pair
        cdef size_t n = 0
        cdef uint32_t i
        self.default_id = NONE32
        self.unknown_is_default = True
        for i in range(spans_len(&t.pairs)):
            pair = <const int64_t*> span_at(&t.pairs, i, &n)
            if pair[0] == 0 and pair[1] == 0:
                self.default_id = i
            else:
                self.unknown_is_default = False
        return 0

    @property
    def has_private_pools(self) -> bool:
        """Whether the file names any pool other than the default one."""
        return not self.unknown_is_default

    # ---- sums

    def sums(self) -> dict:
        """Return sums over all segments."""
        return sums_row(&self.m.sums)

    @property
    def outside(self) -> tuple:
        """(bytes, blocks) of live blocks that are in no segment, or inside another block."""
        return self.m.outside, self.m.outside_blocks

    @property
    def returnable(self) -> tuple:
        """(bytes of the default pool that empty_cache() returns, the part that is free now)."""
        return self.m.returnable, self.m.returned_free

    @property
    def private_returnable(self) -> tuple:
        """Like `returnable`, for private pools, whose memory is only returned after their release.
        """
        return self.m.private_returnable, self.m.private_free

    @property
    def blocked(self) -> int:
        """Free bytes that can't be returned to the driver."""
        return self.m.blocked

    def shares(self) -> list:
        """Return (pool, stream, small, default, sums) for each combination, most free bytes first.
        """
        cdef const _blockmap.Share* s = <const _blockmap.Share*> self.m.shares.data
        cdef size_t i
        return [(self._pool(s[i].pool), s[i].stream, bool(s[i].small), bool(s[i].default_pool),
                 sums_row(&s[i].sums))
                for i in range(self.m.shares.len)]

    cdef object _pool(self, uint32_t pool):
        return None if pool == NONE32 else pool

    # ---- segments and blocks

    @property
    def n_segments(self) -> int:
        return self.m.segments.len

    def largest(self, most: int) -> list:
        """Return the indices of the `most` segments (0: all) with the most free bytes.

        On a tie, larger segments come first.
        """
        cdef const uint32_t* order = <const uint32_t*> self.m.order.data
        cdef size_t shown = self.m.order.len
        cdef size_t i
        if most > 0:
            shown = min(shown, <size_t> most)
        return [order[i] for i in range(shown)]

    def segment(self, i: int) -> tuple:
        """Return (address, stream, pool, small, expandable, default, first tile, tiles, sums) of a
        segment.

        Segments are numbered in order of address.
        """
        cdef const _blockmap.Mapped* s
        if not 0 <= i < self.m.segments.len:
            raise IndexError(i)
        s = <const _blockmap.Mapped*> self.m.segments.data + <size_t> i
        return (s.address, s.stream, self._pool(s.pool), bool(s.small), bool(s.expandable),
                bool(s.default_pool), s.first, s.tiles, sums_row(&s.sums))

    def bar(self, i: int, cells: int) -> str:
        """Draw segment i as `cells` characters: # mostly in use, + partly, ~ pending, . free."""
        cdef Owned out = owned(1)
        if not 0 <= i < self.m.segments.len or not 0 < cells <= 4096:
            raise IndexError(i)
        if buf_reserve(&out.buf, cells) < 0:
            raise MemoryError
        _blockmap.blockmap_bar(&self.m, i, cells, <uint8_t*> out.buf.data)
        return (<bytes> out.buf.data[:<size_t> cells]).decode()

    def tiles(self, field: str) -> Column:
        """Return a field of all blocks, ordered by segment and address.

        address, size (u64), requested (i64), owner (alloc event, CARRIED | carried-over block, or
        NO_OWNER), stack, segment, state (u32).
        """
        cdef _blockmap.Tile t
        cdef char* at = <char*> &t
        cdef dict fields = {
            "address": (<char*> &t.address - at, b"Q"),
            "size": (<char*> &t.size - at, b"Q"),
            "requested": (<char*> &t.requested - at, b"q"),
            "owner": (<char*> &t.owner - at, b"I"),
            "stack": (<char*> &t.stack - at, b"I"),
            "segment": (<char*> &t.segment - at, b"I"),
            "state": (<char*> &t.state - at, b"I"),
        }
        offset, fmt = fields[field]
        cdef const Buf* b = &self.m.tiles
        return column(self, b.data + <size_t> offset if b.data != NULL else NULL, b.len, fmt,
                      b.itemsize)

    # ---- blockers of free memory, and why a request failed

    def blockers(self, Keys keys not None, top: int) -> tuple:
        """Return the groups that block free memory:

        ([(name, bytes, blocks, segments, alone)], groups, bytes, blocks).

        Names are group names; `top` limits the list (0: all). A unit's free bytes are divided
        equally among its blocks in use; `alone` counts the bytes that no other group blocks.
        """
        cdef Owned out = owned(sizeof(_blockers.Blocker))
        cdef const _blockers.Blocker* p
        cdef uint64_t blocks = 0
        cdef size_t i, shown
        cdef int code
        if keys.replay is not self.blocks.reserved.replay:
            raise ValueError("the groups belong to another replay")
        with nogil:
            code = _blockers.blockmap_blockers(&self.m, &keys.k, &out.buf)
        if code != OK:
            raise MemoryError
        p = <const _blockers.Blocker*> out.buf.data
        for i in range(out.buf.len):
            blocks += p[i].blocks
        shown = out.buf.len if top <= 0 else min(<size_t> top, out.buf.len)
        rows = [(p[i].name, p[i].bytes, p[i].blocks, p[i].segments, p[i].alone)
                for i in range(shown)]
        return rows, out.buf.len, self.m.blocked, blocks

    def judge(self, uint64_t size, object pool, uint64_t stream, bint small) -> dict:
        """Group free bytes by the reason why they can't serve a request.

        Also returns the largest block for each of these reasons.

        `pool` is None for the default pool.
        """
        cdef _blockmap.Request q
        cdef _blockmap.FreeParts j
        q.size = size
        q.stream = stream
        q.small = small
        q.max_split = max_split(&self.m.arena.rules)
        q.pool = self.default_id if pool is None else pool
        q.default_pool = q.pool == self.default_id
        with nogil:
            _blockmap.blockmap_judge(&self.m, &q, &j)
        return {
            "fits": (j.fits, j.fits_largest),
            "too_small": (j.too_small, j.too_small_largest),
            "split_limit": (j.split_limit, j.split_limit_largest),
            "other_stream": (j.other_stream, j.other_stream_largest),
            "other_kind": (j.other_kind, j.other_kind_largest),
            "other_pool": (j.other_pool, j.other_pool_largest),
            "pending": (j.pending, j.run),
            "pending_elsewhere": (j.pending_elsewhere, 0),
            "split_open": (j.split_open, 0),
        }


cdef dict sums_row(const _blockmap.Sums* s):
    return {
        "size": s.size, "in_use": s.in_use, "pending": s.pending, "free": s.free,
        "requested": s.requested, "largest": s.largest, "returnable": s.returnable,
        "blocks_in_use": s.blocks_in_use, "blocks_pending": s.blocks_pending,
        "blocks_free": s.blocks_free, "segments": s.segments, "unused": s.unused,
    }


def unused(Blocks blocks not None, Column reserved not None, Column active not None,
           int64_t start) -> Column:
    """Return reserved minus active bytes after each event (i64); `start` is the initial value.

    An event that adds memory keeps the previous value, because the allocation that needs the memory
    comes next.
    """
    cdef Owned out = owned(8)
    cdef uint64_t n = blocks.reserved.replay.r.events
    for series in (reserved, active):
        if (<Column> series).fmt != b"q" or (<Column> series).strides[0] != 8:
            raise ValueError("a series must have one i64 per event")
        if <uint64_t> (<Column> series).shape[0] != n:
            raise ValueError("the series belongs to another replay")
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    with nogil:
        _blockmap.unused_series(&blocks.reserved.replay.r, <const int64_t*> reserved.data,
                                <const int64_t*> active.data, start, <int64_t*> out.buf.data)
    return column(out, out.buf.data, n, b"q")
