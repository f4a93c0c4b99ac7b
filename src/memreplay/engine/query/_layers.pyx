"""Python interface for computing each group's bytes at many events.

Contains no algorithms. Samples are events in ascending order, counted from the first event read; -1
is the start.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.status cimport OK
from memreplay.engine.query cimport layers as _layers
from memreplay.engine.read.column cimport Owned, column, owned
from memreplay.engine.replay cimport classes as _classes
from memreplay.engine.replay._measures cimport Classes, take_only
from memreplay.engine.replay._timeline cimport Replay


@cython.final
cdef class Layering:
    """State for computing byte counts at sampled events."""

    def __cinit__(self, Replay replay not None, wanted, samples):
        cdef Owned at = owned(8)
        cdef uint64_t n = len(samples)
        cdef uint64_t rows = len(wanted) + 1
        cdef int64_t last = -1
        cdef int64_t sample
        cdef uint32_t key
        cdef uint64_t i
        self.keys = owned(4)
        self.out = owned(8)
        if n >= 1 << 31:
            raise ValueError("too many samples")
        if (buf_reserve(&at.buf, n + 1) < 0 or buf_reserve(&self.keys.buf, rows) < 0
                or buf_reserve(&self.out.buf, rows * n + 1) < 0):
            raise MemoryError
        for i, key in enumerate(wanted):
            (<uint32_t*> self.keys.buf.data)[i] = key
        for i, sample in enumerate(samples):
            if not last <= sample < <int64_t> replay.r.events:
                raise ValueError("samples must be events in ascending order")
            (<int64_t*> at.buf.data)[i] = sample
            last = sample
        if _layers.layers_init(&self.y, <int64_t*> at.buf.data, n, rows, replay.r.events,
                               <int64_t*> self.out.buf.data) != OK:
            raise MemoryError

    def __dealloc__(self):
        _layers.layers_free(&self.y)

    cdef list rows(self, int code):
        cdef int64_t* out = <int64_t*> self.out.buf.data
        cdef uint64_t i
        if code != OK:
            raise MemoryError
        return [column(self.out, &out[i * self.y.samples], self.y.samples, b"q")
                for i in range(self.y.rows)]


def reserved_layers(Classes classes not None, wanted, samples, only=()) -> list:
    """Return a Column of reserved bytes after each sampled event, for each `wanted` class and for
    all other classes together.

    See `Classes.reserved_sums`.
    """
    cdef _classes.Only alone[2]
    cdef int n = take_only(classes.blocks, only, alone)
    cdef Layering y = Layering(classes.blocks.reserved.replay, wanted, samples)
    cdef int code
    with nogil:
        code = _layers.layers_of_reserved(&y.y, &classes.c, &classes.blocks.a, alone, n,
                                          <uint32_t*> y.keys.buf.data)
    return y.rows(code)
