"""Find the objects that refer to others, as the garbage collector sees them."""

import gc

from cpython.list cimport PyList_Append, PyList_GetItem, PyList_Size
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from memreplay._core cimport new_seed
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_u32
from memreplay.engine.base.hashmap cimport (
    NONE32, Map64, Slot64, map64_at, map64_free, map64_get, map64_init,
)

cdef extern from *:
    """
    static void traverse(PyObject *one, visitproc visit, void *data) {
        traverseproc each = (traverseproc) PyType_GetSlot(Py_TYPE(one), Py_tp_traverse);
        if (each != NULL) each(one, visit, data);
    }
    """
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    void traverse(PyObject*, visitproc, void*)


cdef struct Search:
    const Map64* wanted    # address -> its place
    Buf* hits              # places of the wanted objects that one object refers to
    bint failed


cdef int visited(PyObject* one, void* data) noexcept:
    cdef Search* search = <Search*> data
    cdef uint32_t at = map64_get(search.wanted, <uint64_t> <size_t> one, NONE32)
    if at != NONE32 and push_u32(search.hits, at) != 0:
        search.failed = True
    return 0


cdef class Referrers:
    """A growing list of objects, and who refers to them.

    Holds one reference to each of its objects. Nothing here runs the program's code.
    """

    cdef readonly list objects
    cdef Map64 places      # address -> index in `objects` + 1

    def __cinit__(self) -> None:
        self.objects = []
        if map64_init(&self.places, new_seed()) != 0:
            raise MemoryError

    def __dealloc__(self) -> None:
        map64_free(&self.places)

    def add(self, one: object) -> int:
        """Add an object, and return its index."""
        cdef Slot64* slot = map64_at(&self.places, <uint64_t> <size_t> <PyObject*> one, 0)
        if slot == NULL:
            raise MemoryError
        if slot.value == 0:
            self.objects.append(one)
            slot.value = <uint32_t> len(self.objects)
        return slot.value - 1

    def widen(self, wanted: list, ignored: set) -> list:
        """Find all tracked objects that refer to some of these (by index), and add them.

        Returns pairs (index of the object, index of its referrer); one for each reference.
        `ignored`: ids of objects that don't count as referrers.
        """
        # Like living(): nothing releases the GIL while `objects` has all objects of the program.
        cdef Map64 places
        cdef Buf hits, counts
        cdef Search search
        cdef Slot64* slot
        cdef list found = [], pairs = [], objects
        cdef Py_ssize_t at, n
        cdef size_t before, i = 0, j
        cdef PyObject* one
        cdef set skipped = ignored | {id(x) for x in (self.objects, found, pairs, wanted, ignored)}
        if map64_init(&places, new_seed()) != 0:
            raise MemoryError
        buf_init(&hits, sizeof(uint32_t))
        buf_init(&counts, sizeof(uint32_t))
        search.wanted, search.hits, search.failed = &places, &hits, False
        try:
            for index in wanted:
                slot = map64_at(
                    &places, <uint64_t> <size_t> <PyObject*> PyList_GetItem(self.objects, index), 0
                )
                if slot == NULL:
                    raise MemoryError
                slot.value = <uint32_t> index
            objects = gc.get_objects()
            skipped.add(id(objects))
            n = PyList_Size(objects)
            for at in range(n):
                one = <PyObject*> PyList_GetItem(objects, at)
                if one == <PyObject*> found:
                    continue  # otherwise it would contain itself
                before = hits.len
                traverse(one, visited, &search)
                if hits.len != before:
                    PyList_Append(found, <object> one)
                    if push_u32(&counts, <uint32_t> (hits.len - before)) != 0:
                        search.failed = True
            del objects
            if search.failed:
                raise MemoryError
            for at in range(len(found)):
                referrer = found[at]
                n = (<uint32_t*> counts.data)[at]
                if id(referrer) not in skipped:
                    parent = self.add(referrer)
                    for j in range(n):
                        pairs.append(((<uint32_t*> hits.data)[i + j], parent))
                i += n
        finally:
            map64_free(&places)
            buf_free(&hits)
            buf_free(&counts)
        return pairs
