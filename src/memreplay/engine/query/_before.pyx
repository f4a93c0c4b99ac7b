"""Python interface for guessing what memory from before the recording contains. Contains no
algorithms.
"""

cimport cython
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from memreplay._core cimport new_seed
from memreplay.engine.query cimport before as _before
from memreplay.engine.read.column cimport Column, Owned, column, owned
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.status cimport OK
from memreplay.engine.replay._timeline cimport Replay

IN_BACKWARD = _before.IN_BACKWARD
OF_BACKWARD = _before.OF_BACKWARD
AT_ZERO_GRAD = _before.AT_ZERO_GRAD
AT_EXIT = _before.AT_EXIT
IN_OPTIMIZER = _before.IN_OPTIMIZER
ONE_STATE = _before.ONE_STATE
TWO_STATES = _before.TWO_STATES


@cython.final
cdef class _Before:
    """Owns the native state."""

    cdef _before.Before b

    def __dealloc__(self):
        _before.before_free(&self.b)


def any_stackless(Replay replay not None) -> bool:
    """Whether any carried-over block has no stack."""
    return _before.any_stackless(&replay.r)


def likely(Replay replay not None, bint only_python, bytes marks) -> Column:
    """Return one guess per carried-over block, as a u32 with a `Likely` value (see before.pxd).

    `only_python`: no stack has C++ frames. `marks` has one byte of Mark bits per frame.
    """
    cdef _Before found = _Before.__new__(_Before)
    cdef Owned out = owned(4)
    cdef uint64_t n = replay.r.carried.len
    cdef int code = _before.before_init(&found.b, &replay.r, new_seed())
    if <uint64_t> len(marks) != replay.tables.n_frames:
        raise ValueError("need a mark for each frame")
    if code != OK or buf_reserve(&out.buf, n + 1) < 0:
        raise MemoryError
    found.b.only_python = only_python
    found.b.mark = marks
    with nogil:
        code = _before.before_find(&found.b)
    if code != OK:
        raise MemoryError
    memcpy(out.buf.data, found.b.of_carried.data, n * 4)
    return column(out, out.buf.data, n, b"I")
