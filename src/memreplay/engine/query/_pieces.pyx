"""Python interface for computing long series in parts, to write them without holding them in
memory. Contains no algorithms.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from memreplay.engine.query cimport pieces as _pieces
from memreplay.engine.read.column cimport Owned, column, owned
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, buf_reserve, push_u64
from memreplay.engine.replay.lives cimport lives_start
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._timeline cimport Measure


@cython.final
cdef class Pieces:
    """Computes series of several measures of a replay, `rows` events at a time.

    All measures must include the same allocations with the same ends; only the bytes may differ.
    Don't change the measures until the last part is computed. Raises ValueError.
    """

    cdef _pieces.Pieces p
    cdef Buf running           # u64 per measure: bytes held before the next part
    cdef readonly tuple measures

    def __cinit__(self, tuple measures not None, uint64_t rows):
        cdef Measure first, measure
        cdef int code
        buf_init(&self.running, 8)
        if not rows or not measures:
            raise ValueError("Pieces needs at least one row and one measure")
        self.measures = measures
        if None in measures:
            raise TypeError("a measure is None")
        first = measures[0]
        for measure in measures:
            if not _pieces.end_alike(&first.l, &measure.l):
                raise ValueError("the measures count different allocations")
            if push_u64(&self.running, <uint64_t> lives_start(&measure.l)) < 0:
                raise MemoryError
        with nogil:
            code = _pieces.pieces_init(&self.p, &first.l, rows)
        if code != OK:
            raise MemoryError

    def __dealloc__(self):
        _pieces.pieces_free(&self.p)
        buf_free(&self.running)

    def next(self) -> list:
        """Return a Column per measure with the bytes held after each event of the next part (i64).
        After the last part, columns are empty.
        """
        cdef Measure measure = self.measures[0]
        cdef uint64_t count = _pieces.piece_rows(&self.p, &measure.l)
        cdef uint64_t i = 0
        cdef Owned out
        filled = []
        columns = []
        # Allocate all memory first, because filling a column advances the sums.
        for _ in self.measures:
            out = owned(8)
            if buf_reserve(&out.buf, count) < 0:
                raise MemoryError
            filled.append(out)
            columns.append(column(out, out.buf.data, count, b"q"))
        for measure in self.measures:
            out = filled[i]
            with nogil:
                _pieces.piece_of(&self.p, &measure.l, <uint64_t*> self.running.data + i,
                                 <int64_t*> out.buf.data)
            i += 1
        self.p.at += count
        return columns
