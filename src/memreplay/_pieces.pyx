"""The façade over columns in pieces: what Python may call to write long ones a part at a time.

No algorithm is in here.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from memreplay._native cimport pieces as _pieces
from memreplay._native.column cimport Column, Owned, column, owned
from memreplay._native.growbuf cimport buf_reserve
from memreplay._native.status cimport OK
from memreplay._timeline cimport Measure


@cython.final
cdef class Pieces:
    """A measure's series, `rows` events at a time; the measure must not change meanwhile."""

    cdef _pieces.Pieces p
    cdef readonly Measure measure

    def __cinit__(self, Measure measure not None, uint64_t rows):
        cdef int code
        if not rows:
            raise ValueError("a piece has a row at least")
        self.measure = measure
        with nogil:
            code = _pieces.pieces_init(&self.p, &measure.l, rows)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _pieces.pieces_free(&self.p)

    def next(self) -> Column:
        """Bytes after each event of the next piece (i64); empty after the last."""
        cdef Owned out = owned(8)
        cdef uint64_t count
        if buf_reserve(&out.buf, self.p.rows) < 0:
            raise MemoryError
        with nogil:
            count = _pieces.pieces_next(&self.p, <int64_t*> out.buf.data)
        return column(out, out.buf.data, count, b"q")
