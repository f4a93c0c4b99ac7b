"""What is done most often while a program is recorded: a module is called, a gradient is there.

In C, for its speed, and so that stacks look as they do without a recording: Python shows no frame of it.
"""

from libc.stdint cimport uint32_t, uint64_t
from memreplay.engine.record cimport tracker as _tracker

# What torch.nn.Module.__call__ is by itself; the modules' numbers by id; what is called for a module that
# runs by itself, or has no number.
cdef object original = None
cdef dict numbers = {}
cdef object found = None


def begin(theirs, dict numbers_by_id, if_found) -> None:
    """`theirs`: what calls a module. `numbers_by_id`: the number of each module that is known.
    `if_found(module, args, kwargs)`: the number of one that is not, or is called by none."""
    global original, numbers, found
    original, numbers, found = theirs, numbers_by_id, if_found


def call(module, *args, **kwargs):
    """Calls a module: torch.nn.Module.__call__ while a program is recorded."""
    number = numbers.get(<size_t> <void*> module)
    if number is None or _tracker.tracker_depth() == 0:
        number = found(module, args, kwargs)
    cdef uint32_t known = number
    _tracker.tracker_enter(known)
    try:
        return original(module, *args, **kwargs)
    finally:
        _tracker.tracker_leave(known)


def mark_gradients(list parameters, uint32_t category, owners) -> list:
    """Marks the gradients of parameters. `owners`: a module's number for each. Those whose gradients
    are not plain tensors at the beginning of a known block are returned."""
    cdef list others = []
    cdef uint64_t address
    cdef Py_ssize_t i
    cdef uint32_t owner
    for i in range(len(parameters)):
        parameter = parameters[i]
        gradient = parameter.grad
        if gradient is None:
            continue
        try:
            address = gradient.data_ptr()
        except RuntimeError:  # of tensors that are made of others
            address = 0
        owner = owners[i]
        if not _tracker.tracker_mark_live(address, category, owner):
            others.append(parameter)
    return others
