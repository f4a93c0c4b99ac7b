"""Find out which objects of a program keep its memory alive.

An allocation lives as long as something refers to its tensor: a variable, an attribute, a list, a
closure, a traceback, or the autograd graph of another tensor. `Holders.look` walks from all tensors
up to the variables of running functions and of modules, in bounded time, and adds up the bytes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import types
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memreplay.engine.record._living import living
from memreplay.engine.record._referring import Referrers
from memreplay.io.packing import as_text
from memreplay.recording import naming
from memreplay.recording.facts import is_library, library_folders
from memreplay.recording.guarding import Guard, from_a_signal
from memreplay.recording.naming import Place, Way
from memreplay.recording.tensors import Addresses, of_type, own, pools_of, sizes_of

SECONDS = 2.0
FOR_TENSORS = 0.4  # share of the time after which to go on with the tensors that were found
# Time to keep for naming the tensors' holders: seconds for each, and the largest share of all.
NAMING, FOR_NAMING = 20e-6, 0.3
DEEPEST = 16  # maximum number of references between a tensor and a variable
LONGEST_WAY, LAST_STEPS = 24, 3  # references of a way to name; the last ones to name otherwise
TOP = 20
STORED = 200  # maximum number of groups in a snapshot
LONGEST = 500  # maximum length of a text, in characters
NODES = 3  # number of autograd nodes to name in a group
RAW = "_raw_saved_"
LEAST_PINNED = 1 << 16  # bytes; smaller pinned tensors are left out
PARAMETERS, GRADIENTS, STATE = "parameters", "gradients", "optimizer state"


# Classes whose objects have a private pool, and how to get its number.
POOLS = {"_CUDAGraph": "pool", "_MemPool": "id"}


class Never:
    """A class without objects, for those that this PyTorch doesn't have."""


class Key(NamedTuple):
    """What all storages in a group have in common."""

    kind: str
    text: str
    place: Place = Place()
    type: str = ""


UNKNOWN = Key("unknown", "")


class Group:
    """Storages with the same holder."""

    def __init__(self) -> None:
        self.bytes = self.count = 0
        self.autograd_bytes = self.autograd_count = 0
        self.small_views = 0  # views of less than half of a storage
        self.nodes: Counter[str] = Counter()


class Holders:
    """Looks at all objects of the process, once.

    Parameters
    ----------
    torch : module
        PyTorch.
    kind : str
        The kind of device: "cuda" or "xpu".
    segments : list of dicts
        PyTorch's segments.
    seconds : float
        How long to look, about. Holders that weren't found by then are "unknown".
    """

    def __init__(
        self,
        torch: Any,
        kind: str,
        segments: Sequence[Mapping[str, Any]],
        *,
        seconds: float = SECONDS,
        guard: Guard | None = None,
    ) -> None:
        self.torch, self.seconds = torch, seconds
        self.sizes, self.unused = sizes_of(segments), pools_of(segments)
        self.addresses = Addresses(torch, kind, guard)
        self.left = dict(self.sizes)  # blocks without a known holder
        self.groups: dict[Key, Group] = defaultdict(Group)
        self.taken: dict[int, Key] = {}  # block -> its group
        self.graph = Referrers()
        self.children: dict[int, list[int]] = defaultdict(list)  # object -> what it refers to
        self.parents: dict[int, int] = {}  # object -> the next one on its way to a variable
        self.roots: dict[int, int] = {}  # object -> the variable at the start of its way
        self.referrers: dict[int, list[int]] = defaultdict(list)  # one for each reference
        self.complete, self.late, self.checks = True, False, 0
        self.garbage: dict[int, Key] = {}  # objects that only a cycle holds
        self.dict_keys = naming.Keys()
        self.alike: dict[int, Key] = {}  # container whose items all have the same name -> their key

    def look(self, top: int = TOP) -> dict[str, Any]:
        """Return the largest groups in the form stored in a snapshot (docs/format.md)."""
        self.began = time.monotonic()
        frames = naming.running(sys._getframe())
        folders = library_folders(os.path.dirname(self.torch.__file__ or ""))
        self.locals = naming.local_variables(frames, lambda file: is_library(file, folders))
        self.globals = naming.module_variables()
        self.allow(FOR_TENSORS)
        found = self.start()
        self.allow(1 - min(FOR_NAMING, NAMING * len(found) / max(self.seconds, NAMING)))
        self.find(found, {id(frames), *map(id, frames)})
        self.allow(1)
        self.owned()
        self.variables()
        self.gradients()
        self.autograd()
        self.rest()
        pools, pinned = self.of_pools(), self.of_pinned()
        self.locals, self.globals = {}, {}  # frames refer to this object
        largest = sorted(self.groups.items(), key=lambda one: (-one[1].bytes, one[0]))
        self.order = {key: at for at, (key, _) in enumerate(largest)}
        others = largest[top:]
        return {
            "groups": [described(key, group) for key, group in largest[:top]],
            "other_groups": len(others),
            "other_bytes": sum(group.bytes for _, group in others),
            "total_bytes": sum(self.sizes.values()),
            "seconds": round(time.monotonic() - self.began, 3),
            "complete": self.complete,
            **({"pools": pools} if pools else {}),
            **({"pinned": pinned} if pinned else {}),
        }

    def of_pools(self) -> list[dict[str, Any]]:
        """Return who holds the private pools whose memory isn't in use, largest first."""
        holders: dict[Any, Key] = {}
        for at, pool in self.pools.items():
            key = self.named(at)
            if pool not in holders or holders[pool].kind == "unknown":
                holders[pool] = key
        return [
            {**named_holder(holders.get(pool, UNKNOWN)), "bytes": unused, "pool": list(pool)}
            for pool, unused in sorted(self.unused.items(), key=lambda one: -one[1])
        ]

    def of_pinned(self) -> list[dict[str, Any]]:
        """Return who holds pinned memory of the host, largest first."""
        left = dict(self.pinned.values())
        found: dict[Key, list[int]] = defaultdict(list)
        for at in sorted(self.pinned, key=lambda at: self.keys[at].kind == "unknown"):
            size = left.pop(self.pinned[at][0], None)
            if size is not None:
                found[self.keys[at]].append(size)
        largest = sorted(found.items(), key=lambda one: (-sum(one[1]), one[0]))
        return [
            {**named_holder(key), "bytes": sum(sizes), "count": len(sizes)}
            for key, sizes in largest[:TOP]
        ]

    def blocks_of_groups(self) -> dict[str, str]:
        """Return each block's address and group, as columns. Groups are numbered as in `look`."""
        addresses = sorted(self.taken)
        groups = [self.order[self.taken[at]] for at in addresses]
        return {
            "addresses": as_text(array("Q", addresses).tobytes()),
            "holders": as_text(array("I", groups).tobytes()),
        }

    # --- the objects ------------------------------------------------------------------------------

    def start(self) -> list[int]:
        """Add tensors with memory or a graph, models and optimizers."""
        of_pools = [getattr(self.torch._C, name, Never) for name in POOLS]
        tensors, modules, optimizers, *others = living(
            self.torch.Tensor, self.torch.nn.Module, self.torch.optim.Optimizer, *of_pools
        )
        self.blocks: dict[int, list[int]] = {}  # tensor -> its blocks
        self.pinned: dict[int, tuple[int, int]] = {}  # tensor -> its pinned memory
        self.graphs: dict[int, Any] = {}  # tensor -> the last node of its graph
        for one in tensors:
            if not self.in_time():
                break
            blocks = [at for at in self.blocks_of(one) if at in self.sizes]
            node = self.node_of(one)
            pinned = None if blocks else self.pinned_block(one)
            if blocks or pinned is not None or node is not None:
                at = self.graph.add(one)
                self.blocks[at] = blocks
                if pinned is not None:
                    self.pinned[at] = pinned
                if node is not None:
                    self.graphs[at] = node
        inner = {
            id(child)
            for one in modules
            for child in (own(one, "_modules") or {}).values()
            if child is not None
        }
        self.modules = modules
        self.models = [self.graph.add(one) for one in modules if id(one) not in inner]
        self.optimizers = [self.graph.add(one) for one in optimizers]
        self.pools = {  # object -> its pool
            self.graph.add(one): pool
            for kind, of_kind, attribute in zip(of_pools, others, POOLS.values(), strict=True)
            for one in of_kind
            if (pool := pool_of(kind, one, attribute)) in self.unused
        }
        self.ignored = {id(self.modules)}
        return list(range(len(self.graph.objects)))

    def blocks_of(self, tensor: Any) -> list[int]:
        """Return a tensor's blocks. The usual case takes less time than `Addresses.all`."""
        try:
            return self.addresses.found(tensor)
        except Exception:
            return self.addresses.all(tensor)  # which counts the error

    def pinned_block(self, tensor: Any) -> tuple[int, int] | None:
        """Return the address and bytes of a tensor in pinned memory of the host; None for others,
        and for small ones.
        """
        if type(tensor) not in self.addresses.plain or tensor.device.type != "cpu":
            return None
        try:
            storage = tensor.untyped_storage()
            size = storage.nbytes()
            if size < LEAST_PINNED:
                return None
            with getattr(self.torch._C, "_DisableTorchDispatch", contextlib.nullcontext)():
                pinned = self.torch._C.TensorBase.is_pinned(tensor)
            return (storage.data_ptr(), size) if pinned else None
        except (AttributeError, RuntimeError, NotImplementedError):
            return None

    def node_of(self, tensor: Any) -> Any:
        if naming.type_name(tensor) in self.addresses.without_memory:
            return None
        try:
            return self.torch._C.TensorBase.grad_fn.__get__(tensor)
        except (AttributeError, RuntimeError):
            return None

    def find(self, frontier: list[int], ignored: set[int]) -> None:
        """Find the shortest way from a variable to each object."""
        ignored |= self.ignored
        self.connect(frontier)
        for _ in range(DEEPEST):
            frontier = [at for at in frontier if at not in self.parents]
            if not frontier:
                return
            if time.monotonic() > self.until:
                break
            known = len(self.graph.objects)
            touched = set()
            for child, parent in self.graph.widen(frontier, ignored):
                self.children[parent].append(child)
                self.referrers[child].append(parent)
                touched.add(parent)
            self.connect(touched)
            frontier = list(range(known, len(self.graph.objects)))
        self.complete = False

    def connect(self, found: Iterable[int]) -> None:
        """Connect what these objects lead to, if they are variables or connected themselves."""
        queue = deque(sorted((at for at in found if self.is_root(at)), key=self.rank))
        for at in queue:
            if self.parents.setdefault(at, -1) < 0:
                self.roots[at] = at
        queue.extend(at for at in found if at in self.parents and not self.is_root(at))
        while queue:
            at = queue.popleft()
            for child in self.children.get(at, ()):
                if child not in self.parents:
                    self.parents[child], self.roots[child] = at, self.roots[at]
                    queue.append(child)

    def rank(self, at: int) -> tuple[bool, int]:
        """Sort functions' variables first, because they say most."""
        return id(self.graph.objects[at]) not in self.locals, at

    def is_root(self, at: int) -> bool:
        one = self.graph.objects[at]
        return (
            id(one) in self.locals
            or id(one) in self.globals
            or issubclass(type(one), (type, types.ModuleType))
        )

    # --- names ------------------------------------------------------------------------------------

    def allow(self, share: float) -> None:
        """Set the share of the time that may have passed from now on."""
        self.until, self.late = self.began + share * self.seconds, False

    def in_time(self) -> bool:
        """Return whether there's time left, which is only checked now and then."""
        self.checks += 1
        if self.checks % 64 == 0 and time.monotonic() > self.until:
            self.late, self.complete = True, False
        return not self.late

    def named(self, at: int) -> Key:
        """Return who holds an object; "unknown" if that fails, or if there's no time left."""
        try:
            parent = self.parents.get(at, -1)
            if parent in self.alike:
                return self.alike[parent]
            if not self.in_time():
                return UNKNOWN
            key = self.key_of(at)
            if self.are_alike(parent):
                self.alike[parent] = key
            return key
        except Exception as error:
            if from_a_signal(error):
                raise
            self.addresses.guard.note("naming a holder", error)
            return UNKNOWN

    def are_alike(self, container: int) -> bool:
        """Return whether all items of a container have the same key."""
        objects = self.graph.objects
        if container < 0 or id(objects[container]) in self.globals:
            return False
        owner = self.parents[container]
        return naming.names_all_alike(objects[container], objects[owner] if owner >= 0 else None)

    def key_of(self, at: int) -> Key:
        """Return who holds an object."""
        if at not in self.parents:
            return self.unrooted(at)
        chain = [at]
        while len(chain) <= LONGEST_WAY and self.parents[chain[-1]] >= 0:
            chain.append(self.parents[chain[-1]])
        objects = [self.graph.objects[one] for one in reversed(chain)]
        root = self.graph.objects[self.roots[at]]
        whole = objects[0] is root
        variable = self.locals.get(id(root))
        kind = "variable"
        if variable is not None:
            way = Way(variable.name, naming.frame_place(variable.frame))
        elif id(root) in self.globals:
            module = self.globals[id(root)]
            way = Way("", naming.module_place(module))
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
            if not self.in_time():
                return UNKNOWN
            if type(objects[one]) in naming.SUSPENDED and one != at:
                return self.suspended(one, children)
            if one in self.garbage:
                continue  # everything that leads here is garbage as well
            for parent in self.referrers[one]:
                if parent not in children:
                    children[parent] = one
                    queue.append(parent)
        known = [self.garbage[one] for one in children if one in self.garbage]
        seen = children.keys() - self.garbage.keys()
        others = (objects[one] for one in seen if one not in self.blocks)
        names = sorted({naming.class_name(one) for one in others} - {""})
        probe = [object()]
        base = sys.getrefcount(probe[0])  # of an object that only a list refers to
        garbage = all(
            sys.getrefcount(objects[one]) - base == len(self.referrers[one]) for one in seen
        )
        if not garbage or len(children) == 1:
            return Key("unknown", ", ".join(names[:NODES]))
        key = known[0] if known else Key("cycle", ", ".join(names[:NODES]))
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

    # --- bytes ------------------------------------------------------------------------------------

    def take(self, key: Key, blocks: Iterable[int]) -> int:
        """Give blocks that have no holder yet to a group. Return their bytes."""
        taken = {at: self.left.pop(at) for at in blocks if at in self.left}
        size = sum(taken.values())
        if taken:
            group = self.groups[key]
            group.bytes += size
            group.count += len(taken)
            self.taken.update(dict.fromkeys(taken, key))
        return size

    def owned(self) -> None:
        """Take what models and optimizers hold."""
        for at in self.models:
            key = self.named(at)
            for module in self.below(self.graph.objects[at]):
                for part in ("_parameters", "_buffers"):
                    for tensor in (own(module, part) or {}).values():
                        if self.addresses.is_tensor(tensor):
                            self.take(key._replace(kind=PARAMETERS), self.addresses.all(tensor))
                            self.take_gradient(key, tensor)
        for at in self.optimizers:
            key = self.named(at)._replace(kind=STATE)
            state = own(self.graph.objects[at], "state")
            for tensor in self.addresses.found_in(state):
                self.take(key, self.addresses.all(tensor))

    def below(self, module: Any) -> Iterator[Any]:
        seen, queue = {id(module)}, [module]
        while queue:
            one = queue.pop()
            yield one
            for child in (own(one, "_modules") or {}).values():
                if child is not None and id(child) not in seen:
                    seen.add(id(child))
                    queue.append(child)

    def take_gradient(self, key: Key, tensor: Any) -> None:
        base = self.torch._C.TensorBase
        try:
            kept = base.is_leaf.__get__(tensor) or base.retains_grad.__get__(tensor)
            gradient = base._grad.__get__(tensor) if kept else None
        except (AttributeError, RuntimeError):
            return
        if gradient is not None:
            self.take(key._replace(kind=GRADIENTS), self.addresses.all(gradient))

    def variables(self) -> None:
        """Take what variables hold, then what nothing in Python leads to."""
        self.keys = {at: self.named(at) for at in self.blocks}
        certain = sorted(self.blocks, key=lambda at: self.keys[at].kind == "unknown")
        for at in certain:
            if self.keys[at].kind == "unknown":
                continue  # the autograd graph of another tensor may hold it
            taken = self.take(self.keys[at], self.blocks[at])
            if taken:
                own_bytes = size_of(self.graph.objects[at])
                self.groups[self.keys[at]].small_views += 2 * own_bytes < taken

    def gradients(self) -> None:
        for at in self.blocks:
            if not self.in_time():
                break
            self.take_gradient(self.keys[at], self.graph.objects[at])

    def autograd(self) -> None:
        """Take what autograd graphs saved for a backward pass."""
        seen: set[Any] = set()
        # Tensors inside a graph may have Python objects, too.
        for at in sorted(self.graphs, key=lambda at: self.keys[at].kind == "unknown"):
            key = self.keys[at]
            queue = [self.graphs[at]]
            while queue:
                node = queue.pop()
                if node is None or node in seen:
                    continue
                seen.add(node)
                if not self.in_time():
                    return
                for tensor in saved(node):
                    count = len(self.left)
                    taken = self.take(key, self.addresses.all(tensor))
                    if taken:
                        group = self.groups[key]
                        group.autograd_bytes += taken
                        group.autograd_count += count - len(self.left)
                        group.nodes[node.name()] += taken
                queue += [one for one, _ in node.next_functions]

    def rest(self) -> None:
        for at, key in self.keys.items():
            if key.kind == "unknown":
                self.take(key, self.blocks[at])
        self.take(UNKNOWN, list(self.left))


def stored(
    torch: Any, kind: str, segments: Sequence[Mapping[str, Any]], guard: Guard | None = None
) -> dict[str, Any]:
    """Return who keeps these segments' blocks alive, in the form stored in a snapshot."""
    with nothing_collected():
        holders = Holders(torch, kind, segments, guard=guard)
        return {**holders.look(STORED), "blocks": holders.blocks_of_groups()}


@contextlib.contextmanager
def nothing_collected() -> Iterator[None]:
    """Keep the garbage collector from freeing what's being looked at."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def saved(node: Any) -> Iterator[Any]:
    """Yield the tensors that a node saved, without calling the program's hooks."""
    for name in names_of(type(node)):
        found = getattr(node, name, None)
        for one in found if isinstance(found, (list, tuple)) else (found,):
            tensor = getattr(one, "data", None)  # None if a hook replaced it, or in old PyTorch
            if tensor is not None:
                yield tensor


_names: dict[type, list[str]] = {}


def names_of(node: type) -> list[str]:
    found = _names.get(node)
    if found is None:
        found = _names[node] = [name for name in dir(node) if name.startswith(RAW)]
    return found


def pool_of(kind: type, thing: Any, attribute: str) -> tuple[int, int] | None:
    """Return the number of a graph's or pool's private pool; None if it has none yet."""
    try:
        found = of_type(kind, "__dict__")[attribute].__get__(thing)
        return tuple(found() if callable(found) else found)
    except (KeyError, RuntimeError, TypeError):
        return None


def size_of(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def named_holder(key: Key) -> dict[str, Any]:
    return {
        "kind": key.kind,
        "name": key.text[:LONGEST],
        "function": key.place.function[:LONGEST],
        "file": key.place.file[:LONGEST],
        "line": key.place.line,
        "type_name": key.type[:LONGEST],
    }


def described(key: Key, group: Group) -> dict[str, Any]:
    return {
        **named_holder(key),
        "bytes": group.bytes,
        "count": group.count,
        "autograd_bytes": group.autograd_bytes,
        "autograd_count": group.autograd_count,
        "nodes": [name[:LONGEST] for name, _ in group.nodes.most_common(NODES)],
        "small_views": group.small_views,
    }
