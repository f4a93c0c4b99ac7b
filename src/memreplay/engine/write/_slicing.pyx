"""Python interface for writing slices: each device's part, and the resulting pickle.

Contains no algorithms; loaded on first use.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay.engine.query._blockmap cimport BlockMap
from memreplay._core cimport Tables, new_seed
from memreplay.engine.replay._measures cimport Blocks, Holding
from memreplay.engine.write cimport excerpt as _excerpt
from memreplay.engine.write cimport keeping as _keeping
from memreplay.engine.write cimport pickling as _pickling
from memreplay.engine.write cimport strip as _strip
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Column, column
from memreplay.engine.base.emit cimport Out, given
from memreplay.engine.base.growbuf cimport (
    buf_free, buf_init, push_bytes, push_item, push_u32, push_u64)
from memreplay.engine.base.hashmap cimport spans_len
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.write.opcode cimport put_little, put_op
from memreplay.engine.read.opcodes cimport PROTO, STOP

from memreplay.errors import SnapshotError

cdef enum:
    CHUNK = 1 << 20     # bytes between checks for signals


@cython.final
cdef class Stripped:
    """The stacks without some of their frames.

    `drop` has one byte per frame: 1 to drop it. A stack that would lose all its frames keeps the
    first one. If `drop` is None, all stacks are empty.
    """

    cdef _strip.Stripped s
    cdef readonly Tables tables

    def __cinit__(self, Tables tables not None, bytes drop):
        cdef const uint8_t* frames = NULL
        cdef uint64_t seed = new_seed()
        cdef int code
        memset(&self.s, 0, sizeof(_strip.Stripped))
        self.tables = tables
        if drop is not None:
            if <uint64_t> len(drop) != spans_len(&tables.t.frames):
                raise ValueError("drop needs one byte per frame")
            frames = drop
        with nogil:
            code = _strip.stripped_init(&self.s, &tables.t, frames, seed)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _strip.stripped_free(&self.s)


@cython.final
cdef class Excerpt:
    """The part of one device that goes into a slice."""

    cdef _excerpt.Excerpt x
    cdef readonly Holding holding
    cdef readonly Blocks blocks
    cdef readonly BlockMap block_map
    cdef readonly Stripped stripped

    def __cinit__(self, Holding holding not None, Blocks blocks, BlockMap block_map,
                  Stripped stripped, int64_t least):
        # `blocks` is None if the range is the whole trace. `block_map` is None if the range reaches
        # the trace's end.
        cdef uint64_t seed = new_seed()
        cdef const uint32_t* stacks = NULL
        cdef _excerpt.BlockMap* m = NULL
        cdef _excerpt.Arena* a = NULL
        cdef int code
        memset(&self.x, 0, sizeof(_excerpt.Excerpt))
        self.holding = holding
        self.blocks = blocks
        self.block_map = block_map
        self.stripped = stripped
        if blocks is not None:
            if blocks.reserved.replay is not holding.replay:
                raise ValueError("blocks belongs to another replay")
            a = &blocks.a
        if block_map is not None:
            if block_map.holding is not holding:
                raise ValueError("block_map belongs to another replay")
            m = &block_map.m
        if stripped is not None:
            if stripped.tables is not holding.replay.tables:
                raise ValueError("stripped belongs to another snapshot")
            stacks = <const uint32_t*> stripped.s.ids.data
        with nogil:
            code = _excerpt.excerpt_init(&self.x, &holding.replay.r, &holding.h, a, stacks, least,
                                         seed)
            if code == OK:
                code = _excerpt.excerpt_fill(&self.x, m, _pickling.KIND_SMALL,
                                             _pickling.KIND_LARGE)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _excerpt.excerpt_free(&self.x)

    @property
    def events(self) -> int:
        """Number of the range's events that are written."""
        return self.x.events

    @property
    def leading(self) -> int:
        """Number of events written before the range's events, for memory that was live before the
        range.
        """
        return self.x.leading.len

    def kept(self) -> Column:
        """Return whether each event of the range is written (u8)."""
        return column(self, self.x.keep.data, self.x.keep.len, b"B")

    def leading_addresses(self) -> list:
        """Return the address that each leading event allocates; 0 if it isn't an alloc."""
        cdef const _excerpt.Leading* first = <const _excerpt.Leading*> self.x.leading.data
        cdef size_t i
        return [first[i].address if first[i].action == _tables.A_ALLOC else 0
                for i in range(self.x.leading.len)]

    @property
    def pending(self) -> tuple:
        """(blocks, bytes) in the final segments whose free was requested but didn't complete."""
        cdef const _tables.Block* b = <const _tables.Block*> self.x.blocks.data
        cdef uint64_t blocks = 0
        cdef uint64_t requested = 0
        cdef size_t i
        for i in range(self.x.blocks.len):
            if _tables.is_pending(&b[i]):
                blocks += 1
                requested += <uint64_t> _tables.block_requested(&b[i])
        return blocks, requested

    @property
    def small(self) -> tuple:
        """(allocations, bytes) dropped for being too small."""
        return self.x.small, self.x.small_bytes


@cython.final
cdef class Unknown:
    """Items of a pickle's snapshot dict whose keys aren't in `known`.

    `at` is the offset of the snapshot's first list (`Tables.adopted_at`). Raises SnapshotError if
    the pickle can't be processed.
    """

    cdef _keeping.Keeping k
    cdef object owner
    cdef const uint8_t[::1] data
    cdef list pairs

    def __cinit__(self, const uint8_t[::1] data not None, uint64_t at, list known not None):
        cdef const uint8_t* p = &data[0] if data.shape[0] else NULL
        cdef _keeping.Pair* pair
        cdef bytes name
        cdef size_t i
        cdef int code
        self.data = data
        self.pairs = []
        _keeping.keeping_init(&self.k, p, <size_t> data.shape[0], at)
        with nogil:
            code = _keeping.keeping_find(&self.k)
        self._check(code)
        for i in range(self.k.pairs.len):
            pair = <_keeping.Pair*> self.k.pairs.data + i
            if not any([_keeping.keeping_is(&self.k, pair.key, <bytes> name) for name in known]):
                self.pairs.append((pair.key, pair.value, pair.end))

    def __dealloc__(self):
        _keeping.keeping_free(&self.k)

    cdef object _check(self, int code):
        if code == ERR_MEMORY:
            raise MemoryError
        if code != OK:
            raise SnapshotError((<bytes> self.k.wrong).decode())

    def __len__(self) -> int:
        return len(self.pairs)

    def key(self, i: int) -> bytes:
        """Return an item's key as a pickle.

        Raises SnapshotError if the key can't be written separately.
        """
        key, value, _ = self.pairs[i]
        return self._pickle(key, value)

    def value(self, i: int) -> bytes:
        """Return an item's value as a pickle. Raises the same errors as `key`."""
        _, value, end = self.pairs[i]
        return self._pickle(value, end)

    cdef bytes _pickle(self, uint64_t at, uint64_t end):
        cdef Out out
        cdef uint32_t memoised = 0
        cdef int code
        memset(&out, 0, sizeof(Out))
        buf_init(&out.b, 1)
        put_op(&out, PROTO)
        put_little(&out, 4, 1)
        try:
            with nogil:
                code = _keeping.keeping_put(&self.k, at, end, &out, &memoised)
                _keeping.keeping_forget(&self.k)
            self._check(code)
            put_op(&out, STOP)
            if out.failed:
                raise MemoryError
            return given(&out, out.b.len)
        finally:
            buf_free(&out.b)

    def flaws(self) -> list:
        """Return for each item the reason why it can't be written together with the others; "" if
        it can.
        """
        cdef Out out
        cdef uint32_t memoised = 0
        cdef uint64_t key, end
        cdef int code
        found = []
        memset(&out, 0, sizeof(Out))
        buf_init(&out.b, 1)
        _keeping.keeping_again(&self.k)
        try:
            for key, _, end in self.pairs:
                with nogil:
                    code = _keeping.keeping_put(&self.k, key, end, &out, &memoised)
                out.b.len = 0
                if code == ERR_MEMORY:
                    raise MemoryError
                found.append("" if code == OK else (<bytes> self.k.wrong).decode())
        finally:
            buf_free(&out.b)
            _keeping.keeping_again(&self.k)
        return found


@cython.final
cdef class Pickled:
    """A slice as a pickle of protocol 4: an iterator over chunks of about 1 MiB.

    `annotations` are row numbers (u32); `values` are (key, JSON text) for other top-level items.
    `chosen` are the items of `unknown` to copy; no other iterator may copy items from it at the
    same time.
    """

    cdef _pickling.Pickling p
    cdef list excerpts
    cdef object owner
    cdef bint busy

    def __cinit__(self, Tables tables not None, list excerpts not None, Stripped stripped,
                  annotations, list values not None, uint64_t traces, Unknown unknown=None,
                  chosen=()):
        cdef const uint32_t[:] rows = annotations
        cdef _excerpt.Excerpt* x
        cdef Excerpt excerpt
        cdef bytes text
        cdef _keeping.Pair item
        cdef size_t i
        cdef int code
        memset(&self.p, 0, sizeof(_pickling.Pickling))
        self.owner = (tables, stripped, unknown)
        self.excerpts = excerpts
        if stripped is None:
            code = _pickling.pickling_init(&self.p, &tables.t, &tables.t.stacks, NULL)
        else:
            code = _pickling.pickling_init(&self.p, &tables.t, &stripped.s.stacks,
                                           <const uint32_t*> stripped.s.ids.data)
        if code != OK:
            raise MemoryError
        self.p.traces = traces
        for excerpt in excerpts:
            if excerpt.holding.replay.tables is not tables or excerpt.stripped is not stripped:
                raise ValueError("an excerpt belongs to another snapshot")
            x = &excerpt.x
            if push_item(&self.p.excerpts, &x) < 0:
                raise MemoryError
        for i in range(<size_t> rows.shape[0]):
            if rows[i] >= tables.t.annotations.len:
                raise IndexError(rows[i])
            if push_u32(&self.p.annotations, rows[i]) < 0:
                raise MemoryError
        for pair in values:
            for part in pair:
                text = part.encode("utf-8", "surrogatepass")
                if (push_bytes(&self.p.texts, <const char*> text, len(text)) < 0
                        or push_u64(&self.p.keys, self.p.texts.len) < 0):
                    raise MemoryError

        if unknown is None:
            return
        _keeping.keeping_again(&unknown.k)
        self.p.kept = &unknown.k
        for at in chosen:
            item.key, item.value, item.end = unknown.pairs[at]
            if push_item(&self.p.copied, &item) < 0:
                raise MemoryError

    def __dealloc__(self):
        _pickling.pickling_free(&self.p)

    def __iter__(self):
        return self

    def __next__(self):
        cdef int code
        if self.busy:
            raise ValueError("another thread is using this iterator")
        PyErr_CheckSignals()
        self.busy = True
        with nogil:
            code = _pickling.pickling_step(&self.p, CHUNK)
        self.busy = False
        if code == ERR_MEMORY:
            raise MemoryError("out of memory writing the slice")
        if self.p.out.b.len == 0:
            raise StopIteration
        return given(&self.p.out, self.p.out.b.len)
