"""Find the objects that refer to others, as the garbage collector sees them."""

import gc
import time
from types import ModuleType

from cpython.list cimport PyList_Append, PyList_GetItem, PyList_Size
from cpython.object cimport PyObject
from cpython.type cimport PyType_IsSubtype
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort
from memreplay._core cimport new_seed
from memreplay.engine.base.growbuf cimport Buf, buf_free, buf_init, push_item, push_u32
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

cdef enum Kind:
    INNER = 0     # not a variable's value
    LOCAL = 1     # the value of a running function's variable
    OTHER = 2     # a module, its variables, or a class

cdef size_t OFTEN = 1 << 16  # objects between two looks at the clock


cdef struct Edge:
    uint32_t child
    uint32_t parent
    uint32_t next_child        # the next edge from the same parent
    uint32_t next_referrer     # the next edge to the same child


cdef struct Search:
    const Map64* places
    const Node* nodes
    uint32_t round
    Buf* hits                  # wanted objects that one object refers to
    bint failed


cdef int visited(PyObject* one, void* data) noexcept:
    cdef Search* search = <Search*> data
    cdef uint32_t at = map64_get(search.places, <uint64_t> <size_t> one, 0)
    if at and search.nodes[at - 1].wanted == search.round and push_u32(search.hits, at - 1) != 0:
        search.failed = True
    return 0


cdef int by_number(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*> a)[0], y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef class Referrers:
    """A growing list of objects, who refers to them, and their shortest ways to variables.

    Holds one reference to each of its objects. Nothing here runs the program's code.

    Parameters
    ----------
    local_values, other_values : iterable of int
        The ids of variables' values: of functions' variables, whose ways come first, and of others.
    """

    def __cinit__(self, local_values=(), other_values=()) -> None:
        self.objects = []
        self.rounds = 0
        buf_init(&self.nodes, sizeof(Node))
        buf_init(&self.edges, sizeof(Edge))
        if map64_init(&self.places, new_seed()) != 0:
            raise MemoryError
        if map64_init(&self.variables, new_seed()) != 0:
            raise MemoryError
        for kind, values in ((OTHER, other_values), (LOCAL, local_values)):
            for value in values:
                slot = map64_at(&self.variables, <uint64_t> value, 0)
                if slot == NULL:
                    raise MemoryError
                slot.value = kind

    def __dealloc__(self) -> None:
        map64_free(&self.places)
        map64_free(&self.variables)
        buf_free(&self.nodes)
        buf_free(&self.edges)

    cdef Node* node(self, size_t at) except NULL:
        if at >= self.nodes.len:
            raise IndexError(at)
        return <Node*> self.nodes.data + at

    cdef uint32_t put(self, PyObject* one) except? 0xFFFFFFFF:
        cdef Slot64* slot = map64_at(&self.places, <uint64_t> <size_t> one, 0)
        cdef Node node
        if slot == NULL:
            raise MemoryError
        if slot.value == 0:
            node.kind = map64_get(&self.variables, <uint64_t> <size_t> one, INNER)
            if node.kind == INNER and (
                PyType_IsSubtype(type(<object> one), type)
                or PyType_IsSubtype(type(<object> one), ModuleType)
            ):
                node.kind = OTHER
            node.parent = node.root = node.first_child = node.last_child = NONE32
            node.first_referrer = node.last_referrer = node.name = node.name_of_items = NONE32
            node.wanted = node.touched = 0
            if push_item(&self.nodes, &node) != 0:
                raise MemoryError
            self.objects.append(<object> one)
            slot.value = <uint32_t> self.nodes.len
        return slot.value - 1

    def add(self, one: object) -> int:
        """Add an object, and return its index."""
        return self.put(<PyObject*> one)

    # --- references -------------------------------------------------------------------------------

    def widen(self, first: int, ignored: set, until: float = float("inf")) -> bool:
        """Find all tracked objects that refer to one of the objects from index `first` on that no
        variable leads to yet. Add them and their references, and connect them.

        Returns False if variables lead to all of these objects. `ignored`: ids of objects that
        don't count as referrers. `until`: when to stop (time.monotonic()).
        """
        # Like living(): nothing releases the GIL while `objects` has all objects of the program.
        cdef Map64 skipped
        cdef Buf hits, counts, touched
        cdef Search search
        cdef Slot64* slot
        cdef Node* nodes
        cdef list found = [], objects
        cdef size_t i = 0, j, at, n, before, start = first
        cdef uint32_t parent
        cdef PyObject* one
        cdef bint wanted = False
        self.rounds += 1
        nodes = <Node*> self.nodes.data
        for at in range(start, self.nodes.len):
            if nodes[at].parent == NONE32:
                nodes[at].wanted = self.rounds
                wanted = True
        if not wanted:
            return False
        if map64_init(&skipped, new_seed()) != 0:
            raise MemoryError
        buf_init(&hits, sizeof(uint32_t))
        buf_init(&counts, sizeof(uint32_t))
        buf_init(&touched, sizeof(uint32_t))
        search.places, search.nodes, search.round = &self.places, nodes, self.rounds
        search.hits, search.failed = &hits, False
        try:
            objects = gc.get_objects()
            for value in (*ignored, *map(id, (self.objects, found, ignored, objects))):
                slot = map64_at(&skipped, <uint64_t> value, 0)
                if slot == NULL:
                    raise MemoryError
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
                if at % OFTEN == 0 and time.monotonic() > until:
                    break
            del objects
            if search.failed:
                raise MemoryError
            for at in range(len(found)):
                one = <PyObject*> PyList_GetItem(found, at)
                n = (<uint32_t*> counts.data)[at]
                if map64_get(&skipped, <uint64_t> <size_t> one, NONE32) == NONE32:
                    parent = self.put(one)
                    for j in range(n):
                        self.refer((<uint32_t*> hits.data)[i + j], parent)
                    if self.node(parent).touched != self.rounds:
                        self.node(parent).touched = self.rounds
                        if push_u32(&touched, parent) != 0:
                            raise MemoryError
                i += n
            if touched.len:
                qsort(touched.data, touched.len, sizeof(uint32_t), by_number)
                self.connect_some(<uint32_t*> touched.data, touched.len)
        finally:
            map64_free(&skipped)
            buf_free(&hits)
            buf_free(&counts)
            buf_free(&touched)
        return True

    cdef int refer(self, uint32_t child, uint32_t parent) except -1:
        """Add a reference."""
        cdef Edge edge
        cdef Edge* edges
        cdef Node* of = self.node(parent)
        cdef Node* to = self.node(child)
        cdef uint32_t at = <uint32_t> self.edges.len
        edge.child, edge.parent, edge.next_child, edge.next_referrer = child, parent, NONE32, NONE32
        if push_item(&self.edges, &edge) != 0:
            raise MemoryError
        edges = <Edge*> self.edges.data
        if of.last_child == NONE32:
            of.first_child = at
        else:
            edges[of.last_child].next_child = at
        if to.last_referrer == NONE32:
            to.first_referrer = at
        else:
            edges[to.last_referrer].next_referrer = at
        of.last_child = to.last_referrer = at
        return 0

    def referrers(self, at: int) -> list:
        """Return the objects that refer to this one, once for each reference."""
        cdef list found = []
        cdef uint32_t edge = self.node(at).first_referrer
        while edge != NONE32:
            found.append((<Edge*> self.edges.data)[edge].parent)
            edge = (<Edge*> self.edges.data)[edge].next_referrer
        return found

    # --- ways to variables ------------------------------------------------------------------------

    def connect(self) -> None:
        """Find the objects that are variables' values, and those that they lead to."""
        cdef Buf every
        cdef size_t at
        buf_init(&every, sizeof(uint32_t))
        try:
            for at in range(self.nodes.len):
                if push_u32(&every, <uint32_t> at) != 0:
                    raise MemoryError
            self.connect_some(<uint32_t*> every.data, every.len)
        finally:
            buf_free(&every)

    cdef int connect_some(self, uint32_t* found, size_t n) except -1:
        """Connect what these objects lead to, if they are variables' values or connected."""
        cdef Node* nodes = <Node*> self.nodes.data
        cdef Edge* edges = <Edge*> self.edges.data
        cdef Buf queue
        cdef size_t i = 0
        cdef uint32_t at, child, edge, kind
        buf_init(&queue, sizeof(uint32_t))
        try:
            for kind in range(LOCAL, OTHER + 1):  # functions' variables first: they say most
                for i in range(n):
                    if nodes[found[i]].kind == kind:
                        if nodes[found[i]].parent == NONE32:
                            nodes[found[i]].parent = nodes[found[i]].root = found[i]
                        if push_u32(&queue, found[i]) != 0:
                            raise MemoryError
            for i in range(n):
                if nodes[found[i]].kind == INNER and nodes[found[i]].parent != NONE32:
                    if push_u32(&queue, found[i]) != 0:
                        raise MemoryError
            i = 0
            while i < queue.len:
                at = (<uint32_t*> queue.data)[i]
                edge = nodes[at].first_child
                while edge != NONE32:
                    child = edges[edge].child
                    if nodes[child].parent == NONE32:
                        nodes[child].parent, nodes[child].root = at, nodes[at].root
                        if push_u32(&queue, child) != 0:
                            raise MemoryError
                    edge = edges[edge].next_child
                i += 1
        finally:
            buf_free(&queue)
        return 0

    def parent(self, at: int) -> int:
        """Return the next object on the way to a variable; -1 at its end, and without a way."""
        cdef Node* node = self.node(at)
        return -1 if node.parent == NONE32 or node.parent == at else node.parent

    def root(self, at: int) -> int:
        """Return the variable's value that leads to this object; -1 if none does."""
        cdef Node* node = self.node(at)
        return -1 if node.root == NONE32 else node.root

    # --- names ------------------------------------------------------------------------------------

    def name(self, at: int, number: int, with_neighbours: bool) -> None:
        """Note a number for what holds an object, and for all objects that its parent refers to."""
        cdef Node* node = self.node(at)
        node.name = number
        if with_neighbours and node.parent != NONE32:
            self.node(node.parent).name_of_items = number

    def named(self, at: int) -> int:
        """Return the number of what holds an object; -1 if that isn't known."""
        self.node(at)
        cdef uint32_t found = self.name_of(at)
        return -1 if found == NONE32 else found

    cdef uint32_t name_of(self, uint32_t at) noexcept:
        cdef Node* nodes = <Node*> self.nodes.data
        cdef uint32_t parent = nodes[at].parent
        if nodes[at].name != NONE32 or parent == NONE32 or parent == at:
            return nodes[at].name
        return nodes[parent].name_of_items
