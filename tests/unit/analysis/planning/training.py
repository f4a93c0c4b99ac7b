"""A model of training with and without recomputed blocks, and its recording."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.planning.lever import Recording
from tests import build
from tests.build import SnapshotBuilder
from tests.noted import Kind, with_notes

MIB = 1 << 20
FOREACH = "_multi_tensor_adamw", "/v/lib/python3.12/site-packages/torch/optim/adamw.py"


class Operation(NamedTuple):
    """An operation of a block: its result's size, and its workspace's, which is freed at once."""

    size: int
    saved: bool
    """Whether its own backward pass needs the result."""
    inner: str = ""
    """The submodule that runs it; "" for the block itself."""
    space: int = 0


class Block(NamedTuple):
    """A block of a model. Its first operation saves the block's input."""

    operations: tuple[Operation, ...]
    output: int
    """Size of the result of its last operation, which nothing in the block saves."""


class Training:
    """Runs a model and notes what it allocates and frees. The blocks in `again` are recomputed.

    As PyTorch does: without a graph, a result is freed once the next one is there. A forward pass
    that runs again ends with the last result that is saved.
    """

    def __init__(self, blocks: list[Block], again: frozenset[int] = frozenset()) -> None:
        self.blocks, self.again = blocks, again
        self.made = SnapshotBuilder()
        self.kinds: list[Kind | None] = []
        self.live: dict[int, int] = {}
        self.next = 0x10_0000_0000
        self.bytes = self.peak = 0
        self.steps: list[int] = []

    # --- one event --------------------------------------------------------------------------------

    def alloc(
        self,
        size: int,
        kind: Kind,
        line: int = 1,
        frame: tuple[str, str] = ("forward", "/home/ana/model.py"),
    ) -> int:
        """Allocate. `kind`: category, phase and module."""
        at, self.next = self.next, self.next + size + 512
        self.made.alloc(at, size, frames=[(*frame, line)])
        self.kinds.append(kind)
        self.live[at] = size
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        return at

    def free(self, *blocks: int) -> None:
        for at in blocks:
            size = self.live.pop(at)
            self.made.free(at, size)
            self.kinds += [None, None]
            self.bytes -= size

    # --- passes -----------------------------------------------------------------------------------

    def step(self, parameters: int = 0) -> None:
        """Run a training step."""
        self.steps.append(len(self.kinds))
        inputs = [self.alloc(MIB, ("inputs", "data", ""))]
        saved: list[dict[int, int]] = []
        for number, block in enumerate(self.blocks):
            held, output = self.forward(number, block, "forward", graph=number not in self.again)
            saved.append(held)
            assert output is not None
            inputs.append(output)
        gradient = self.alloc(self.blocks[-1].output, ("autograd detail", "backward", ""))
        self.free(inputs.pop())
        for number in reversed(range(len(self.blocks))):
            held = saved[number]
            if number in self.again:
                held, _ = self.forward(number, self.blocks[number], "recomputation", graph=True)
            for at in reversed(range(len(self.blocks[number].operations) + 1)):
                size = self.blocks[number].operations[at - 1].size if at else MIB
                module = self.module(number, at)
                new = self.alloc(size, ("autograd detail", "backward", module), 100 + at)
                if at in held:
                    self.free(held[at])
                self.free(gradient)
                gradient = new
            self.free(inputs.pop())
        self.free(gradient)

    def module(self, number: int, at: int) -> str:
        operations = self.blocks[number].operations
        inner = operations[at].inner if at < len(operations) else ""
        return f"Net.layers.{number}" + (f".{inner}" if inner else "")

    def forward(
        self, number: int, block: Block, phase: str, *, graph: bool
    ) -> tuple[dict[int, int], int | None]:
        """Run a block. Return the saved results, and the block's."""
        saved: dict[int, int] = {}
        previous: int | None = None
        every = [*block.operations, Operation(block.output, saved=False)]
        last = len(every) - 1
        if phase == "recomputation":
            last = max((at for at, one in enumerate(every) if one.saved), default=-1)
        for at, one in enumerate(every[: last + 1]):
            module = self.module(number, at)
            made = self.alloc(one.size, ("activations", phase, module), 1 + at)
            if one.space:
                self.free(self.alloc(one.space, ("temporary", phase, module), 1 + at))
            if previous is not None:
                self.free(previous)
            previous = None if one.saved and graph else made
            if one.saved and graph:
                saved[at] = made
        if phase == "recomputation":
            if previous is not None:
                self.free(previous)
            return saved, None
        return saved, previous

    def dump(self) -> bytes:
        """Return the recording as a file."""
        made = with_notes(self.made.finish_segments().build(), [self.kinds])
        made["memreplay"]["steps"] = [self.steps]
        return build.dump(made)

    def snapshot(self) -> mr.Snapshot:
        """Return the recording."""
        return mr.open(self.dump())


def recording_of(snap: mr.Snapshot) -> Recording:
    """Return what plans know of a recording."""
    replay = snap.replay(0)
    steps = [one - replay.first_event for one in snap.recorded_steps(0)]
    return Recording.made(snap, replay, Grouper(snap, "category"), steps)


def trained(blocks: list[Block], again: frozenset[int] = frozenset(), steps: int = 2) -> Training:
    """Train for some steps."""
    found = Training(blocks, again)
    for _ in range(steps):
        found.step()
    return found


class Optimized(Training):
    """Training with parameters of 32 and 8 MiB, their gradients and Adam's state. The temporaries
    of `foreach` are as large as the parameters.
    """

    SIZES = (32 * MIB, 8 * MIB)

    def __init__(self, *, to_none: bool = True, block: int = 10) -> None:
        super().__init__([Block((Operation(block * MIB, saved=True),), MIB)] * 2)
        self.to_none = to_none
        self.parameters = [
            self.alloc(one, ("parameters", "start", "Net.layers.0")) for one in self.SIZES
        ]
        self.state: list[int] = []
        self.gradients: list[int] = []

    def step(self, parameters: int = 0) -> None:
        """Run a training step and the optimizer's."""
        if self.to_none:
            self.free(*self.gradients)
            self.gradients = []
        super().step()
        new = [
            self.alloc(one, ("gradients", "backward", "Net.layers.0"), 200) for one in self.SIZES
        ]
        if self.gradients:
            self.free(*new)
        else:
            self.gradients = new
        if not self.state:
            self.state = [
                self.alloc(one, ("optimizer state", "optimizer", ""))
                for one in (*self.SIZES, *self.SIZES)
            ]
        temporary = ("temporary", "optimizer", "")
        self.free(*[self.alloc(one, temporary, 40, FOREACH) for one in self.SIZES])


def recorded(steps: int = 3, **options: bool | int) -> Recording:
    made = Optimized(**options)  # type: ignore[arg-type]
    for _ in range(steps):
        made.step()
    return recording_of(made.snapshot())


SIZES = st.integers(1, 40).map(lambda one: one * 512 * 1024)


@st.composite
def models(draw: st.DrawFn, most: int = 5) -> list[Block]:
    """Draw models. Each block saves at least one result."""
    found = []
    for _ in range(draw(st.integers(1, most))):
        operations = [
            Operation(
                draw(SIZES),
                draw(st.booleans()),
                draw(st.sampled_from(("", "a", "b"))),
                draw(st.sampled_from((0, 0, 1 << 20, 8 << 20))),
            )
            for _ in range(draw(st.integers(1, 6)))
        ]
        operations[draw(st.integers(0, len(operations) - 1))] = Operation(draw(SIZES), saved=True)
        found.append(Block(tuple(operations), draw(SIZES)))
    return found
