"""Name the way from a variable to an object, as Python code would spell it."""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from memreplay.recording.tensors import dict_of, of_type, own

OPTIMIZED = 1  # co_flags of functions, whose locals aren't a dict
LISTS = (list, tuple, deque, set, frozenset)
LONGEST_KEY = 40
MANY = 64  # items of a larger dict all have the same name, […]
# The dicts in which torch.nn.Module holds what its attributes show.
OF_MODULES = ("_modules", "_parameters", "_buffers")

# Python deletes the variable when the program's main file has run.
MAIN = own(sys.modules["__main__"], "__file__")

SUSPENDED = {
    types.GeneratorType: "gi_frame",
    types.CoroutineType: "cr_frame",
    types.AsyncGeneratorType: "ag_frame",
}


class Place(NamedTuple):
    """Code that has a variable."""

    function: str = ""
    file: str = ""
    line: int = 0


class Local(NamedTuple):
    """A variable of a running function."""

    frame: types.FrameType
    name: str


def running(skip: types.FrameType) -> list[types.FrameType]:
    """Return the frames of all threads, innermost first; of this thread those outside `skip`."""
    found = []
    here = skip.f_back
    for frame in [here, *(one for one in sys._current_frames().values() if not inside(one, skip))]:
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
    return found


def inside(frame: types.FrameType | None, outer: types.FrameType) -> bool:
    while frame is not None:
        if frame is outer:
            return True
        frame = frame.f_back
    return False


def locals_of(frame: types.FrameType) -> list[tuple[str, Any]]:
    """Return a function's variables. Python keeps a copy in the frame before 3.13, so that is
    emptied again: otherwise it would keep the variables alive.
    """
    if not frame.f_code.co_flags & OPTIMIZED:
        return []  # those of a module or class are in a dict that it has anyway
    seen = frame.f_locals
    found = list(seen.items())
    if sys.version_info < (3, 13):
        seen.clear()
    return found


def local_variables(
    frames: Sequence[types.FrameType], is_library: Callable[[str], bool]
) -> dict[int, Local]:
    """Return the variables of functions by the id of their value.

    The program's own functions come before a library's, then inner functions before outer ones.
    """
    found: dict[int, Local] = {}
    for frame in sorted(frames, key=lambda frame: is_library(frame.f_code.co_filename)):
        for name, value in locals_of(frame):
            found.setdefault(id(value), Local(frame, name))
    return found


def module_variables() -> dict[int, types.ModuleType]:
    """Return the modules by the id of the dict with their variables."""
    return {
        id(dict_of(one)): one
        for one in list(sys.modules.values())
        if issubclass(type(one), types.ModuleType)
    }


def root_name(thing: object) -> str:
    """Return the name of a class or module."""
    if issubclass(type(thing), type):
        return str(of_type(thing, "__name__"))  # type: ignore[arg-type]
    name = own(thing, "__name__")
    return name if type(name) is str else type_name(thing)


def type_name(thing: object) -> str:
    return str(of_type(type(thing), "__name__"))


def class_name(thing: object) -> str:
    """Return the type of an object of the program; empty for built-in types and frames."""
    kind = type(thing)
    if issubclass(kind, types.FunctionType):
        return f"{thing.__qualname__}()"  # type: ignore[attr-defined]
    built_in = of_type(kind, "__module__") in ("builtins", "types", "collections")
    return "" if built_in else str(of_type(kind, "__qualname__"))


class Keys:
    """Finds the keys of dicts' values. The dicts have to live as long as this object."""

    def __init__(self) -> None:
        self.found: dict[int, dict[int, object]] = {}  # dict -> value -> its first key

    def of(self, mapping: dict[Any, Any], wanted: object) -> object:
        """Return the key of a value; None if the value itself is a key."""
        known = self.found.get(id(mapping))
        if known is None:
            known = self.found[id(mapping)] = {}
            for key, value in list(dict.items(mapping)):
                known.setdefault(id(value), key)
        return known.get(id(wanted))


def index(key: object) -> str:
    """Return how a key is written; numbers and objects are all alike."""
    if type(key) is str and len(key) <= LONGEST_KEY and key.isprintable():
        return f"[{key!r}]"
    return "[…]"


def attribute(owner: object, wanted: object, keys: Keys) -> str:
    """Return the name of the attribute or slot that has this value; empty if none has."""
    inside = dict_of(owner)
    if inside is not None:
        name = keys.of(inside, wanted)
        if type(name) is str:
            return name
    for base in of_type(type(owner), "__mro__"):
        for name, slot in list(of_type(base, "__dict__").items()):
            if type(slot) is types.MemberDescriptorType:
                try:
                    value = slot.__get__(owner)
                except AttributeError:  # the slot is empty
                    continue
                if value is wanted:
                    return str(name)
    return ""


def code_place(code: types.CodeType, line: int | None = None) -> Place:
    return Place(code.co_name, code.co_filename, line or code.co_firstlineno)


class Way:
    """A way from a variable to an object: its text, and where its code is."""

    def __init__(self, text: str, place: Place) -> None:
        self.text, self.place = text, place

    def into(self, text: str, place: Place | None = None) -> None:
        """Go on in another function."""
        self.text = f"{self.text} → {text}" if self.text else text
        if place is not None and not self.place.file:
            self.place = place


def spelled(start: Way, chain: Sequence[Any], keys: Keys) -> Way:
    """Return the way along a chain of objects, each of which refers to the next."""
    way = start
    skip = ""  # what the next step is called, if the object before it says so
    for at, (one, following) in enumerate(pairwise(chain)):
        before = chain[at - 1] if at else None
        name, skip = skip, ""
        kind = type(one)
        if issubclass(kind, dict):
            key = keys.of(one, following)
            if before is not None and dict_of(before) is one:
                if key in OF_MODULES:
                    skip = str(key)
                else:
                    way.text += f".{key}"
            elif (name or not way.text) and type(key) is str:
                way.text += f".{key}"  # a module's variable, or a part of a torch.nn.Module
            else:
                way.text += index(key) if dict.__len__(one) <= MANY else "[…]"
        elif issubclass(kind, types.FunctionType):
            if isinstance(following, tuple) or type(following) is dict:
                way.into(f"{one.__qualname__}()", code_place(one.__code__))
        elif issubclass(kind, types.CellType):
            functions = (one for one in reversed(chain[:at]) if type(one) is types.FunctionType)
            way.text += closed_over(next(functions, None), one)
        elif issubclass(kind, LISTS):
            if type(before) is not types.FunctionType:
                way.text += "[…]"
        elif kind is types.TracebackType:
            pass
        elif issubclass(kind, BaseException):
            if type(following) is types.TracebackType:
                way.into("traceback")
            else:
                way.text += f".{attribute(one, following, keys) or '…'}"
        elif kind is types.FrameType:
            code = one.f_code
            way.into(f"{code.co_name}()", code_place(code, one.f_lineno))
        elif kind in SUSPENDED:
            frame = frame_of(one)
            if frame is not None and type(following) is not types.FrameType:
                way.into(f"{local_name(frame, following)} in {frame.f_code.co_name}()")
        elif kind is types.MethodType:
            way.text += ".__self__"
        elif type(following) is dict and dict_of(one) is following:
            pass  # the dict says which attribute
        else:
            found = attribute(one, following, keys)
            if found in OF_MODULES:
                skip = found
            elif not found and type_name(following).endswith("Backward"):
                way.text += ".grad_fn"  # an autograd function's context, held by its output
            elif found:
                way.text += f".{found}"
    return way


def frame_of(generator: object) -> types.FrameType | None:
    """Return the frame of a generator or coroutine; None if it has ended."""
    found = getattr(generator, SUSPENDED[type(generator)])
    return found if type(found) is types.FrameType else None


def local_name(frame: types.FrameType | None, wanted: object) -> str:
    """Return the name of a function's variable with this value."""
    variables = [] if frame is None else locals_of(frame)
    return next((name for name, value in variables if value is wanted), "…")


def names_all_alike(container: Any, owner: Any) -> bool:
    """Return whether a container's items all have the same name. `owner` refers to it."""
    if issubclass(type(container), dict):
        return dict.__len__(container) > MANY and dict_of(owner) is not container
    return issubclass(type(container), LISTS)


def closed_over(function: Any, cell: object) -> str:
    """Return the name of a function's variable that is in this cell."""
    if function is not None:
        cells = function.__closure__ or ()
        for name, one in zip(function.__code__.co_freevars, cells, strict=False):
            if one is cell:
                return f".{name}"
    return ""


def frame_place(frame: types.FrameType) -> Place:
    return code_place(frame.f_code, frame.f_lineno)


def module_place(module: types.ModuleType) -> Place:
    file = own(module, "__file__")
    if file is None and own(module, "__name__") == "__main__":
        file = MAIN
    return Place("", file if type(file) is str else root_name(module), 0)
