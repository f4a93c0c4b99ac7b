"""Python interface to encoding columns for the page. Contains no algorithms."""

cimport cython
from libc.stdint cimport uint8_t, uint64_t
from memreplay.engine.query._vectors cimport Vector
from memreplay.engine.write cimport planes as _planes


@cython.final
cdef class Folded:
    """Numbers in zigzag encoding."""
    cdef Vector values
    cdef Vector less
    cdef _planes.Values v

    def __cinit__(self, Vector values not None, Vector less, bint differences):
        if less is not None and len(less) != len(values):
            raise ValueError(f"{len(less)} numbers to subtract from {len(values)}")
        self.values = values
        self.less = less
        self.v.values = values.v
        self.v.less.n = 0
        if less is not None:
            self.v.less = less.v
        self.v.differences = differences

    def highest(self) -> int:
        """Return the highest number; 0 if there are none."""
        cdef uint64_t found
        with nogil:
            found = _planes.highest(&self.v)
        return found

    def split(self, int width, uint8_t[::1] out not None) -> None:
        """Store the `width` lowest bytes of each number, in planes."""
        if not 0 <= width <= 8 or out.shape[0] != width * self.v.values.n:
            raise ValueError("the planes don't fit")
        if out.shape[0]:
            with nogil:
                _planes.split(&self.v, width, &out[0])
