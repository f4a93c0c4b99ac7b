"""Recordings of small training programs whose possible savings are known."""

from __future__ import annotations

import memreplay as mr
from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.groups.grouping import Grouper
from tests import build
from tests.build import SnapshotBuilder

MIB = 1 << 20
Stack = list[tuple[str, str, int]]

_TORCH = "/v/lib/python3.12/site-packages/torch"
MODEL = ("forward", "/home/ana/model.py", 10)
TRAIN = ("train", "/home/ana/train.py", 20)
FORWARD: Stack = [MODEL, TRAIN]
LINEAR: Stack = [("forward", f"{_TORCH}/nn/modules/linear.py", 1), MODEL, TRAIN]
ACTIVATION: Stack = [("relu", f"{_TORCH}/nn/functional.py", 3), MODEL, TRAIN]
SOFTMAX: Stack = [("softmax", f"{_TORCH}/nn/functional.py", 1), MODEL, TRAIN]
LOSS: Stack = [("cross_entropy", f"{_TORCH}/nn/functional.py", 2), TRAIN]
BACKWARD: Stack = [("torch::autograd::Engine::evaluate_function()", "??", 0)]
STEP = ("step", f"{_TORCH}/optim/adamw.py", 30)
INIT: Stack = [("_init_group", f"{_TORCH}/optim/adamw.py", 31), STEP, TRAIN]
INIT_SECOND: Stack = [("_init_group", f"{_TORCH}/optim/adamw.py", 35), STEP, TRAIN]
FOREACH: Stack = [("_multi_tensor_adamw", f"{_TORCH}/optim/adamw.py", 40), STEP, TRAIN]
INFER: Stack = [MODEL, ("predict", "/home/ana/serve.py", 7)]
EVALUATE: Stack = [MODEL, ("validate", "/home/ana/train.py", 50)]
# The stack of a module's output during evaluation, including PyTorch's own frames.
EVALUATED: Stack = [ACTIVATION[0], *EVALUATE]
PARAMETER: Stack = [("__init__", f"{_TORCH}/nn/modules/linear.py", 3), TRAIN]


class Program:
    """A recorder of allocations and frees, in which every block has a unique address."""

    def __init__(self) -> None:
        self.made = SnapshotBuilder()
        self.next = 0x10_0000_0000
        self.live: dict[int, int] = {}

    def alloc(self, size: int, stack: Stack) -> int:
        at, self.next = self.next, self.next + size
        self.made.alloc(at, size, frames=stack)
        self.live[at] = size
        return at

    def free(self, *blocks: int) -> None:
        for at in blocks:
            self.made.free(at, self.live.pop(at))

    def snapshot(self) -> mr.Snapshot:
        return mr.open(build.dump(self.made.finish_segments().build()))

    def lives(self) -> Lives:
        snap = self.snapshot()
        return Lives(snap.replay(0), Grouper(snap, "category"))
