"""What each allocation of a running program is, slowly and obviously, and where traces have it.

A program calls what the native tracker is called (engine/record/tracker.pyx), in threads that run
modules, backward passes and optimizers. Which module made a node of autograd is known here; the
tracker has to find it out by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# In their order: of what is told by several, the first counts.
TOLD = (
    "unsharded parameters",
    "parameters",
    "buffers",
    "unsharded gradients",
    "gradients",
    "optimizer state",
    "inputs",
    "communication",
    "activations",
    "temporary",
    "autograd detail",
    "other",
)
EARLY_US = 100_000  # an allocation is noted at most so long before PyTorch's event of it …
LATE_US = 1_000  # … and at most so long after it


class Kind(NamedTuple):
    """What an allocation is; `module` is a number, 0 none."""

    category: str
    phase: str
    module: int


class Region:
    """A stretch of a program: a step of an optimizer, a recomputation, a pause between others."""


@dataclass(eq=False)
class Node:
    """A node of autograd."""

    module: int


@dataclass(eq=False)
class Thread:
    """What a thread is at."""

    modules: list[int] = field(default_factory=list)
    recomputing: int = 0
    optimizing: int = 0
    region: Region | None = None  # the recomputation that it is in
    step: Region | None = None  # the step of an optimizer
    given: str = ""
    backward: int = -1  # the number of the backward pass that it is in
    node: Node | None = None  # what runs in it
    noted_module: int = 0  # that of the last node by which anything was allocated
    pause: Region | None = None  # the last that it has seen
    nodes: int = 0  # how many there were then


@dataclass(eq=False)
class Allocation:
    """One allocation; `number` counts from 1 on."""

    number: int
    address: int
    born_us: int  # 0: before the recording
    phase: str
    module: int = 0
    region: Region | None = None
    node: Node | None = None
    passes: int = 0  # backward passes that had begun
    steps: int = 0  # steps that had ended
    told: str = ""
    owner: int = 0
    final: Kind | None = None  # when it has ended

    @property
    def ended(self) -> bool:
        return self.final is not None


class Program:
    """A program that is recorded."""

    def __init__(self) -> None:
        self.threads: dict[object, Thread] = {}
        self.allocations: list[Allocation] = []
        self.live: dict[int, Allocation] = {}
        self.newest_pass = -1
        self.passes = self.steps = 0
        self.outside = "start"
        # The module that nodes are made in, outside of recomputations, which make none that run.
        self.making = 0
        self.pause = Region()
        self.nodes = 0  # of autograd, that were made

    def thread(self, name: object) -> Thread:
        return self.threads.setdefault(name, Thread())

    # --- where it is ------------------------------------------------------------------------------

    def enter(self, name: object, module: int) -> None:
        thread = self.thread(name)
        thread.modules.append(module)
        if thread.backward >= 0 or thread.recomputing:
            self._begin_recomputing(thread)
        else:
            self.making = module
            if len(thread.modules) == 1:
                self._now(thread, outside="forward")

    def leave(self, name: object, module: int) -> None:
        """What ran inside of it has ended with it."""
        thread = self.thread(name)
        while module in thread.modules:
            thread.recomputing = max(thread.recomputing - 1, 0)
            if thread.modules.pop() == module:
                if not thread.recomputing:
                    self.making = thread.modules[-1] if thread.modules else 0
                return

    def recompute(self, name: object, *, begins: bool) -> None:
        thread = self.thread(name)
        if begins:
            self._begin_recomputing(thread)
        else:
            thread.recomputing = max(thread.recomputing - 1, 0)

    def _begin_recomputing(self, thread: Thread) -> None:
        if not thread.recomputing:
            thread.region = Region()
        thread.recomputing += 1

    def optimize(self, name: object, *, begins: bool) -> None:
        thread = self.thread(name)
        if begins:
            if not thread.optimizing:
                thread.step = Region()
            thread.optimizing += 1
        elif thread.optimizing:
            thread.optimizing -= 1
            if not (thread.optimizing or thread.recomputing or thread.backward >= 0):
                self._now(thread, outside="data")

    def evaluate(self, name: object, steps: int) -> int:
        """A step of an optimizer has the model evaluated: it is in so many steps from now on."""
        thread = self.thread(name)
        before, thread.optimizing = thread.optimizing, steps
        return before

    def step(self) -> None:
        self.steps += 1

    def resume(self, name: object) -> None:
        self._now(self.thread(name), outside="data")

    def _now(self, thread: Thread, *, outside: str) -> None:
        if self.outside != outside:
            self.outside, self.pause = outside, Region()
        thread.pause, thread.nodes = self.pause, self.nodes

    def _forward_begins(self, thread: Thread) -> bool:
        """A program without modules: nodes that are made in a pause begin a forward pass. How many
        there were when the pause began is known to the thread that began it, and to another from
        the first that it allocates or frees."""
        if self.outside == "forward":
            return False
        if thread.pause is not self.pause:
            thread.pause, thread.nodes = self.pause, self.nodes
        return self.nodes > thread.nodes

    def _look(self, thread: Thread) -> None:
        """A backward pass is heard of when something is allocated or freed in it."""
        if thread.backward > self.newest_pass:
            self.newest_pass = thread.backward
            self.passes += 1
            self._now(thread, outside="other")

    # --- what it allocates ------------------------------------------------------------------------

    def taken(self, name: object, address: int, now_us: int) -> Allocation | None:
        if not address:
            return None
        thread = self.thread(name)
        self._look(thread)
        idle = not (thread.optimizing or thread.recomputing or thread.modules)
        if idle and thread.backward < 0 and self._forward_begins(thread):
            self._now(thread, outside="forward")
        made = Allocation(len(self.allocations) + 1, address, now_us, self.outside)
        made.region, made.passes, made.steps = self.pause, self.passes, self.steps
        made.told = thread.given
        made.module = thread.modules[-1] if thread.modules else 0
        if thread.optimizing:
            made.phase, made.region = "optimizer", thread.step
        elif thread.recomputing:
            made.phase, made.region = "recomputation", thread.region
        elif thread.backward >= 0:
            made.phase, made.node = "backward", thread.node
            if thread.node is not None:
                thread.noted_module = thread.node.module
            made.module = thread.noted_module
        elif thread.modules:
            made.phase, made.region = "forward", thread.region
        self._add(thread, made)
        return made

    def _add(self, thread: Thread, made: Allocation) -> None:
        if made.address in self.live:  # nobody told its end
            self._end(thread, self.live[made.address])
        self.live[made.address] = made
        self.allocations.append(made)

    def let_go(self, name: object, address: int) -> None:
        thread = self.thread(name)
        if address:
            self._look(thread)
            if thread.backward < 0 and thread.pause is not self.pause:
                thread.pause, thread.nodes = self.pause, self.nodes
        if address in self.live:
            self._end(thread, self.live.pop(address))

    def _end(self, thread: Thread, one: Allocation) -> None:
        one.final = self.kind(thread, one, ends=True)

    def tell(self, address: int, category: str, module: int) -> None:
        """It is a parameter, a gradient, …; what is not known was there before the recording."""
        if not address:
            return
        if address not in self.live:
            before = Allocation(len(self.allocations) + 1, address, 0, "before the recording")
            self._add(Thread(), before)
        self.tell_live(address, category, module)

    def tell_live(self, address: int, category: str, module: int) -> bool:
        one = self.live.get(address)
        if one is None:
            return False
        if category == "inputs" and one.module:
            return True  # what a module has made is another's output first
        if not one.told or TOLD.index(category) < TOLD.index(one.told):
            one.told, one.owner = category, module
        elif one.told == category:
            one.owner = one.owner or module
        return True

    # --- what it is -------------------------------------------------------------------------------

    def kind(self, thread: Thread, one: Allocation, *, ends: bool) -> Kind:
        """What it is, if it ends now in this thread, or this thread asks what it is so far."""
        if one.final is not None:
            return one.final
        category = one.told or self._category(thread, one, ends=ends)
        return Kind(category, one.phase, one.owner or one.module)

    def _category(self, thread: Thread, one: Allocation, *, ends: bool) -> str:
        if one.phase == "optimizer":
            inside = thread.optimizing and one.region is thread.step
            return "temporary" if inside else "optimizer state"
        stays = self.steps > one.steps + 1  # a workspace, a loss that is kept
        if one.phase == "recomputation":
            if ends and thread.recomputing and one.region is thread.region:
                return "temporary"
            return "other" if stays else "activations"
        if one.phase == "backward":
            if thread.backward >= 0 and one.node is not None and one.node is thread.node:
                return "temporary"
            return "other" if stays else "autograd detail"
        if one.phase == "forward":
            if stays:
                return "other"
            return "temporary" if ends and self.passes == one.passes else "activations"
        if ends and one.region is self.pause:
            return "temporary"
        return "inputs" if one.phase == "data" else "other"

    # --- in PyTorch's traces ----------------------------------------------------------------------

    def joined(
        self, name: object, traces: Sequence[Sequence[dict[str, Any]]], sure: int
    ) -> tuple[list[list[Kind | None]], dict[int, Kind]]:
        """(what each event of these traces allocates, what was there before them), asked by this
        thread. The first `sure` allocations are in the traces or older."""
        thread = self.thread(name)
        left: dict[int, list[Allocation]] = {}
        for one in self.allocations:
            left.setdefault(one.address, []).append(one)
        columns = [
            list(reversed(list(self._backwards(thread, trace, left, sure)))) for trace in traces
        ]
        first: dict[int, str] = {}
        for trace in traces:
            for event in reversed(trace):
                if event["action"] in ("alloc", "free_requested", "free_completed", "free"):
                    first[event["addr"]] = event["action"]
        before = {
            address: self.kind(thread, ones[-1], ends=False)
            for address, ones in left.items()
            if ones and ones[-1].number <= sure
            if (first[address] != "alloc" if address in first else not ones[-1].ended)
        }
        return columns, before

    def _backwards(
        self,
        thread: Thread,
        trace: Sequence[dict[str, Any]],
        left: dict[int, list[Allocation]],
        sure: int,
    ) -> Iterable[Kind | None]:
        """Of each event, the last first: of an address the last is the newest that is noted."""
        for event in reversed(trace):
            found = None
            if event["action"] == "alloc":
                ones, time = left.get(event["addr"], []), event.get("time_us", 0)
                while ones and ones[-1].number > sure:
                    if time and ones[-1].born_us <= time + LATE_US:
                        break
                    ones.pop()
                if ones and not (time and 0 < ones[-1].born_us < time - EARLY_US):
                    found = self.kind(thread, ones.pop(), ends=False)
            yield found
