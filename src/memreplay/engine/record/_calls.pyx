"""What is done most often while a program is recorded: a module is called, a gradient is there.

In C, for its speed, and so that stacks look as they do without a recording: Python shows no frame
of it.
"""

from cpython.object cimport PyObject_GenericGetAttr
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.record cimport tracker as _tracker

# What torch.nn.Module.__call__ is by itself; the modules' numbers by id; what is called for a
# module that runs by itself, or has no number: None while nothing is recorded. All of it under one
# key: without the GIL nobody may read a variable while another thread gives it a new value.
cdef dict state = {"now": (None, {}, None)}


def begin(theirs, dict numbers_by_id, if_found) -> None:
    """`theirs`: what calls a module, None: what did so before. `numbers_by_id`: the number of each
    module that is known. `if_found(module, args, kwargs)`: the number of one that is not, or is
    called by none."""
    state["now"] = (state["now"][0] if theirs is None else theirs, numbers_by_id, if_found)


def call(module, *args, **kwargs):
    """Calls a module: torch.nn.Module.__call__ while a program is recorded. A program may keep it,
    as torch.fx does when it is loaded: after `end` it calls a module as ever."""
    original, numbers, found = state["now"]
    if found is None:
        return original(module, *args, **kwargs)
    number = numbers.get(<size_t> <void*> module)
    if number is None or _tracker.tracker_depth() == 0:
        number = found(module, args, kwargs)
    cdef uint32_t known = number
    _tracker.tracker_enter(known)
    try:
        return original(module, *args, **kwargs)
    finally:
        _tracker.tracker_leave(known)


def end() -> None:
    """Nothing is recorded any more."""
    state["now"] = (state["now"][0], {}, None)


cdef class Place:
    """Where a module has a parameter; called, it returns what is there now.

    It stands for a weak reference to the parameter: `torch.utils.swap_tensors`, by which modules
    change the type and device of parameters, refuses a tensor that has any.

    `module`: a weak reference to it."""
    cdef object module, name

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        module = self.module()
        if module is None:
            return None
        try:  # not by the program's own __getattr__
            return dict.get(PyObject_GenericGetAttr(module, "_parameters"), self.name)
        except (AttributeError, TypeError):  # it is not whole
            return None


cdef class Gradients:
    """Marks gradients of parameters. Called with a parameter it is autograd's hook, which runs as
    soon as `.grad` is there.

    `owners`: of parameters by their ids the place of each, and the number of its module.
    What is not of the type `plain`, or not at the beginning of a known block, is for
    `other(parameter)`.
    """
    cdef uint32_t category
    cdef dict owners
    cdef object plain, other

    def __init__(self, uint32_t category, dict owners, plain, other):
        self.category, self.owners, self.plain, self.other = category, owners, plain, other

    cpdef mark(self, parameter):
        cdef uint64_t address = 0
        cdef uint32_t owner = 0
        cdef tuple known
        try:
            gradient = parameter.grad
            if gradient is None:
                return
            if type(gradient) is self.plain:
                address = gradient.data_ptr()
            known = self.owners.get(<size_t> <void*> parameter)
            if known is not None and known[0]() is parameter:
                owner = known[1]
        except Exception:  # of a sparse gradient, or a parameter of the program's own kind
            address = 0
        if not _tracker.tracker_mark_live(address, self.category, owner):
            self.other(parameter)

    def __call__(self, parameter):
        self.mark(parameter)

    def mark_all(self, list parameters):
        """Those of all these parameters."""
        for parameter in parameters:
            self.mark(parameter)
