"""Columns: one field of many rows, read-only and not copied. Each column keeps its owner alive."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init
from memreplay.engine.read.tables cimport Annotation, Carried, Block, FrameKey, Segment


cdef enum:
    # The bits that PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS and PyBUF_ANY_CONTIGUOUS have in addition
    # to PyBUF_STRIDES.
    CONTIGUOUS = 0x20 | 0x40 | 0x80


@cython.final
cdef class Column:
    """A read-only column of `len(memoryview(column))` numbers of one type.

    Keeps its owner alive.
    """

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef bint strided = self.strides[0] != self.itemsize and self.shape[0] > 1
        if flags & PyBUF_WRITABLE:
            raise BufferError("columns are read-only")
        if strided and (flags & PyBUF_STRIDES != PyBUF_STRIDES or flags & CONTIGUOUS):
            raise BufferError("this column isn't contiguous; request strides")
        view.obj = self
        view.buf = <void*> (self.data if self.data != NULL else <const void*> self.shape)
        view.len = self.shape[0] * self.itemsize
        view.itemsize = self.itemsize
        view.readonly = 1
        view.ndim = 1
        view.format = <char*> self.fmt if flags & PyBUF_FORMAT else NULL
        view.shape = self.shape if flags & PyBUF_ND else NULL
        view.strides = self.strides if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL

    def __init__(self):
        raise TypeError("only the engine creates columns")


cdef inline Py_ssize_t size_of(char fmt) noexcept nogil:
    """Return the size in bytes of a struct format letter."""
    return 1 if fmt == c"B" else 4 if fmt == c"I" or fmt == c"i" else 8


cdef Column column(object owner, const void* data, size_t n, bytes fmt, size_t stride=0):
    cdef Column c = Column.__new__(Column)
    c.owner = owner
    c.data = data
    c.fmt = fmt
    c.itemsize = size_of(fmt[0])
    c.shape[0] = <Py_ssize_t> n
    c.strides[0] = <Py_ssize_t> stride if stride else c.itemsize
    return c


@cython.final
cdef class Owned:
    """A native buffer that columns refer to."""

    def __dealloc__(self):
        buf_free(&self.buf)

    def __init__(self):
        raise TypeError("only the engine creates buffers")


cdef Owned owned(size_t itemsize):
    cdef Owned o = Owned.__new__(Owned)
    buf_init(&o.buf, itemsize)
    return o


cdef dict segment_fields():
    cdef Segment s
    cdef char* at = <char*> &s
    return {
        "address": (<char*> &s.address - at, b"Q"),
        "total_size": (<char*> &s.total_size - at, b"q"),
        "allocated_size": (<char*> &s.allocated_size - at, b"q"),
        "active_size": (<char*> &s.active_size - at, b"q"),
        "requested_size": (<char*> &s.requested_size - at, b"q"),
        "stream": (<char*> &s.stream - at, b"Q"),
        "device": (<char*> &s.device - at, b"i"),
        "pool": (<char*> &s.pool - at, b"I"),
        "stack": (<char*> &s.stack - at, b"I"),
        "type": (<char*> &s.kind - at, b"I"),
        "flags": (<char*> &s.flags - at, b"I"),
    }


cdef dict block_fields():
    cdef Block b
    cdef char* at = <char*> &b
    return {
        "address": (<char*> &b.address - at, b"Q"),
        "size": (<char*> &b.size - at, b"q"),
        "requested": (<char*> &b.requested - at, b"q"),
        "segment": (<char*> &b.segment - at, b"I"),
        "stack": (<char*> &b.stack - at, b"I"),
        "state": (<char*> &b.state - at, b"I"),
        "flags": (<char*> &b.flags - at, b"I"),
    }


cdef dict annotation_fields():
    cdef Annotation a
    cdef char* at = <char*> &a
    return {
        "time": (<char*> &a.time - at, b"q"),
        "name": (<char*> &a.name - at, b"I"),
        "stage": (<char*> &a.stage - at, b"I"),
        "device": (<char*> &a.device - at, b"i"),
    }


cdef dict frame_fields():
    cdef FrameKey f
    cdef char* at = <char*> &f
    return {
        "file": (<char*> &f.file - at, b"I"),
        "line": (<char*> &f.line - at, b"q"),
        "name": (<char*> &f.name - at, b"I"),
        "fx_op": (<char*> &f.fx_op - at, b"I"),
        "fx_name": (<char*> &f.fx_name - at, b"I"),
        "fx_target": (<char*> &f.fx_target - at, b"I"),
        "fx_trace": (<char*> &f.fx_trace - at, b"I"),
    }


cdef dict carried_fields():
    cdef Carried b
    cdef char* at = <char*> &b
    return {
        "address": (<char*> &b.address - at, b"Q"),
        "size": (<char*> &b.size - at, b"q"),
        "stack": (<char*> &b.stack - at, b"I"),
        "end": (<char*> &b.end - at, b"I"),
        "block": (<char*> &b.block - at, b"I"),
        "alloc_index": (<char*> &b.alloc_index - at, b"Q"),
    }


# Fields of the row structs: table -> field -> (offset, format).
FIELDS = {"segment": segment_fields(), "block": block_fields(), "annotation": annotation_fields(),
          "frame": frame_fields(), "carried": carried_fields()}


cdef Column field_column(object owner, const Buf* rows, size_t n, str table, str field):
    offset, fmt = FIELDS[table][field]
    # Interned frames are rows in a byte buffer.
    cdef size_t stride = sizeof(FrameKey) if table == "frame" else rows.itemsize
    return column(owner, rows.data + <size_t> offset if rows.data != NULL else NULL, n, fmt, stride)
