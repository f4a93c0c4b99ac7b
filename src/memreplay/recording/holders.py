"""Find out which objects of a program keep its memory alive.

An allocation lives as long as something refers to its tensor: a variable, an attribute, a list, a
closure, a traceback, or the autograd graph of another tensor. `Holders.look` walks from all tensors
up to the variables of running functions and of modules, in bounded time, and adds up the bytes.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memreplay.engine.record._holding import Blocks, Tensors
from memreplay.engine.record._living import living
from memreplay.io.packing import as_text
from memreplay.recording import naming, pools
from memreplay.recording.guarding import Guard
from memreplay.recording.tensors import Addresses, own, pools_of
from memreplay.recording.ways import LONGEST, UNKNOWN, Clock, Key, Ways, named_holder

SECONDS = 2.0
FOR_TENSORS = 0.6  # share of the time after which to go on with the tensors that were found
FOR_WAYS = 0.8  # share of the time after which to name what was found
TOP = 20
STORED = 200  # maximum number of groups in a snapshot
NODES = 3  # number of autograd nodes to name in a group
TURN = 10_000  # autograd nodes of one graph to look at before the other graphs' nodes
RAW = "_raw_saved_"
PARAMETERS, GRADIENTS, STATE = "parameters", "gradients", "optimizer state"
NOBODY = 0  # the number of UNKNOWN


class Graph:
    """Memory that a group's autograd graphs hold."""

    def __init__(self) -> None:
        self.bytes = self.count = 0
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
        self.blocks, self.unused = Blocks(segments), pools_of(segments)
        self.addresses = Addresses(torch, kind, guard)
        self.keys: list[Key] = []  # of the groups
        self.numbers: dict[Key, int] = {}
        self.number(UNKNOWN)
        self.graphs: dict[int, Graph] = defaultdict(Graph)  # group -> what its graphs hold

    def look(self, top: int = TOP) -> dict[str, Any]:
        """Return the largest groups in the form stored in a snapshot (docs/format.md)."""
        self.clock = clock = Clock(self.seconds)
        self.ways = Ways(self.torch, clock, self.addresses.guard, sys._getframe())
        self.graph = self.ways.graph
        self.tensors = Tensors(self.graph, self.blocks)
        clock.allow(FOR_TENSORS)
        self.start()
        clock.allow(FOR_WAYS)
        self.ways.find()
        clock.allow(1)
        self.owned()
        self.take(known=True)  # blocks that variables hold
        if self.blocks.left:
            self.gradients()
            self.autograd()
            self.take(known=False)
            self.blocks.take_rest(NOBODY)
        of_pools = pools.of_pools(self.unused, self.pools, self.keys_of(self.pools))
        pinned = pools.of_pinned(self.pinned, self.keys_of(self.pinned))
        self.ways.end()
        found = [(self.blocks.group(at), key, at) for at, key in enumerate(self.keys)]
        largest = sorted((one for one in found if one[0][1]), key=lambda one: (-one[0][0], one[1]))
        self.order = [0] * len(found)
        for place, (_, _, at) in enumerate(largest):
            self.order[at] = place
        others = largest[top:]
        return {
            "groups": [self.described(at) for _, _, at in largest[:top]],
            "other_groups": len(others),
            "other_bytes": sum(sizes[0] for sizes, _, _ in others),
            "total_bytes": self.blocks.total_bytes,
            "seconds": round(clock.taken, 3),
            "complete": clock.complete,
            **({"pools": of_pools} if of_pools else {}),
            **({"pinned": pinned} if pinned else {}),
        }

    def blocks_of_groups(self) -> dict[str, str]:
        """Return each block's address and group, as columns. Groups are numbered as in `look`."""
        addresses, groups = self.blocks.columns(self.order)
        return {"addresses": as_text(addresses), "holders": as_text(groups)}

    def described(self, number: int) -> dict[str, Any]:
        """Return a group in the form stored in a snapshot."""
        size, count, small_views = self.blocks.group(number)
        graph = self.graphs.get(number, Graph())
        return {
            **named_holder(self.keys[number]),
            "bytes": size,
            "count": count,
            "autograd_bytes": graph.bytes,
            "autograd_count": graph.count,
            "nodes": [name[:LONGEST] for name, _ in graph.nodes.most_common(NODES)],
            "small_views": small_views,
        }

    # --- the objects ------------------------------------------------------------------------------

    def start(self) -> None:
        """Add tensors with memory or a graph, models and optimizers."""
        of_pools = pools.kinds_of(self.torch)
        tensors, modules, optimizers, *others = living(
            self.torch.Tensor, self.torch.nn.Module, self.torch.optim.Optimizer, *of_pools
        )
        self.ways.ignored |= {id(tensors), id(modules), id(optimizers)}
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
            for kind, of_kind, attribute in zip(of_pools, others, pools.POOLS.values(), strict=True)
            for one in of_kind
            if (pool := pools.pool_of(kind, one, attribute)) in self.unused
        }
        if not self.tensors.look(
            tensors, self.addresses.plain, self.address(), pools.LEAST_PINNED, self.clock.until
        ):
            self.clock.complete = False
        self.odd: dict[int, list[int]] = {}  # other tensors -> their blocks
        for one in self.tensors.others:
            if not self.clock.in_time():
                break
            blocks = [at for at in self.addresses.all(one) if at in self.blocks]
            node = self.node_of(one)
            if blocks or node is not None:
                at = self.graph.add(one)
                self.odd[at] = blocks
                if node is not None:
                    self.tensors.graphs[at] = node
        self.pinned: dict[int, tuple[int, int]] = {}  # tensor -> its pinned memory
        for one in self.tensors.elsewhere:
            if not self.clock.in_time():
                break
            pinned = pools.pinned_memory(self.torch, one)
            if pinned is not None:
                self.pinned[self.graph.add(one)] = pinned
        self.ways.ignored |= {id(self.tensors.others), id(self.tensors.elsewhere)}

    def address(self) -> Any:
        """Return the fastest function for the address of a tensor's storage."""
        found = getattr(self.torch._C, "_data_address", None)  # doesn't create an object
        return found or (lambda tensor: tensor.untyped_storage().data_ptr())

    def node_of(self, tensor: Any) -> Any:
        if naming.type_name(tensor) in self.addresses.without_memory:
            return None
        try:
            return self.torch._C.TensorBase.grad_fn.__get__(tensor)
        except (AttributeError, RuntimeError):
            return None

    # --- groups -----------------------------------------------------------------------------------

    def number(self, key: Key) -> int:
        """Return a group's number."""
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = self.blocks.add_group(key.kind != UNKNOWN.kind)
            self.keys.append(key)
        return found

    def named(self, at: int) -> int:
        """Return the number of who holds an object; NOBODY if there's no time left."""
        found = self.graph.named(at)
        if found < 0:
            key = self.ways.key(at)
            if key is None:
                return NOBODY
            found = self.number(key)
            container = self.graph.parent(at)
            self.graph.name(at, found, container >= 0 and self.ways.are_alike(container))
        return found

    def keys_of(self, objects: Iterable[int]) -> dict[int, Key]:
        return {at: self.keys[self.named(at)] for at in objects}

    # --- bytes ------------------------------------------------------------------------------------

    def owned(self) -> None:
        """Take what models and optimizers hold."""
        for at in self.models:
            key = self.keys[self.named(at)]
            parameters = self.number(key._replace(kind=PARAMETERS))
            for module in self.below(self.graph.objects[at]):
                for part in ("_parameters", "_buffers"):
                    for tensor in (own(module, part) or {}).values():
                        if self.addresses.is_tensor(tensor):
                            self.blocks.take(parameters, self.addresses.all(tensor))
                            self.take_gradient(key, tensor)
        for at in self.optimizers:
            state = self.number(self.keys[self.named(at)]._replace(kind=STATE))
            for tensor in self.addresses.found_in(own(self.graph.objects[at], "state")):
                self.blocks.take(state, self.addresses.all(tensor))

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
            number = self.number(key._replace(kind=GRADIENTS))
            self.blocks.take(number, self.addresses.all(gradient))

    def take(self, *, known: bool) -> None:
        """Take what variables hold, or what nothing in Python leads to: the autograd graph of
        another tensor may hold that.
        """
        for at, blocks in self.odd.items():
            number = self.named(at)
            if (self.keys[number].kind != UNKNOWN.kind) == known:
                self.blocks.take(number, blocks, size_of(self.graph.objects[at]) if known else -1)
        self.tensors.take(self.named, known)

    def gradients(self) -> None:
        for at in (*self.odd, *self.tensors.with_gradients()):
            if not self.clock.in_time():
                break
            self.take_gradient(self.keys[self.named(at)], self.graph.objects[at])

    def autograd(self) -> None:
        """Take what autograd graphs saved for a backward pass."""
        numbers = {at: self.named(at) for at in self.tensors.graphs}
        # Tensors inside a graph may have Python objects, too.
        heads = sorted(numbers, key=lambda at: self.keys[numbers[at]].kind == UNKNOWN.kind)
        queue = deque((numbers[at], [self.tensors.graphs[at]]) for at in heads)
        seen: set[Any] = set()
        while queue and self.blocks.left:
            number, nodes = queue.popleft()
            for _ in range(TURN):
                if not nodes:
                    break
                node = nodes.pop()
                if node is None or node in seen:
                    continue
                if not self.clock.in_time():
                    return
                seen.add(node)
                self.take_saved(number, node)
                nodes += [one for one, _ in node.next_functions]
            else:
                queue.append((number, nodes))  # so that one large graph doesn't take all the time

    def take_saved(self, number: int, node: Any) -> None:
        """Take what one autograd node saved."""
        for tensor in saved(node):
            count = self.blocks.left
            taken = self.blocks.take(number, self.addresses.all(tensor))
            if taken:
                graph = self.graphs[number]
                graph.bytes += taken
                graph.count += count - self.blocks.left
                graph.nodes[node.name()] += taken


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


def size_of(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
