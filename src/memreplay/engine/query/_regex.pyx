"""Python interface for searching regular expressions. Contains no algorithms."""

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from memreplay._core cimport Tables, new_seed
from memreplay.engine.base.status cimport ERR_MEMORY, OK
from memreplay.engine.query cimport named as _named
from memreplay.engine.query cimport regex as _regex
from memreplay.engine.read.column cimport Column, Owned, column, owned

NONE_FOUND = _regex.NONE_FOUND
NOT_USED = _named.NOT_USED


@cython.final
cdef class Regexes:
    """Regular expressions, each with the bits that it contributes to a text's result.

    Supports only part of the syntax; raises ValueError for the rest. `otherwise` returns the bits
    of a text that isn't ASCII.
    """

    cdef _regex.Regexes r
    cdef object otherwise

    def __cinit__(self, regexes, otherwise):
        cdef bytes pattern
        cdef uint64_t bits
        cdef int failed
        _regex.regexes_init(&self.r)
        self.otherwise = otherwise
        for bits, text in regexes:
            pattern = text.encode("utf-8", "surrogatepass")
            failed = _regex.regexes_add(&self.r, <const uint8_t*> <const char*> pattern,
                                        len(pattern), bits)
            if failed == ERR_MEMORY:
                raise MemoryError
            if failed != OK:
                raise ValueError(f"{text!r} is too many or too long for the engine, or has syntax"
                                 " that it doesn't know")

    def __dealloc__(self):
        _regex.regexes_free(&self.r)

    def search(self, str text not None) -> int:
        """Return the bits of all expressions found in a text."""
        cdef bytes raw
        if not text.isascii():
            return self.otherwise(text)
        raw = text.encode()
        return _regex.regexes_search(&self.r, <const uint8_t*> <const char*> raw, len(raw))

    def of_frames(self, Tables tables not None) -> Column:
        """Return the bits of each frame's `file:function`, as u64."""
        cdef Owned out = owned(8)
        cdef Owned others = owned(4)
        cdef uint64_t seed = new_seed()
        cdef uint32_t frame
        cdef size_t i
        cdef int failed
        with nogil:
            failed = _named.regexes_of_frames(&self.r, &tables.t, seed, &out.buf, &others.buf)
        if failed != OK:
            raise MemoryError
        known = {}
        for i in range(others.buf.len):
            frame = (<const uint32_t*> others.buf.data)[i]
            function, file, _ = tables.frame(frame)
            if (function, file) not in known:
                path = tables.string(file)[-_named.MOST_FILE:]
                text = f"{path}:{tables.string(function)[:_named.MOST_NAME]}"
                known[function, file] = self.otherwise(text)
            (<uint64_t*> out.buf.data)[frame] = known[function, file]
        return column(out, out.buf.data, out.buf.len, b"Q")

    def of_names(self, Tables tables not None, bint functions) -> bytes:
        """Return a byte per string: the lowest bit found in a function's or file's name, NONE_FOUND
        or NOT_USED.

        Files are searched with slashes in place of backslashes.
        """
        cdef Owned out = owned(1)
        cdef Owned others = owned(4)
        cdef uint32_t name
        cdef uint64_t found
        cdef size_t i
        cdef int failed
        with nogil:
            failed = _named.regexes_of_names(&self.r, &tables.t, functions, &out.buf, &others.buf)
        if failed != OK:
            raise MemoryError
        for i in range(others.buf.len):
            name = (<const uint32_t*> others.buf.data)[i]
            text = tables.string(name)
            found = self.otherwise(text if functions else text.replace("\\", "/"))
            (<uint8_t*> out.buf.data)[name] = _regex.lowest(found)
        return out.buf.data[:out.buf.len]
