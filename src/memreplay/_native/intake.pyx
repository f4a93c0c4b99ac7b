"""The window over the input, and the one loop that fills it and lets a reader run."""

from cpython.buffer cimport PyBUF_WRITE
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove
from memreplay._native.cursor cimport cursor_offset
from memreplay._native.status cimport NEED_MORE

from memreplay.errors import TruncatedError

cdef enum:
    WINDOW = 1 << 20    # bytes of input held at once


cdef class Intake:
    """The bytes that a reader sees: the tail of the last refill, then what the source gave."""

    def __cinit__(self, readinto, progress, bint salvage):
        self.readinto = readinto
        self.progress = progress
        self.salvage = salvage
        self.data = <uint8_t*> malloc(WINDOW)
        self.cap = WINDOW
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    cdef int refill(self, Cursor* cur, uint64_t need) except -1:
        # Moves what is not consumed to the front, and reads until the window is full or the input
        # ends.
        cdef size_t kept = <size_t> (cur.end - cur.p)
        cdef uint8_t* data
        cdef object n
        cdef object view
        cur.origin = cursor_offset(cur)
        if kept:
            memmove(self.data, cur.p, kept)
        if need > self.cap:
            data = <uint8_t*> realloc(self.data, need)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.cap = need
        while kept < self.cap:
            view = PyMemoryView_FromMemory(<char*> self.data + kept, <Py_ssize_t> (self.cap - kept),
                                           PyBUF_WRITE)
            try:
                n = self.readinto(view)
            except TruncatedError as error:
                if not self.salvage:
                    raise
                self.cut = error
                n = 0
            finally:
                # Nobody may write here later: the window moves, and goes.
                view.release()
            if not n:
                cur.eof = True
                break
            if not 0 < n <= <Py_ssize_t> (self.cap - kept):
                raise ValueError("readinto() gave an impossible length")
            kept += <size_t> n
        cur.base = self.data
        cur.p = self.data
        cur.end = self.data + kept
        return 0

    cdef int drive(self, void* reader, Step step, Cursor* cur, const uint64_t* need) except -1:
        # Without the GIL but for refills, signals and progress: once a window each.
        cdef int code
        while True:
            with nogil:
                code = step(reader)
            self.consumed = cursor_offset(cur)
            PyErr_CheckSignals()
            if self.progress is not None:
                self.progress(self.consumed)
            if code != NEED_MORE:
                return code
            self.refill(cur, need[0])
