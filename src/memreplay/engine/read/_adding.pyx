"""Python interface for filling tables with a dataset's rows. Contains no algorithms."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay._core cimport Tables, error_of
from memreplay.engine.read cimport adding as _adding
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport buf_reserve, push_u32
from memreplay.engine.base.hashmap cimport NONE32, spans_intern, spans_len
from memreplay.engine.read.keys cimport S_ACTION
from memreplay.engine.base.status cimport ERR_MEMORY, OK, fail


class WrongRowError(ValueError):
    """A row is invalid. The argument is the row's number."""


def same_length(n: int, *others: int) -> None:
    """Raise ValueError unless all lengths are `n`."""
    if any(other != n for other in others):
        raise ValueError("columns of a table must have the same length")


def decoded(
    const int32_t[::1] at, const uint32_t[::1] codes, uint32_t missing, valid, uint64_t offset
) -> Column:
    """Return the u32 code of each row:

    `codes[at[i]]`, or `missing` for rows that aren't valid.

    `valid` is a bitmap, lowest bit first, with row i at bit `offset + i`; None if all rows are
    valid. Raises ValueError, and WrongRowError for the first row whose index is out of range.
    """
    cdef Owned out = owned(4)
    cdef _adding.Coded c
    cdef const uint8_t[::1] bits = valid
    cdef uint64_t n = at.shape[0]
    cdef uint64_t row
    if bits is not None and (offset > <uint64_t> bits.shape[0] * 8
                             or n > <uint64_t> bits.shape[0] * 8 - offset):
        raise ValueError("the validity bitmap is shorter than the column")
    if buf_reserve(&out.buf, n) < 0:
        raise MemoryError
    if n:
        c.at = &at[0]
        c.valid = NULL
        if bits is not None:
            c.valid = &bits[0]
        c.offset = offset
        c.codes = &codes[0] if codes.shape[0] else NULL
        c.words = codes.shape[0]
        c.missing = missing
        with nogil:
            row = _adding.decode(&c, n, <uint32_t*> out.buf.data)
        if row != _adding.ALL_FIT:
            raise WrongRowError(row)
    return column(out, out.buf.data, n, b"I")


@cython.final
cdef class Adding:
    """Tables that are being filled.

    `_core.read` passes them to `then`.

    String and pool ids are the tables' ids; frames and stacks are numbered from 0 in the order in
    which they are added. Each method takes a batch, one buffer per column, and raises WrongRowError
    for the first invalid row, LimitError or MemoryError.
    """

    cdef Tables tables
    cdef Owned frame_of    # u32: the table's id for each of the dataset's frames
    cdef Owned stack_of    # u32: the table's id for each of the dataset's stacks

    def __cinit__(self, Tables tables not None):
        if tables.t.strings.slots == NULL:
            raise ValueError("these tables are closed")
        self.tables = tables
        self.frame_of = owned(4)
        self.stack_of = owned(4)

    cdef int _check(self, uint64_t row) except -1:
        if self.tables.t.status.code != OK:
            raise error_of(&self.tables.t.status)
        if row != _adding.ALL_FIT:
            raise WrongRowError(row)
        return 0

    cdef int _failed(self) except -1:
        # Some frames or stacks are missing, so the numbers of later frames or stacks would be
        # wrong. Refuse further rows.
        fail(&self.tables.t.status, ERR_MEMORY, "rows")
        raise MemoryError

    def intern(self, const uint8_t[::1] data, const int32_t[::1] offsets) -> Column:
        """Return the u32 id of each string `data[offsets[i]:offsets[i + 1]]` (UTF-8)."""
        cdef Owned out = owned(4)
        cdef Py_ssize_t n = offsets.shape[0] - 1
        cdef Py_ssize_t i
        cdef uint32_t found
        for i in range(n):
            if not 0 <= offsets[i] <= offsets[i + 1] <= data.shape[0]:
                raise WrongRowError(i)
            found = spans_intern(&self.tables.t.strings,
                                 &data[0] + offsets[i] if data.shape[0] else NULL,
                                 offsets[i + 1] - offsets[i])
            if found == NONE32 or push_u32(&out.buf, found) < 0:
                raise MemoryError
        return column(out, out.buf.data, out.buf.len, b"I")

    def pool(self, first: int, second: int) -> int:
        """Return the id of a pool."""
        cdef int64_t[2] pair
        pair[0] = first
        pair[1] = second
        cdef uint32_t found = spans_intern(&self.tables.t.pairs, &pair, sizeof(pair))
        if found == NONE32:
            raise MemoryError
        return found

    def code_of(self, Tables other not None) -> tuple:
        """Add another table's strings, pools, frames and stacks.

        Call this before `frames` and `stacks`. Returns (u32 id of each string, u32 id of each
        pool). Frames and stacks keep their numbers.
        """
        cdef Owned texts = owned(4)
        cdef Owned pools = owned(4)
        cdef int code
        if self.frame_of.buf.len or self.stack_of.buf.len:
            raise ValueError("frames or stacks were already added")
        with nogil:
            code = _adding.add_code(&self.tables.t, &other.t, &texts.buf, &pools.buf,
                                    &self.frame_of.buf, &self.stack_of.buf)
        if code != 0:
            self._failed()
        return (column(texts, texts.buf.data, texts.buf.len, b"I"),
                column(pools, pools.buf.data, pools.buf.len, b"I"))

    def action(self, name: bytes) -> int:
        """Return the code for an action."""
        cdef uint32_t text = spans_intern(&self.tables.t.strings, <const char*> name, len(name))
        cdef uint32_t* others = <uint32_t*> self.tables.t.other_actions.data
        cdef size_t i
        if text == NONE32:
            raise MemoryError
        if S_ACTION <= text < S_ACTION + _tables.A_KNOWN:
            return text - S_ACTION
        for i in range(self.tables.t.other_actions.len):
            if others[i] == text:
                return _tables.A_OTHER + i
        if self.tables.t.other_actions.len >= _tables.A_LAST - _tables.A_OTHER:
            return _tables.A_LAST
        if push_u32(&self.tables.t.other_actions, text) < 0:
            raise MemoryError
        return _tables.A_OTHER + self.tables.t.other_actions.len - 1

    def frames(
        self, const uint32_t[::1] function, const uint32_t[::1] file, const int64_t[::1] line,
        const uint32_t[::1] op, const uint32_t[::1] name, const uint32_t[::1] target,
        const uint32_t[::1] trace
    ) -> None:
        """Add frames. The columns hold string ids; 0 means none."""
        cdef _tables.FrameKey f
        cdef uint32_t texts = spans_len(&self.tables.t.strings)
        cdef uint32_t found
        cdef Py_ssize_t i
        self._check(_adding.ALL_FIT)
        same_length(function.shape[0], file.shape[0], line.shape[0], op.shape[0], name.shape[0],
                    target.shape[0], trace.shape[0])
        for i in range(function.shape[0]):
            memset(&f, 0, sizeof(f))
            f.name = function[i]
            f.file = file[i]
            f.line = line[i]
            f.fx_op = op[i]
            f.fx_name = name[i]
            f.fx_target = target[i]
            f.fx_trace = trace[i]
            if max(f.name, f.file, f.fx_op, f.fx_name, f.fx_target, f.fx_trace) >= texts:
                raise WrongRowError(i)
            found = spans_intern(&self.tables.t.frames, &f, sizeof(f))
            if found == NONE32 or push_u32(&self.frame_of.buf, found) < 0:
                self._failed()

    def stacks(self, const int32_t[::1] offsets, const uint32_t[::1] frames) -> None:
        """Add stacks `frames[offsets[i]:offsets[i + 1]]`, innermost frame first."""
        cdef Owned ids = owned(4)
        cdef const uint32_t* known = <const uint32_t*> self.frame_of.buf.data
        cdef Py_ssize_t i, k
        cdef uint32_t found
        self._check(_adding.ALL_FIT)
        for i in range(offsets.shape[0] - 1):
            if not 0 <= offsets[i] <= offsets[i + 1] <= frames.shape[0]:
                raise WrongRowError(i)
            ids.buf.len = 0
            for k in range(offsets[i], offsets[i + 1]):
                if frames[k] >= self.frame_of.buf.len:
                    raise WrongRowError(i)
                if push_u32(&ids.buf, known[frames[k]]) < 0:
                    self._failed()
            found = spans_intern(&self.tables.t.stacks, ids.buf.data, ids.buf.len * 4)
            if found == NONE32 or push_u32(&self.stack_of.buf, found) < 0:
                self._failed()

    def trace(self, device: int) -> None:
        """Begin the next device's trace. Later events are added to this trace."""
        if device != <int64_t> self.tables.t.traces.len:
            raise WrongRowError(device)
        _adding.add_trace(&self.tables.t, device)
        self._check(_adding.ALL_FIT)

    def events(
        self, const uint8_t[::1] action, const uint64_t[::1] address, const int64_t[::1] size,
        const int64_t[::1] time, const uint64_t[::1] stream, const uint32_t[::1] stack,
        const uint32_t[::1] pool, const uint32_t[::1] compile_context,
        const uint32_t[::1] user_metadata, const int64_t[::1] device_free,
        const uint8_t[::1] has_device_free
    ) -> None:
        """Add events to the last trace."""
        cdef _adding.EventColumns c
        cdef uint64_t n = action.shape[0]
        cdef uint64_t row
        same_length(n, address.shape[0], size.shape[0], time.shape[0], stream.shape[0],
                    stack.shape[0], pool.shape[0], compile_context.shape[0],
                    user_metadata.shape[0], device_free.shape[0], has_device_free.shape[0])
        if n == 0:
            return
        if not self.tables.t.traces.len:
            raise WrongRowError(0)
        c.action = &action[0]
        c.address = &address[0]
        c.size = &size[0]
        c.time = &time[0]
        c.stream = &stream[0]
        c.stack = &stack[0]
        c.pool = &pool[0]
        c.compile_context = &compile_context[0]
        c.user_metadata = &user_metadata[0]
        c.device_free = &device_free[0]
        c.has_device_free = &has_device_free[0]
        with nogil:
            row = _adding.add_events(&self.tables.t, &c, n,
                                     <const uint32_t*> self.stack_of.buf.data,
                                     self.stack_of.buf.len)
        self._check(row)

    def carried(self, address: int, size: int, time: int) -> None:
        """Add an allocation that was live before the last trace began. Call it before `events`."""
        cdef uint64_t row
        if not self.tables.t.traces.len:
            raise WrongRowError(0)
        row = _adding.add_carried(&self.tables.t, <uint64_t> address, <int64_t> size,
                                  <int64_t> time)
        self._check(row)

    def segments(
        self, const int32_t[::1] device, const uint64_t[::1] address, const int64_t[::1] total,
        const int64_t[::1] allocated, const int64_t[::1] active, const int64_t[::1] requested,
        const uint8_t[::1] has_requested, const uint64_t[::1] stream, const uint32_t[::1] kind,
        const uint32_t[::1] pool, const uint32_t[::1] stack, const uint8_t[::1] expandable
    ) -> None:
        """Add segments in order."""
        cdef _adding.SegmentColumns c
        cdef uint64_t n = device.shape[0]
        cdef uint64_t row
        same_length(n, address.shape[0], total.shape[0], allocated.shape[0], active.shape[0],
                    requested.shape[0], has_requested.shape[0], stream.shape[0], kind.shape[0],
                    pool.shape[0], stack.shape[0], expandable.shape[0])
        if n == 0:
            return
        c.device = &device[0]
        c.address = &address[0]
        c.total = &total[0]
        c.allocated = &allocated[0]
        c.active = &active[0]
        c.requested = &requested[0]
        c.has_requested = &has_requested[0]
        c.stream = &stream[0]
        c.kind = &kind[0]
        c.pool = &pool[0]
        c.stack = &stack[0]
        c.expandable = &expandable[0]
        with nogil:
            row = _adding.add_segments(&self.tables.t, &c, n,
                                       <const uint32_t*> self.stack_of.buf.data,
                                       self.stack_of.buf.len)
        self._check(row)

    def blocks(
        self, const uint32_t[::1] segment, const uint64_t[::1] address, const int64_t[::1] size,
        const int64_t[::1] requested, const uint8_t[::1] has_requested,
        const uint8_t[::1] state, const uint32_t[::1] stack
    ) -> None:
        """Add blocks, ordered by segment."""
        cdef _adding.BlockColumns c
        cdef uint64_t n = segment.shape[0]
        cdef uint64_t row
        same_length(n, address.shape[0], size.shape[0], requested.shape[0],
                    has_requested.shape[0], state.shape[0], stack.shape[0])
        if n == 0:
            return
        c.segment = &segment[0]
        c.address = &address[0]
        c.size = &size[0]
        c.requested = &requested[0]
        c.has_requested = &has_requested[0]
        c.state = &state[0]
        c.stack = &stack[0]
        with nogil:
            row = _adding.add_blocks(&self.tables.t, &c, n,
                                     <const uint32_t*> self.stack_of.buf.data,
                                     self.stack_of.buf.len)
        self._check(row)

    def annotations(
        self, const int32_t[::1] device, const int64_t[::1] time, const uint32_t[::1] stage,
        const uint32_t[::1] name
    ) -> None:
        """Add annotations in order."""
        cdef _adding.AnnotationColumns c
        cdef uint64_t n = device.shape[0]
        cdef uint64_t row
        same_length(n, time.shape[0], stage.shape[0], name.shape[0])
        if n == 0:
            return
        c.device = &device[0]
        c.time = &time[0]
        c.stage = &stage[0]
        c.name = &name[0]
        with nogil:
            row = _adding.add_annotations(&self.tables.t, &c, n)
        self._check(row)
