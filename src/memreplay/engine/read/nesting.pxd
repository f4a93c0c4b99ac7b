# Which spans of a trace enclose an event on its thread: its call stack.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Spans

cdef enum:
    DEEPEST_STACK = 256    # frames of a stack, the innermost ones

cdef extern from *:
    const uint32_t PYTHON_FRAME "0x80000000u"   # in a frame's code: a Python call, not an operator


cdef struct Nesting:
    Spans stacks           # u32 codes of frames, innermost first
    Buf stack_of           # u32 a memory event -> its stack
    Buf open               # u32 the spans that are open, outermost first
    Buf known              # u32 a span -> the stack of what it is the innermost of, or NONE32
    Buf codes              # scratch


cdef int nesting_init(Nesting* n, uint64_t seed) noexcept nogil
cdef void nesting_free(Nesting* n) noexcept nogil
cdef int nest(Nesting* n, const Buf* spans, const Buf* memory, const uint32_t* order,
              uint64_t entries) noexcept nogil
