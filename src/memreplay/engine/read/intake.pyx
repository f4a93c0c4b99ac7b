"""The window over the input, and the loop that fills it and runs a reader."""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytearray cimport PyByteArray_AsString
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from memreplay.engine.base.cursor cimport cursor_offset
from memreplay.engine.base.status cimport NEED_MORE

from memreplay.errors import TruncatedError

cdef enum:
    WINDOW = 1 << 20    # bytes of input held in memory


cdef class Intake:
    """The bytes a reader sees: the tail of the previous window, then new input."""

    def __cinit__(self, readinto, ahead, progress):
        self.readinto = readinto
        self.ahead = ahead
        self.progress = progress
        self.data = <uint8_t*> malloc(WINDOW)
        self.cap = WINDOW
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    cdef int hold(self, Cursor* cur, size_t kept, size_t size) except -1:
        # Move unconsumed bytes to the front of `data`, and grow it to at least `size` bytes.
        cdef uint8_t* data
        if kept:
            memmove(self.data, cur.p, kept)
        if size > self.cap:
            data = <uint8_t*> realloc(self.data, size)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.cap = size
        cur.base = self.data
        cur.p = self.data
        cur.end = self.data + kept
        self.block = None
        return 0

    cdef int refill(self, Cursor* cur, uint64_t need) except -1:
        cdef size_t kept = <size_t> (cur.end - cur.p)
        cur.origin = cursor_offset(cur)
        cur.base = cur.p
        if self.begun and self.ahead is not None:
            return self.take(cur, kept, need)
        self.begun = True
        self.hold(cur, kept, need)
        return self.fill(cur, kept)

    cdef int fill(self, Cursor* cur, size_t kept) except -1:
        # Read until the window is full or the input ends.
        cdef object n
        cdef object view
        while kept < self.cap:
            view = PyMemoryView_FromMemory(<char*> self.data + kept, <Py_ssize_t> (self.cap - kept),
                                           PyBUF_WRITE)
            try:
                n = self.readinto(view)
            except TruncatedError as error:
                self.cut = error
                n = 0
            finally:
                # The source must not keep the view and write to it later, because the buffer moves
                # and is freed.
                view.release()
            if not n:
                cur.eof = True
                break
            if not 0 < n <= <Py_ssize_t> (self.cap - kept):
                raise ValueError("readinto() gave an impossible length")
            kept += <size_t> n
        cur.end = self.data + kept
        return 0

    cdef int take(self, Cursor* cur, size_t kept, uint64_t need) except -1:
        # Make the next block the window, and copy unconsumed bytes into the space before it. If
        # they don't fit there, or if one block isn't enough, join both in `data`.
        cdef size_t start, stop
        cdef uint8_t* data
        while True:
            block, start, stop, error = self.ahead()
            if error is not None:
                if not isinstance(error, TruncatedError):
                    raise error
                self.cut = error
            cur.eof = error is not None or stop < <size_t> len(block)
            data = <uint8_t*> PyByteArray_AsString(block)
            if kept <= start and (kept + (stop - start) >= need or cur.eof):
                memcpy(data + start - kept, cur.p, kept)
                cur.base = data + start - kept
                cur.p = cur.base
                cur.end = data + stop
                self.block = block
                return 0
            self.hold(cur, kept, max(need, kept + (stop - start)))
            memcpy(self.data + kept, data + start, stop - start)
            kept += stop - start
            cur.end = self.data + kept
            if kept >= need or cur.eof:
                return 0

    cdef int drive(self, void* reader, Step step, Cursor* cur, const uint64_t* need) except -1:
        # Take the GIL once per window, for refills, signals and progress.
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
