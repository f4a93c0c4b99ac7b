"""Python interface to the memory events, stacks and spans of a torch.profiler trace.

Contains no algorithms.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset
from memreplay._core cimport begin_reading, error_of, new_seed
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport span_at, spans_len
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.base.status cimport DONE, OK
from memreplay.engine.read cimport json as _json
from memreplay.engine.read cimport nesting as _nesting
from memreplay.engine.read cimport profile as _rows
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Owned, column, owned
from memreplay.engine.read.intake cimport Intake

PYTHON_FRAME = _nesting.PYTHON_FRAME
OOM, ALLOCATED, RESERVED, BROKEN = (
    _rows.M_OOM, _rows.M_ALLOCATED, _rows.M_RESERVED, _rows.M_BROKEN
)
OP, PYTHON, ANNOTATION = _rows.SPAN_OP, _rows.SPAN_PYTHON, _rows.SPAN_ANNOTATION


cdef dict memory_fields():
    cdef _rows.MemoryRow m
    cdef char* at = <char*> &m
    return {
        "pid": (<char*> &m.pid - at, b"Q"),
        "tid": (<char*> &m.tid - at, b"Q"),
        "address": (<char*> &m.address - at, b"Q"),
        "size": (<char*> &m.size - at, b"q"),
        "allocated": (<char*> &m.allocated - at, b"q"),
        "reserved": (<char*> &m.reserved - at, b"q"),
        "device_type": (<char*> &m.device_type - at, b"i"),
        "device": (<char*> &m.device - at, b"i"),
        "flags": (<char*> &m.flags - at, b"I"),
    }


cdef dict span_fields():
    cdef _rows.SpanRow s
    cdef char* at = <char*> &s
    return {
        "pid": (<char*> &s.pid - at, b"Q"),
        "tid": (<char*> &s.tid - at, b"Q"),
        "name": (<char*> &s.name - at, b"I"),
        "kind": (<char*> &s.kind - at, b"I"),
    }


cdef Owned numbers(size_t n):
    # Return room for n 64-bit numbers.
    cdef Owned found = owned(8)
    if buf_reserve(&found.buf, n) < 0:
        raise MemoryError
    return found


@cython.final
cdef class Profile:
    """A parsed trace; `read` returns it."""

    cdef _tables.Tables t
    cdef _rows.Profile p
    cdef _nesting.Nesting n
    cdef readonly uint64_t stream_bytes

    def __cinit__(self):
        memset(&self.t, 0, sizeof(_tables.Tables))
        memset(&self.p, 0, sizeof(_rows.Profile))
        memset(&self.n, 0, sizeof(_nesting.Nesting))

    def __init__(self):
        raise TypeError("use read() to create a Profile")

    def __dealloc__(self):
        _rows.profile_free(&self.p)
        _nesting.nesting_free(&self.n)
        _tables.tables_free(&self.t)

    @property
    def has_events(self) -> bool:
        """Whether the file has a list of events."""
        return self.p.has_events

    @property
    def base_ns(self) -> int:
        """Nanoseconds since the epoch to which all times are relative; 0 if times are absolute."""
        return self.p.base_ns

    def memory(self) -> dict:
        """Return the memory events' columns, in file order; `_profile.pyi` lists them."""
        cdef const _rows.MemoryRow* rows = <const _rows.MemoryRow*> self.p.memory.data
        cdef const _rows.MemoryRow* row
        cdef size_t n = self.p.memory.len
        cdef Owned us = numbers(n)
        cdef Owned order = numbers(n)
        cdef size_t i
        for i in range(n):
            row = rows + i
            (<int64_t*> us.buf.data)[i] = _rows.us_of(&self.p, row.time)
            (<uint64_t*> order.buf.data)[i] = _rows.sortable(row.time)
        found = {
            name: column(self, <const char*> rows + <size_t> offset, n, fmt,
                         sizeof(_rows.MemoryRow))
            for name, (offset, fmt) in memory_fields().items()
        }
        return {**found, "us": column(us, us.buf.data, n, b"q"),
                "order": column(order, order.buf.data, n, b"Q")}

    def spans(self) -> dict:
        """Return the spans' columns, in file order; `_profile.pyi` lists them."""
        cdef const _rows.SpanRow* rows = <const _rows.SpanRow*> self.p.spans.data
        cdef const _rows.SpanRow* row
        cdef size_t n = self.p.spans.len
        cdef Owned us = numbers(n)
        cdef Owned order = numbers(n)
        cdef Owned end_us = numbers(n)
        cdef Owned end_order = numbers(n)
        cdef Owned longest_first = numbers(n)
        cdef size_t i
        for i in range(n):
            row = rows + i
            (<int64_t*> us.buf.data)[i] = _rows.us_of(&self.p, row.begin)
            (<uint64_t*> order.buf.data)[i] = _rows.sortable(row.begin)
            (<int64_t*> end_us.buf.data)[i] = _rows.us_of(&self.p, row.begin + row.duration)
            (<uint64_t*> end_order.buf.data)[i] = _rows.sortable(row.begin + row.duration)
            (<uint64_t*> longest_first.buf.data)[i] = _rows.sortable(-row.duration)
        found = {
            name: column(self, <const char*> rows + <size_t> offset, n, fmt, sizeof(_rows.SpanRow))
            for name, (offset, fmt) in span_fields().items()
        }
        return {**found, "us": column(us, us.buf.data, n, b"q"),
                "order": column(order, order.buf.data, n, b"Q"),
                "end_us": column(end_us, end_us.buf.data, n, b"q"),
                "end_order": column(end_order, end_order.buf.data, n, b"Q"),
                "longest_first": column(longest_first, longest_first.buf.data, n, b"Q")}

    def text(self, i: int) -> bytes:
        """Return string i as UTF-8. Raises IndexError."""
        cdef size_t n = 0
        cdef const unsigned char* p
        if not 0 <= i < spans_len(&self.t.strings):
            raise IndexError(i)
        p = span_at(&self.t.strings, <uint32_t> i, &n)
        return p[:n]

    def nest(self, const uint32_t[::1] order) -> tuple:
        """Return (stack of each memory event (u32), byte offset of each stack (u64), frame codes
        (u32)).

        `order` has the indices of all entries, sorted by thread and time. Spans come first in this
        numbering, then memory events. Frames are innermost first; stack 0 is empty. Can be called
        once.
        """
        cdef uint64_t n = order.shape[0]
        cdef uint64_t rows = self.p.spans.len + self.p.memory.len
        cdef uint64_t seed = new_seed()
        cdef uint64_t i
        cdef int code
        if self.n.stack_of.itemsize:
            raise ValueError("nest() can be called only once")
        for i in range(n):
            if order[i] >= rows:
                raise IndexError(order[i])
        with nogil:
            code = _nesting.nesting_init(&self.n, seed)
            if code == OK and n:
                code = _nesting.nest(&self.n, &self.p.spans, &self.p.memory, &order[0], n)
        if code != OK:
            raise MemoryError
        return (
            column(self, self.n.stack_of.data, self.n.stack_of.len, b"I"),
            column(self, self.n.stacks.offsets.data, self.n.stacks.offsets.len, b"Q"),
            column(self, self.n.stacks.data.data, self.n.stacks.data.len // 4, b"I"),
        )


def read(readinto, limits, progress=None, ahead=None) -> Profile:
    """Read a torch.profiler trace (JSON).

    The arguments are those of `_core.read`.

    Raises SnapshotError or a subclass with the byte offset.
    """
    cdef Profile out = Profile.__new__(Profile)
    cdef Intake intake = Intake(readinto, ahead, progress)
    cdef _json.JSONReader reader
    cdef Cursor start
    cdef Limits limit = begin_reading(&out.t, intake, limits, &start)
    cdef int code
    if _rows.profile_init(&out.p, &out.t) != OK:
        raise MemoryError
    code = _json.json_init(&reader, &out.t, &limit)
    reader.cur = start
    reader.profile = &out.p
    try:
        if code == OK:
            code = intake.drive(&reader, _json.json_step_any, &reader.cur, &reader.need)
    finally:
        _json.json_free(&reader)
    out.stream_bytes = intake.consumed
    if intake.cut is not None:
        raise intake.cut
    if code != DONE:
        raise error_of(&out.t.status)
    return out
