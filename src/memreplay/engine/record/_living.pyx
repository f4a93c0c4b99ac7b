"""Find live objects by type."""

import gc

from cpython.list cimport PyList_Append, PyList_GetItem, PyList_Size
from cpython.type cimport PyType_IsSubtype


def living(*kinds: type) -> list:
    """Return all live objects of each kind, without running any of the program's code.

    Native, because `gc.get_objects` also returns tuples that other threads are still building.
    Before Python 3.14, `tuple(generator)` fails with SystemError if anything else refers to its
    result. Here no other thread runs until such references are gone: nothing releases the GIL or
    starts the garbage collector.
    """
    cdef list found = [[] for _ in kinds]
    cdef list objects = gc.get_objects()
    cdef Py_ssize_t at, kind, count = len(kinds)
    for at in range(PyList_Size(objects)):
        one = <object> PyList_GetItem(objects, at)
        for kind in range(count):
            if PyType_IsSubtype(type(one), <object> kinds[kind]):
                PyList_Append(<list> PyList_GetItem(found, kind), one)
    return found
