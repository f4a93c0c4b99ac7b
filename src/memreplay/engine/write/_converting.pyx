"""Python interface for converting a snapshot's bytes to other protocols, to JSON, and from JSON.

Contains no algorithms; loaded on first use. All content is preserved, including unknown keys.
"""

cimport cython
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memmove
from memreplay._core cimport new_seed
from memreplay.engine.write cimport json_values as _json_values
from memreplay.engine.write cimport spelling as _spelling
from memreplay.engine.write cimport transcode as _transcode
from memreplay.engine.base.emit cimport given
from memreplay.engine.base.status cimport DONE, ERR_LIMIT, ERR_MEMORY, NEED_MORE

from memreplay.errors import LimitError, SnapshotError

cdef enum:
    CHUNK = 1 << 20
    LIMIT_FREE = 64 << 20
    LIMIT_RATIO = 100

PLAIN = "memreplay export --format ndjson writes the parts that memreplay reads"


@cython.final
cdef class Transcoder:
    """Rewrite a pickle in another protocol, from bytes to bytes."""

    cdef _transcode.Transcode t
    cdef bytes left

    def __cinit__(self, int protocol):
        if not 2 <= protocol <= 5:
            raise ValueError(protocol)
        _transcode.transcode_init(&self.t, protocol)
        self.left = b""

    def __dealloc__(self):
        _transcode.transcode_free(&self.t)

    @property
    def ended(self) -> bool:
        """Whether STOP was reached; anything after it is ignored."""
        return self.t.ended

    def feed(self, data: bytes) -> bytes:
        """Take more input and return the output that is complete.

        Raises SnapshotError for content that the protocol doesn't support.
        """
        cdef bytes whole = self.left + data if self.left else data
        cdef const uint8_t* p = whole
        cdef size_t n = len(whole)
        cdef size_t taken = 0
        cdef size_t done
        cdef int code
        if self.t.ended and not self.t.out.failed:
            return b""
        with nogil:
            code = _transcode.transcode_feed(&self.t, p, n, &taken)
        if code == ERR_MEMORY:
            raise MemoryError
        if code != NEED_MORE and code != DONE:
            raise SnapshotError(
                f"not possible in protocol {self.t.protocol}: {self.t.wrong.decode()}",
                offset=self.t.offset, hint=PLAIN)
        self.t.out.failed = True  # until everything succeeds
        self.left = whole[taken:]
        # Hold back an open frame until it's closed.
        done = self.t.frame if self.t.framing else self.t.out.b.len
        out = given(&self.t.out, done)
        if done:
            memmove(self.t.out.b.data, self.t.out.b.data + done, self.t.out.b.len - done)
            self.t.out.b.len -= done
            self.t.frame = 0
        return out


@cython.final
cdef class Spelled:
    """Converts a pickle to JSON: an iterator over bytes that can be restarted.

    Holds the whole text in memory.
    """

    cdef _spelling.Spelling s
    cdef bytes data
    cdef size_t at

    def __cinit__(self, bytes data not None):
        cdef const uint8_t* p = data
        cdef uint64_t n = len(data)
        cdef int code
        self.data = data
        _spelling.spelling_init(&self.s, p, n, LIMIT_FREE + LIMIT_RATIO * n)
        with nogil:
            code = _spelling.spelling_run(&self.s)
        if code == ERR_LIMIT:
            raise LimitError(f"the JSON is more than {LIMIT_RATIO} times as long as the pickle",
                             hint="slice it first, or " + PLAIN)
        if code == ERR_MEMORY:
            raise MemoryError
        if code != DONE:
            raise SnapshotError(f"not possible in JSON: {self.s.wrong.decode()}",
                                offset=self.s.p - self.s.start, hint=PLAIN)

    def __dealloc__(self):
        _spelling.spelling_free(&self.s)

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        cdef bytes out = PyBytes_FromStringAndSize(NULL, CHUNK)
        cdef uint8_t* to = <uint8_t*> PyBytes_AsString(out)
        cdef size_t at = self.at
        cdef size_t n
        PyErr_CheckSignals()
        with nogil:
            n = _spelling.spelling_take(&self.s, &at, to, CHUNK)
        if n == 0:
            raise StopIteration
        out = out[:n]
        self.at = at
        return out


@cython.final
cdef class Pickled:
    """Converts JSON to a pickle: an iterator over bytes."""

    cdef _json_values.Reading r
    cdef bytes data

    def __cinit__(self, bytes data not None, int protocol):
        cdef const uint8_t* p = data
        cdef int code
        if not 2 <= protocol <= 5:
            raise ValueError(protocol)
        self.data = data
        code = _json_values.reading_init(&self.r, p, len(data), protocol, new_seed())
        if code != 0:
            raise MemoryError

    def __dealloc__(self):
        _json_values.reading_free(&self.r)

    def __iter__(self):
        return self

    def __next__(self):
        cdef int code
        PyErr_CheckSignals()
        if self.r.ended and not self.r.out.failed:
            raise StopIteration
        with nogil:
            code = _json_values.reading_step(&self.r, CHUNK)
        if code == ERR_MEMORY:
            raise MemoryError
        if code != NEED_MORE and code != DONE:
            raise SnapshotError(f"broken JSON: {self.r.wrong.decode()}",
                                offset=self.r.p - self.r.start)
        return given(&self.r.out, self.r.out.b.len)
