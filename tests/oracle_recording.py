"""Compute the kind of each allocation in a running program, and match it with events in traces,
using slow, simple code.

A program makes the same calls that the native tracker receives (engine/record/tracker.pyx), from
threads that run modules, backward passes and optimizers. This oracle knows which module created an
autograd node; the tracker has to infer that from the node's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# In order of precedence: the first one that applies wins.
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
EARLY_US = (
    100_000  # an allocation is noted at most this long before PyTorch's event for the allocation …
)
LATE_US = 1_000  # … and at most this long after it


class Kind(NamedTuple):
    """An allocation's kind; `module` is a number, 0 for none."""

    category: str
    phase: str
    module: int


class Region:
    """A span in a program: an optimizer's step, a recomputation, or a pause between these."""


@dataclass(eq=False)
class Node:
    """An autograd node."""

    module: int


@dataclass(eq=False)
class Thread:
    """A thread's current state."""

    modules: list[int] = field(default_factory=list)
    recomputing: int = 0
    optimizing: int = 0
    region: Region | None = None  # the recomputation that it's running
    step: Region | None = None  # the optimizer step that it's running
    given: str = ""
    backward: int = -1  # its backward pass's number
    node: Node | None = None  # the autograd node it's running
    noted_module: int = 0  # module of the last node that allocated anything
    pause: Region | None = None  # the last pause that this thread saw
    nodes: int = 0  # number of nodes at the start of that pause


@dataclass(eq=False)
class Allocation:
    """An allocation; `number` counts from 1."""

    number: int
    address: int
    born_us: int  # 0: before the recording
    phase: str
    module: int = 0
    region: Region | None = None
    node: Node | None = None
    passes: int = 0  # backward passes started so far
    steps: int = 0  # steps ended so far
    told: str = ""
    owner: int = 0
    final: Kind | None = None  # set once it is freed

    @property
    def ended(self) -> bool:
        return self.final is not None


class Program:
    """A program being recorded."""

    def __init__(self) -> None:
        self.threads: dict[object, Thread] = {}
        self.allocations: list[Allocation] = []
        self.live: dict[int, Allocation] = {}
        self.newest_pass = -1
        self.passes = self.steps = 0
        self.outside = "start"
        # The module in which nodes are being created. Recomputations don't count, because their
        # nodes never run.
        self.making = 0
        self.pause = Region()
        self.nodes = 0  # autograd nodes created so far

    def thread(self, name: object) -> Thread:
        return self.threads.setdefault(name, Thread())

    # --- where the program is ---------------------------------------------------------------------

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
        """Leave a module; all modules and regions inside it are left too."""
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
        """From now on, this many optimizer steps evaluate the model themselves."""
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
        """Begin a forward pass if nodes were created in a pause, in a program without modules. The
        thread that started the pause knows the number of nodes then; any other thread knows it from
        its first allocation or free.
        """
        if self.outside == "forward":
            return False
        if thread.pause is not self.pause:
            thread.pause, thread.nodes = self.pause, self.nodes
        return self.nodes > thread.nodes

    def _look(self, thread: Thread) -> None:
        """Notice a backward pass, which is possible only when something is allocated or freed in
        it.
        """
        if thread.backward > self.newest_pass:
            self.newest_pass = thread.backward
            self.passes += 1
            self._now(thread, outside="other")

    # --- what the program allocates ---------------------------------------------------------------

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
        if made.address in self.live:  # its free wasn't reported
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
        """Mark a block as a parameter, a gradient, …; unknown blocks were carried over."""
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
            return True  # a module's output is often also the output of a module inside it
        if not one.told or TOLD.index(category) < TOLD.index(one.told):
            one.told, one.owner = category, module
        elif one.told == category:
            one.owner = one.owner or module
        return True

    # --- what an allocation is --------------------------------------------------------------------

    def kind(self, thread: Thread, one: Allocation, *, ends: bool) -> Kind:
        """Return the kind that an allocation has if this thread frees or inspects it now."""
        if one.final is not None:
            return one.final
        category = one.told or self._category(thread, one, ends=ends)
        return Kind(category, one.phase, one.owner or one.module)

    def _category(self, thread: Thread, one: Allocation, *, ends: bool) -> str:
        if one.phase == "optimizer":
            inside = thread.optimizing and one.region is thread.step
            return "temporary" if inside else "optimizer state"
        stays = self.steps > one.steps + 1  # a workspace, or a loss that the program keeps
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
        """Return the allocation for each event in these traces, and the carried-over allocations,
        as this thread sees them. The first `sure` allocations are either in the traces or predate
        them.
        """
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
        """Match events from last to first, each with the newest unmatched allocation at its
        address.
        """
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
