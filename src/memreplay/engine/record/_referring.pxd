# Declares Referrers for the module that finds out who holds blocks.
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from memreplay.engine.base.growbuf cimport Buf
from memreplay.engine.base.hashmap cimport Map64

cdef struct Node:
    # Everything known about one object. NONE32: nothing.
    uint32_t kind              # whether it's a variable's value, see Kind
    uint32_t parent            # the next object on its way to a variable
    uint32_t root              # the object at the start of its way
    uint32_t first_child       # edges
    uint32_t last_child
    uint32_t first_referrer
    uint32_t last_referrer
    uint32_t name              # the caller's number for what holds it
    uint32_t name_of_items     # the same for all objects that it refers to
    uint32_t wanted            # the last round that looked for its referrers
    uint32_t touched           # the last round in which it referred to a wanted object

cdef class Referrers:
    cdef readonly list objects
    cdef Map64 places          # address -> index in `objects` + 1
    cdef Map64 variables       # address of a value -> its kind
    cdef Buf nodes             # Node, one for each object
    cdef Buf edges             # Edge, one for each reference
    cdef uint32_t rounds

    cdef Node* node(self, size_t at) except NULL
    cdef uint32_t put(self, PyObject* one) except? 0xFFFFFFFF
    cdef uint32_t name_of(self, uint32_t at) noexcept
    cdef int refer(self, uint32_t child, uint32_t parent) except -1
    cdef int connect_some(self, uint32_t* found, size_t n) except -1
