"""Python interface to computing with columns of integers. Contains no algorithms."""

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from memreplay.engine.base.growbuf cimport buf_reserve
from memreplay.engine.base.hashmap cimport NONE32
from memreplay.engine.base.status cimport OK
from memreplay.engine.query cimport vectors as _vectors
from memreplay.engine.query.vectors cimport Op, Totals, View
from memreplay.engine.read.column cimport Owned, owned


cdef enum:
    # The bits that PyBUF_C_CONTIGUOUS and the like have in addition to PyBUF_STRIDES.
    CONTIGUOUS = 0x20 | 0x40 | 0x80

cdef frozenset FORMATS = frozenset((b"?", b"B", b"i", b"I", b"q", b"Q"))
# `long` has as many bytes as the platform says.
cdef dict LONG = {(b"l", 4): b"i", (b"L", 4): b"I", (b"l", 8): b"q", (b"L", 8): b"Q"}


@cython.final
cdef class Lent:
    """Another object's buffer."""
    cdef Py_buffer buffer
    cdef bint held

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


@cython.final
cdef class Vector:
    """A column of integers; `_vectors.pyi` describes its operations."""

    def __init__(self):
        raise TypeError("use vector(), zeros() and the like")

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef int64_t size = _vectors.item_size(self.v.format)
        cdef bint strided = self.v.stride != size and self.v.n > 1
        if flags & PyBUF_WRITABLE and not is_changeable(self):
            raise BufferError("this vector is read-only")
        if strided and (flags & PyBUF_STRIDES != PyBUF_STRIDES or flags & CONTIGUOUS):
            raise BufferError("this vector isn't contiguous; request strides")
        self.shape[0] = self.v.n
        self.strides[0] = self.v.stride
        view.obj = self
        view.buf = <void*> (self.v.data if self.v.data != NULL else <const char*> self.shape)
        view.len = self.v.n * size
        view.itemsize = size
        view.readonly = not is_changeable(self)
        view.ndim = 1
        view.format = letter(self.v.format) if flags & PyBUF_FORMAT else NULL
        view.shape = self.shape if flags & PyBUF_ND else NULL
        view.strides = self.strides if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL

    def __len__(self):
        return self.v.n

    def __repr__(self):
        return f"<Vector: {self.v.n} of {chr(self.v.format)}>"

    @property
    def format(self):
        return chr(self.v.format)

    def tolist(self):
        return memoryview(self).tolist()

    def __iter__(self):
        return iter(self.tolist())

    def as_format(self, str fmt):
        cdef char wanted = format_of(fmt)
        cdef Vector out
        if wanted == self.v.format and self.v.stride == _vectors.item_size(wanted):
            return self
        out = made(self.v.n, wanted)
        with nogil:
            _vectors.copy_rows(&self.v, <char*> out.v.data, wanted)
        return out

    def copy(self):
        cdef Vector out = made(self.v.n, self.v.format)
        _vectors.copy_rows(&self.v, <char*> out.v.data, self.v.format)
        return out

    # ---- element by element

    def __add__(self, other):
        return combined(Op.ADD, self, other)

    def __radd__(self, other):
        return combined(Op.ADD, other, self)

    def __sub__(self, other):
        return combined(Op.SUBTRACT, self, other)

    def __rsub__(self, other):
        return combined(Op.SUBTRACT, other, self)

    def __mul__(self, other):
        return combined(Op.MULTIPLY, self, other)

    def __rmul__(self, other):
        return combined(Op.MULTIPLY, other, self)

    def __floordiv__(self, other):
        if not isinstance(other, int) or other <= 0 or self.v.format == c"Q":
            raise ValueError("vectors of signed numbers can be divided by one positive number")
        return combined(Op.DIVIDE, self, other)

    def __lshift__(self, other):
        return shifted(Op.SHIFT_LEFT, self, other)

    def __rshift__(self, other):
        cdef Op op = Op.SHIFT_UNSIGNED if self.v.format == c"Q" else Op.SHIFT_RIGHT
        return shifted(op, self, other)

    def __and__(self, other):
        return combined(Op.AND, self, other)

    def __rand__(self, other):
        return combined(Op.AND, self, other)

    def __or__(self, other):
        return combined(Op.OR, self, other)

    def __ror__(self, other):
        return combined(Op.OR, self, other)

    def __invert__(self):
        if self.v.format != c"?":
            raise TypeError("only flags can be inverted")
        return combined(Op.XOR, self, True)

    def __neg__(self):
        return combined(Op.SUBTRACT, 0, self)

    def __abs__(self):
        return combined(Op.HIGHER, self, -self)

    def __richcmp__(self, other, int op):
        if op == 0:
            return combined(Op.LESS, self, other)
        if op == 1:
            return combined(Op.LESS_EQUAL, self, other)
        if op == 2:
            return combined(Op.EQUAL, self, other)
        if op == 3:
            return combined(Op.NOT_EQUAL, self, other)
        if op == 4:
            return combined(Op.GREATER, self, other)
        return combined(Op.GREATER_EQUAL, self, other)

    __hash__ = None

    def lower(self, other):
        return combined(Op.LOWER, self, other)

    def higher(self, other):
        return combined(Op.HIGHER, self, other)

    def scaled(self, double factor):
        cdef Vector out = made(self.v.n, c"q")
        with nogil:
            _vectors.scale(&self.v, factor, <int64_t*> out.v.data)
        return out

    def reaches(self, double factor, Vector other not None):
        cdef Vector out = made(self.v.n, c"?")
        same_length(self, other)
        with nogil:
            _vectors.reaches(&self.v, factor, &other.v, <char*> out.v.data)
        return out

    # ---- whole columns

    cdef Totals totals(self):
        cdef Totals t
        with nogil:
            t = _vectors.totals(&self.v)
        return t

    def sum(self):
        return number(self.totals().sum, c"Q" if self.v.format == c"Q" else c"q")

    def min(self, initial=None):
        return least_or(self, self.totals().least, initial, min)

    def max(self, initial=None):
        return least_or(self, self.totals().most, initial, max)

    def argmax(self):
        if self.v.n == 0:
            raise ValueError("an empty vector has no maximum")
        return self.totals().most_at

    def count(self):
        return self.totals().nonzero

    def any(self):
        return self.totals().nonzero != 0

    def all(self):
        return self.totals().nonzero == self.v.n

    def any_bits(self):
        return self.totals().some

    def all_bits(self):
        return self.totals().every

    def sums(self):
        cdef Vector out = made(self.v.n, c"Q" if self.v.format == c"Q" else c"q")
        with nogil:
            _vectors.running_sums(&self.v, <int64_t*> out.v.data)
        return out

    def highest_less(self, Vector changes not None, int64_t least):
        cdef int64_t found
        same_length(self, changes)
        with nogil:
            found = _vectors.highest_less(&self.v, &changes.v, least)
        return found

    def extremes(self, starts):
        cdef Vector firsts = as_vector(starts)
        cdef Vector lowest = made(firsts.v.n, c"I")
        cdef Vector highest = made(firsts.v.n, c"I")
        cdef int64_t wrong
        if self.v.n >= NONE32:
            raise ValueError("too many rows")
        with nogil:
            wrong = _vectors.extremes(&self.v, &firsts.v, <uint32_t*> lowest.v.data,
                                      <uint32_t*> highest.v.data)
        if wrong >= 0:
            raise IndexError(_vectors.item(&firsts.v, wrong))
        return lowest, highest

    # ---- rows

    def __getitem__(self, key):
        cdef Vector rows, out
        cdef int64_t wrong, row
        if isinstance(key, slice):
            return sliced(self, key)
        if not isinstance(key, Vector):
            row = key
            if row < 0:
                row += self.v.n
            if not 0 <= row < self.v.n:
                raise IndexError(key)
            return number(_vectors.item(&self.v, row), self.v.format)
        rows = key
        if rows.v.format == c"?":
            same_length(self, rows)
            out = made(rows.count(), self.v.format)
            with nogil:
                _vectors.select(&self.v, &rows.v, <char*> out.v.data)
            return out
        out = made(rows.v.n, self.v.format)
        with nogil:
            wrong = _vectors.take(&self.v, &rows.v, <char*> out.v.data, self.v.format)
        if wrong >= 0:
            raise IndexError(_vectors.item(&rows.v, wrong))
        return out

    def __setitem__(self, key, value):
        cdef Vector rows, values, part
        cdef int64_t wrong
        cdef char* at = changeable(self)
        if isinstance(key, slice):
            part = sliced(self, key)
            if part.v.stride != _vectors.item_size(self.v.format):
                raise ValueError("only consecutive rows can be set")
            values = spread(value, part.v.n)
            _vectors.copy_rows(&values.v, <char*> part.v.data, self.v.format)
            return
        rows = key if isinstance(key, Vector) else vector([key])
        if rows.v.format == c"?":
            same_length(self, rows)
            values = spread(value, rows.count())
            with nogil:
                _vectors.put_selected(at, self.v.format, &rows.v, &values.v)
            return
        values = spread(value, rows.v.n)
        with nogil:
            wrong = _vectors.put(at, self.v.format, self.v.n, &rows.v, &values.v)
        if wrong >= 0:
            raise IndexError(_vectors.item(&rows.v, wrong))

    def add_at(self, Vector rows not None, values):
        cdef Vector added = spread(values, rows.v.n)
        cdef int64_t* at = <int64_t*> changeable(self)
        cdef int64_t wrong
        if self.v.format != c"q" or rows.v.format == c"?":
            raise TypeError("only signed 64-bit numbers can be added to, by row numbers")
        with nogil:
            wrong = _vectors.add_at(at, self.v.n, &rows.v, &added.v)
        if wrong >= 0:
            raise IndexError(_vectors.item(&rows.v, wrong))

    def rows(self):
        cdef Vector out
        if self.v.n >= NONE32:
            raise ValueError("too many rows")
        out = made(self.count(), c"I")
        with nogil:
            _vectors.nonzero(&self.v, <uint32_t*> out.v.data)
        return out

    # ---- sorting and searching

    def order(self):
        cdef Vector out = made(self.v.n, c"I")
        cdef int code
        with nogil:
            code = _vectors.sorted_order(&self.v, <uint32_t*> out.v.data)
        if code != OK:
            raise MemoryError
        return out

    def sorted(self):
        return self[self.order()]

    def places(self, values, bint right=False):
        cdef Vector wanted = as_vector(values)
        cdef Vector out = made(wanted.v.n, c"I")
        cdef int code
        if wanted.v.n and self.v.n:
            same_order(self, wanted)
        with nogil:
            code = _vectors.places_in(&self.v, &wanted.v, right, <uint32_t*> out.v.data)
        if code != OK:
            raise MemoryError
        return out

    def numbered(self):
        cdef Vector places = made(self.v.n, c"I")
        cdef Owned found = owned(8)
        cdef Vector values = Vector.__new__(Vector)
        cdef int code
        with nogil:
            code = _vectors.distinct(&self.v, &found.buf, <uint32_t*> places.v.data)
        if code != OK:
            raise MemoryError
        values.owner = found
        values.v = View(found.buf.data, 8, found.buf.len, c"Q" if self.v.format == c"Q" else c"q")
        return values, places

    def distinct(self):
        return self.numbered()[0]

    def is_in(self, values):
        cdef Vector of = as_vector(values).distinct()
        cdef Vector out = made(self.v.n, c"?")
        cdef int code
        if of.v.n and self.v.n:
            same_order(self, of)
        with nogil:
            code = _vectors.members(&self.v, &of.v, <char*> out.v.data)
        if code != OK:
            raise MemoryError
        return out

    def counts(self, Py_ssize_t least=0):
        cdef Vector out = zeros(max(least, self.max(initial=-1) + 1))
        out.add_at(self, 1)
        return out


# ---- creating vectors

cdef char* letter(char format) noexcept:
    # Return a format's null-terminated name.
    if format == c"?":
        return b"?"
    if format == c"B":
        return b"B"
    if format == c"i":
        return b"i"
    if format == c"I":
        return b"I"
    return b"q" if format == c"q" else b"Q"


cdef char format_of(str fmt) except *:
    if fmt.encode() not in FORMATS:
        raise ValueError(f"unknown format {fmt!r}")
    return <char> ord(fmt)


cdef Vector made(int64_t n, char format):
    # Return a vector with room for n numbers, not set yet.
    cdef Vector out = Vector.__new__(Vector)
    cdef Owned memory = owned(_vectors.item_size(format))
    if n < 0:
        raise ValueError("a vector can't have fewer than 0 rows")
    if buf_reserve(&memory.buf, max(n, 1)) < 0:
        raise MemoryError
    out.owner = memory
    out.v = View(memory.buf.data, _vectors.item_size(format), n, format)
    return out


cdef bint is_changeable(Vector v) noexcept:
    # Return whether a vector owns its memory, and its rows are consecutive.
    return isinstance(v.owner, Owned) and v.v.stride == _vectors.item_size(v.v.format)


cdef char* changeable(Vector v) except NULL:
    # Return the memory of a vector that can be changed.
    if not is_changeable(v):
        raise TypeError("this vector is read-only")
    return <char*> v.v.data


cdef object number(int64_t value, char format):
    return <uint64_t> value if format == c"Q" else value != 0 if format == c"?" else value


cdef object least_or(Vector v, int64_t found, object initial, object of):
    if v.v.n == 0:
        if initial is None:
            raise ValueError("an empty vector has neither minimum nor maximum")
        return initial
    return number(found, v.v.format) if initial is None else of(number(found, v.v.format), initial)


cdef Vector as_vector(object source):
    return source if isinstance(source, Vector) else vector(source)


cdef Vector spread(object value, int64_t n):
    # Return a vector of this length. A number is repeated.
    cdef Vector out
    if isinstance(value, int):
        return constant(value, n)
    out = as_vector(value)
    if out.v.n != n:
        raise ValueError(f"{out.v.n} values for {n} rows")
    return out


cdef int same_length(Vector a, Vector b) except -1:
    if a.v.n != b.v.n:
        raise ValueError(f"vectors of different lengths: {a.v.n} and {b.v.n}")
    return 0


cdef bint is_signed(Vector v) noexcept:
    return v.v.format == c"q" or v.v.format == c"i"


cdef int same_order(Vector a, Vector b) except -1:
    # Signed and unsigned 64-bit numbers can't be compared.
    if a.v.format != b.v.format and (a.v.format == c"Q" or b.v.format == c"Q"):
        raise TypeError("vectors of unsigned 64-bit numbers only compare with each other")
    return 0


cdef Vector combined(Op op, object first, object second):
    cdef Vector a, b, out
    cdef char format
    cdef bint unsigned
    if isinstance(first, Vector):
        a = first
        b = constant_like(second, a) if isinstance(second, int) else as_vector(second)
    else:
        b = second
        a = constant_like(first, b) if isinstance(first, int) else as_vector(first)
    same_length(a, b)
    unsigned = op >= Op.LOWER and op != Op.EQUAL and op != Op.NOT_EQUAL and (
        a.v.format == c"Q" or b.v.format == c"Q"
    )
    if unsigned and (is_signed(a) or is_signed(b)):
        same_order(a, b)
    if op >= Op.LESS or (a.v.format == c"?" and b.v.format == c"?" and Op.AND <= op <= Op.XOR):
        format = c"?"
    else:
        format = c"Q" if a.v.format == c"Q" or b.v.format == c"Q" else c"q"
    out = made(a.v.n, format)
    with nogil:
        _vectors.combine(op, &a.v, &b.v, unsigned, <char*> out.v.data, format)
    return out


cdef Vector shifted(Op op, Vector a, object bits):
    if not isinstance(bits, int) or not 0 <= bits < 64:
        raise ValueError("vectors can be shifted by 0 to 63 bits")
    return combined(op, a, bits)


cdef Vector constant_like(object value, Vector other):
    # Return a number as a vector that can be combined with another one.
    if isinstance(value, bool) and other.v.format == c"?":
        return constant(value, other.v.n, "?")
    if other.v.format == c"Q" and value >= 0:
        return constant(value, other.v.n, "Q")
    return constant(value, other.v.n)


cdef Vector sliced(Vector v, object key):
    cdef Vector out = Vector.__new__(Vector)
    cdef int64_t start, stop, step, n
    start, stop, step = key.indices(v.v.n)
    n = len(range(start, stop, step))
    out.owner = v.owner
    out.v = View(v.v.data, v.v.stride * step, n, v.v.format)
    if n:
        out.v.data += start * v.v.stride
    return out


def vector(source, str fmt="q") -> Vector:
    cdef Vector out
    cdef Lent lent
    cdef bytes letters
    if isinstance(source, Vector):
        return source
    if isinstance(source, (list, tuple, range)):
        out = made(len(source), format_of(fmt))
        fill(out, source)
        return out
    lent = Lent.__new__(Lent)
    PyObject_GetBuffer(source, &lent.buffer, PyBUF_FORMAT | PyBUF_STRIDES)
    lent.held = True
    letters = b"B" if lent.buffer.format == NULL else <bytes> lent.buffer.format
    letters = LONG.get((letters, lent.buffer.itemsize), letters)
    if lent.buffer.ndim != 1 or letters not in FORMATS:
        raise ValueError(f"a column of integers is needed, not one of {letters.decode()!r}")
    out = Vector.__new__(Vector)
    out.owner = lent
    out.v = View(<const char*> lent.buffer.buf, lent.buffer.strides[0], lent.buffer.shape[0],
                 letters[0])
    if out.v.n and (<size_t> out.v.data | <size_t> out.v.stride) % <size_t> lent.buffer.itemsize:
        return aligned(out)
    return out


cdef Vector aligned(Vector v):
    # Copy numbers that may have any address, such as those in the middle of bytes.
    cdef int64_t size = _vectors.item_size(v.v.format)
    cdef Vector out = made(v.v.n, v.v.format)
    cdef int64_t i
    for i in range(v.v.n):
        memcpy(<char*> out.v.data + i * size, v.v.data + i * v.v.stride, size)
    return out


cdef int fill(Vector out, object source) except -1:
    cdef View one
    cdef int64_t value
    cdef int64_t size = _vectors.item_size(out.v.format)
    cdef int64_t i = 0
    for item in source:
        value = <int64_t> <uint64_t> item if out.v.format == c"Q" else item
        one = View(<const char*> &value, 8, 1, c"q")
        _vectors.copy_rows(&one, <char*> out.v.data + i * size, out.v.format)
        i += 1
    return 0


def zeros(Py_ssize_t n, str fmt="q") -> Vector:
    cdef Vector out = made(n, format_of(fmt))
    memset(<char*> out.v.data, 0, n * _vectors.item_size(out.v.format))
    return out


def constant(value, Py_ssize_t n, str fmt="q") -> Vector:
    cdef Vector out = vector([value], fmt)
    if n < 0:
        raise ValueError("a vector can't have fewer than 0 rows")
    out.v.stride = 0
    out.v.n = n
    return out


def counting(Py_ssize_t n) -> Vector:
    cdef Vector out = made(n, c"q")
    cdef int64_t i
    for i in range(n):
        (<int64_t*> out.v.data)[i] = i
    return out


def joined(parts, str fmt="q") -> Vector:
    cdef list each = [as_vector(one) for one in parts]
    cdef Vector out = made(sum([len(one) for one in each]), format_of(fmt))
    cdef Vector part
    cdef int64_t size = _vectors.item_size(out.v.format)
    cdef char* at = <char*> out.v.data
    for part in each:
        with nogil:
            _vectors.copy_rows(&part.v, at, out.v.format)
        at += part.v.n * size
    return out


def joined_rows(first, every, Vector rows not None, str fmt) -> Vector:
    cdef Vector before = as_vector(first)
    cdef Vector values = as_vector(every)
    cdef Vector out = made(before.v.n + rows.v.n, format_of(fmt))
    cdef char* at = <char*> out.v.data
    cdef int64_t wrong
    with nogil:
        _vectors.copy_rows(&before.v, at, out.v.format)
        at += before.v.n * _vectors.item_size(out.v.format)
        wrong = _vectors.take(&values.v, &rows.v, at, out.v.format)
    if wrong >= 0:
        raise IndexError(_vectors.item(&rows.v, wrong))
    return out


def chosen(Vector mask not None, first, second) -> Vector:
    cdef Vector a = spread(first, mask.v.n)
    cdef Vector b = spread(second, mask.v.n)
    cdef char format = c"Q" if a.v.format == c"Q" and b.v.format == c"Q" else c"q"
    cdef Vector out = made(mask.v.n, format)
    with nogil:
        _vectors.choose(&mask.v, &a.v, &b.v, <char*> out.v.data, format)
    return out


def row_distances(
    Vector rows not None, int64_t width, int64_t row, Vector others not None
) -> Vector:
    cdef Vector out = made(others.v.n, c"q")
    cdef const int64_t* at = <const int64_t*> rows.v.data
    cdef int64_t count = rows.v.n // max(width, 1)
    if rows.v.format != c"q" or rows.v.stride != 8 or width < 1:
        raise ValueError("the rows must be signed 64-bit numbers")
    if not 0 <= row < count or (others.v.n and not 0 <= others.min() <= others.max() < count):
        raise IndexError("there is no such row")
    with nogil:
        _vectors.row_distances(at, width, at + row * width, &others.v, <int64_t*> out.v.data)
    return out
