# Find an event's call stack: the spans on the same thread that enclose it.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans

cdef enum:
    DEEPEST_STACK = 256    # maximum frames per stack; the innermost frames are kept

cdef extern from *:
    # bit in a frame's code: a Python call, not an operator
    const uint32_t PYTHON_FRAME "0x80000000u"


cdef struct Nesting:
    Spans stacks           # u32 codes of frames, innermost first
    Buf stack_of           # u32, stack of each memory event
    Buf open               # u32, open spans, outermost first
    Buf known              # u32 per span: stack of the events directly inside it, or NONE32
    Buf codes              # scratch


cdef int nesting_init(Nesting* n, uint64_t seed) noexcept nogil
cdef void nesting_free(Nesting* n) noexcept nogil
cdef int nest(Nesting* n, const Buf* spans, const Buf* memory, const uint32_t* order,
              uint64_t entries) noexcept nogil
