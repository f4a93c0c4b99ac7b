"""Python interface to the memory events, stacks and spans of a torch.profiler trace.

Contains no algorithms.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from memreplay._core cimport begin_reading, error_of, new_seed
from memreplay.engine.base.cursor cimport Cursor
from memreplay.engine.base.hashmap cimport span_at, spans_len
from memreplay.engine.base.limits cimport Limits
from memreplay.engine.base.status cimport DONE, OK
from memreplay.engine.read cimport json as _json
from memreplay.engine.read cimport nesting as _nesting
from memreplay.engine.read cimport profile as _rows
from memreplay.engine.read cimport tables as _tables
from memreplay.engine.read.column cimport Column, column
from memreplay.engine.read.intake cimport Intake

PYTHON_FRAME = _nesting.PYTHON_FRAME
OOM, ALLOCATED, RESERVED, BROKEN = (
    _rows.M_OOM, _rows.M_ALLOCATED, _rows.M_RESERVED, _rows.M_BROKEN
)
OP, PYTHON, ANNOTATION = _rows.SPAN_OP, _rows.SPAN_PYTHON, _rows.SPAN_ANNOTATION


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

    def memory(self) -> Column:
        """Return the memory events as bytes, one MemoryRow of profile.pxd each, in file order."""
        return column(self, self.p.memory.data,
                      self.p.memory.len * sizeof(_rows.MemoryRow), b"B")

    def spans(self) -> Column:
        """Return the spans as bytes, one SpanRow each, in file order."""
        return column(self, self.p.spans.data, self.p.spans.len * sizeof(_rows.SpanRow), b"B")

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
