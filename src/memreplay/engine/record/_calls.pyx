"""The hot callbacks of a recording, for module calls and finished gradients.

They're native for speed, and so that they don't show up in Python stacks.
"""

from cpython.object cimport PyObject_GenericGetAttr
from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.record cimport tracker as _tracker

# A tuple: the original torch.nn.Module.__call__; the module numbers by id; the callback for modules
# that have no number or aren't called by another module (None while not recording). All three are
# under one key, because without the GIL, a variable can't be read while another thread assigns it.
cdef dict state = {"now": (None, {}, None)}


def begin(theirs, dict numbers_by_id, if_found) -> None:
    """Start using these callbacks.

    `theirs` is the function that calls a module; None keeps the previous function. `numbers_by_id`
    has each known module's number. `if_found(module, args, kwargs)` returns the number for a module
    that has none or isn't called by another module.
    """
    state["now"] = (state["now"][0] if theirs is None else theirs, numbers_by_id, if_found)


def call(module, *args, **kwargs):
    """Call a module.

    Replaces torch.nn.Module.__call__ while recording. A program may keep a reference to this
    function, as torch.fx does on import; after `end`, it simply calls the module.
    """
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
    """Stop recording."""
    state["now"] = (state["now"][0], {}, None)


cdef class Place:
    """The module attribute that holds a parameter.

    Calling a Place returns the current parameter.

    A Place replaces a weak reference to the parameter. Modules change types and devices with
    `torch.utils.swap_tensors`, which refuses tensors that have weak references. `module` is a weak
    reference to the module.
    """
    cdef object module, name

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        module = self.module()
        if module is None:
            return None
        try:  # bypasses the program's __getattr__
            return dict.get(PyObject_GenericGetAttr(module, "_parameters"), self.name)
        except (AttributeError, TypeError):  # the module isn't initialized yet
            return None


cdef class Gradients:
    """Mark parameters' gradients.

    An instance is an autograd hook, called once `.grad` is set.

    `owners` maps a parameter's id to its Place and its module's number. If a gradient isn't of type
    `plain`, or isn't at the start of a known block, the parameter is passed to `other(parameter)`.
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
        except Exception:  # a sparse gradient, or a custom kind of parameter
            address = 0
        if not _tracker.tracker_mark_live(address, self.category, owner):
            self.other(parameter)

    def __call__(self, parameter):
        self.mark(parameter)

    def mark_all(self, list parameters):
        """Mark the gradients of all these parameters."""
        for parameter in parameters:
            self.mark(parameter)
