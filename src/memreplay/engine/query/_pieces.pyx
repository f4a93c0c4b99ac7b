"""The façade over columns in pieces: what Python may call to write long ones a part at a time.

No algorithm is in here.
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
    """The series of measures of a replay, `rows` events at a time.

    The same allocations count in all of them, and end at the same events: measures differ in bytes
    alone. They must not change meanwhile. Raises ValueError.
    """

    cdef _pieces.Pieces p
    cdef Buf running           # u64 a measure: bytes before the next piece
    cdef readonly tuple measures

    def __cinit__(self, tuple measures not None, uint64_t rows):
        cdef Measure first, measure
        cdef int code
        buf_init(&self.running, 8)
        if not rows or not measures:
            raise ValueError("a piece has a row at least, and is of a measure at least")
        self.measures = measures
        if None in measures:
            raise TypeError("None is no measure")
        first = measures[0]
        for measure in measures:
            if not _pieces.end_alike(&first.l, &measure.l):
                raise ValueError("not the same allocations end at the same events")
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
        """Of each measure a Column: bytes after each event of the next piece (i64); empty after the
        last."""
        cdef Measure measure = self.measures[0]
        cdef uint64_t count = _pieces.piece_rows(&self.p, &measure.l)
        cdef uint64_t i = 0
        cdef Owned out
        filled = []
        columns = []
        # All memory first: what a piece adds up to is added once.
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
