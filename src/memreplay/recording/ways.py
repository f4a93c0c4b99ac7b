"""Find the ways from variables to a program's objects, and name who holds each object."""

from __future__ import annotations

import os
import sys
import time
import types
from typing import Any, NamedTuple

from memreplay.engine.record._referring import Referrers
from memreplay.recording import naming
from memreplay.recording.facts import is_library, library_folders
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.naming import Place, Way
from memreplay.recording.tensors import dict_of

DEEPEST = 16  # maximum number of references between a tensor and a variable
LONGEST_WAY, LAST_STEPS = 24, 3  # references of a way to name; the last ones to name otherwise
CLASSES = 3  # maximum number of classes to name if no variable is known
LONGEST = 500  # maximum length of a text, in characters


class Key(NamedTuple):
    """The properties that all storages in a group share."""

    kind: str
    text: str
    place: Place = Place()
    type: str = ""


UNKNOWN = Key("unknown", "")


class Clock:
    """How much time is left."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = self.until = time.monotonic()
        self.complete, self.late, self.checks = True, False, 0

    @property
    def taken(self) -> float:
        return time.monotonic() - self.began

    def allow(self, share: float) -> None:
        """Set the share of the time that may have passed from now on."""
        self.until, self.late = self.began + share * self.seconds, False

    def in_time(self) -> bool:
        """Return whether there's time left, which is only checked now and then."""
        self.checks += 1
        if self.checks % 64 == 0 and time.monotonic() > self.until:
            self.late, self.complete = True, False
        return not self.late


class Ways:
    """Objects, the ways to them, and who holds them.

    Parameters
    ----------
    torch : module
        PyTorch.
    clock : Clock
        How long to look.
    guard : Guard
        Counts failures.
    outside : frame
        Its callers and all other threads have variables; this frame and what it called don't.
    """

    def __init__(self, torch: Any, clock: Clock, guard: Guard, outside: types.FrameType) -> None:
        frames = naming.running(outside)
        folders = library_folders(os.path.dirname(torch.__file__ or ""))
        self.Tensor, self.clock, self.guard = torch.Tensor, clock, guard
        self.locals = naming.local_variables(frames, lambda file: is_library(file, folders))
        self.globals = naming.module_variables()
        self.graph = Referrers(self.locals, self.globals)
        self.ignored = {id(frames), *map(id, frames)}
        self.garbage: dict[int, Key] = {}  # objects that only a cycle holds
        self.dict_keys = naming.Keys()
        self.alike: dict[int, bool] = {}  # container -> whether its items all have the same key
        self.shared: dict[Any, Key] = {}  # what objects have in common -> their key

    def end(self) -> None:
        """Release the program's frames, which refer to this object."""
        self.locals, self.globals = {}, {}

    def find(self) -> None:
        """Find the shortest way from a variable to each object."""
        first, until = 0, float("inf")  # without the first look, nothing would be known
        self.graph.connect()
        for _ in range(DEEPEST):
            known = len(self.graph.objects)
            if not self.graph.widen(first, self.ignored, until):
                return
            first, until = known, self.clock.until
            if time.monotonic() > until:
                break
        self.clock.complete = False

    def key(self, at: int) -> Key | None:
        """Return who holds an object; None if there's no time left."""
        if not self.clock.in_time():
            return None
        try:
            common = self.common(at)
            found = self.shared.get(common)
            if found is None:
                found = self.key_of(at)
                if common is not None:
                    self.shared[common] = found
        except Exception as error:
            if from_a_signal(error):
                raise
            self.guard.note("naming a holder", error)
            return UNKNOWN
        return found

    def common(self, at: int) -> Any:
        """Return what objects with the same key have in common, such as the attribute `x` of an
        item of one list; None if that isn't known. Takes less time than `key_of`.
        """
        objects, holder = self.graph.objects, self.graph.parent(at)
        if holder < 0:
            return None
        one, above = objects[holder], self.graph.parent(holder)
        step: tuple[Any, ...] = ()
        if type(one) not in naming.LISTS:
            owner = objects[above] if above >= 0 else None
            if type(one) is not dict:
                owner = one
            elif dict_of(owner) is one:
                above = self.graph.parent(above)
            mapping = one if type(one) is dict else dict_of(one)
            if mapping is None or len(mapping) > naming.MANY:
                return None
            wanted = objects[at]
            key = next((key for key, value in mapping.items() if value is wanted), None)
            if type(key) is not str:
                return None
            step = type(owner), key
        return (above, *step) if above >= 0 and self.are_alike(above) else None

    def are_alike(self, container: int) -> bool:
        """Return whether all items of a container have the same key."""
        found = self.alike.get(container)
        if found is None:
            objects, owner = self.graph.objects, self.graph.parent(container)
            found = self.alike[container] = id(objects[container]) not in self.globals and (
                naming.names_all_alike(objects[container], objects[owner] if owner >= 0 else None)
            )
        return found

    def key_of(self, at: int) -> Key:
        """Return who holds an object."""
        first = self.graph.root(at)
        if first < 0:
            return self.unrooted(at)
        chain = [at]
        while len(chain) <= LONGEST_WAY and chain[-1] != first:
            chain.append(self.graph.parent(chain[-1]))
        objects = [self.graph.objects[one] for one in reversed(chain)]
        root = self.graph.objects[first]
        whole = objects[0] is root
        variable = self.locals.get(id(root))
        kind = "variable"
        if variable is not None:
            way = Way(variable.name, naming.frame_place(variable.frame))
        elif id(root) in self.globals:
            way = Way("", naming.module_place(self.globals[id(root)]))
        else:
            way = Way(naming.root_name(root), Place())
        if not whole:
            way.text += "…"
            objects = objects[-LAST_STEPS:]
        way = naming.spelled(way, objects, self.dict_keys)
        if any(type(one) is types.TracebackType for one in objects):
            kind = "exception"
        shown = naming.type_name(root)
        if id(root) in self.globals and len(objects) > 1:
            shown = naming.type_name(objects[1]) if whole else ""
        return Key(kind, way.text.lstrip("."), way.place, shown)

    def unrooted(self, at: int) -> Key:
        """Return who holds an object that no variable leads to."""
        children, queue = {at: -1}, [at]
        objects = self.graph.objects
        for one in queue:
            if not self.clock.in_time():
                return UNKNOWN
            if type(objects[one]) in naming.SUSPENDED and one != at:
                return self.suspended(one, children)
            if one in self.garbage:
                continue  # everything that leads here is garbage as well
            for parent in self.graph.referrers(one):
                if parent not in children:
                    children[parent] = one
                    queue.append(parent)
        known = [self.garbage[one] for one in children if one in self.garbage]
        seen = children.keys() - self.garbage.keys()
        # Nothing here may keep references to these objects, which are counted below.
        others = (objects[one] for one in seen if not issubclass(type(objects[one]), self.Tensor))
        classes = {naming.class_name(one) for one in others}
        names = ", ".join(sorted(classes - {""})[:CLASSES])
        probe = [object()]
        base = sys.getrefcount(probe[0])  # of an object that only a list refers to
        garbage = all(
            sys.getrefcount(objects[one]) - base == len(self.graph.referrers(one)) for one in seen
        )
        if not garbage or len(children) == 1:
            return Key("unknown", names)
        key = known[0] if known else Key("cycle", names)
        self.garbage.update(dict.fromkeys(seen, key))
        return key

    def suspended(self, at: int, children: dict[int, int]) -> Key:
        """Return the variable of a generator that only a running function holds, such as one that
        a loop iterates over.
        """
        generator, chain = self.graph.objects[at], []
        while (at := children[at]) >= 0:
            chain.append(self.graph.objects[at])
        frame = naming.frame_of(generator)
        place = naming.frame_place(frame) if frame is not None else Place()
        way = Way(naming.local_name(frame, chain[0]), place)
        way = naming.spelled(way, chain, self.dict_keys)
        return Key("variable", way.text, way.place, naming.type_name(chain[0]))


def named_holder(key: Key) -> dict[str, Any]:
    """Return a holder in the form stored in a snapshot."""
    return {
        "kind": key.kind,
        "name": key.text[:LONGEST],
        "function": key.place.function[:LONGEST],
        "file": key.place.file[:LONGEST],
        "line": key.place.line,
        "type_name": key.type[:LONGEST],
    }
