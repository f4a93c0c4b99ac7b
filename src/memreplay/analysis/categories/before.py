"""Classify carried-over blocks without a stack from what the trace shows."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from memreplay.analysis.categories.origins import MARKS
from memreplay.analysis.code.patterns import regexes
from memreplay.engine.query import _before, _groups

if TYPE_CHECKING:
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# Minimum number of state tensors per parameter, by the optimizer's file name. Adam is recognized in
# files with any name.
ONE_STATE = frozenset({"sgd.py", "rmsprop.py", "adagrad.py", "asgd.py"})
TWO_STATES = frozenset({"adadelta.py", "rprop.py"})
ADAM = frozenset(
    f"{kind}{name}.py" for kind in ("", "n", "r", "sparse_") for name in ("adam", "adamw", "adamax")
)
NO_OPTIMIZERS = frozenset({"lr_scheduler.py", "swa_utils.py"})
# Functions that wrap `Optimizer.step`.
AROUND_STEPS = frozenset({"wrapper", "_use_grad"})


def marks_of(file: str, function: str) -> int:
    """Return a frame's marks."""
    name = function.rpartition(".")[2]
    folder, _, base = file.rpartition("/")
    found = 0
    if function.startswith("torch::autograd::Engine::"):
        found = _before.IN_BACKWARD
    elif name == "zero_grad":
        found = _before.AT_ZERO_GRAD
    elif folder.endswith("/torch/autograd"):
        # `loss.backward()` and `torch.autograd.grad` wait in these functions for autograd's
        # threads. In a Python-only stack, an autograd thread's outermost frame is `apply` (which
        # runs a custom function) or `unpack_hook` (which recomputes a checkpoint).
        if (base, name) == ("function.py", "apply"):
            found = _before.OF_BACKWARD
        elif (base, name) in (
            ("graph.py", "_engine_run_backward"),
            ("__init__.py", "backward"),
            ("__init__.py", "grad"),
        ):
            found = _before.IN_BACKWARD
    elif name == "backward" and file.endswith("/torch/_tensor.py"):
        found = _before.IN_BACKWARD
    elif name == "unpack_hook" and file.endswith("/torch/utils/checkpoint.py"):
        found = _before.OF_BACKWARD
    elif folder.endswith("/torch/optim"):
        if name in AROUND_STEPS if base == "optimizer.py" else base not in NO_OPTIMIZERS:
            found = _before.IN_OPTIMIZER
    elif name == "step" and base.endswith(".py") and "optim" in base.lower():
        found = _before.IN_OPTIMIZER
    if folder.endswith("/torch/optim"):
        found |= _before.ONE_STATE if base in ONE_STATE else 0
        found |= _before.TWO_STATES if base in TWO_STATES else 0
    if base.lower() in ADAM:
        found |= _before.TWO_STATES
    if "autocast" in file + function and MARKS.search(f"{file}:{function}") & _groups.IS_EXIT:
        found |= _before.AT_EXIT
    return found


# What every frame with marks contains.
_MARKED = regexes(
    (
        1,
        (
            r"torch::autograd::Engine::|zero_grad|/torch/(?:autograd|optim)/|backward|unpack_hook"
            r"|(?i:optim|adam)|autocast"
        ),
    )
)


def _marks(snap: Snapshot) -> bytes:
    """Return each frame's marks. Frames of the same function are looked up only once."""
    code = snap.code
    known: dict[tuple[int, int], int] = {}
    found = bytearray(code.frames)
    for i in compress(range(code.frames), memoryview(_MARKED.of_frames(snap.native))):
        function, file, _ = code.frame(i)
        marks = known.get((function, file))
        if marks is None:
            marks = marks_of(code.string(file), code.string(function))
            known[function, file] = marks
        found[i] = marks
    return bytes(found)


def likely(snap: Snapshot, replay: Replay, only_python: bool) -> Column | None:
    """Return the likely origin (index in ORIGINS) of each carried-over block.

    Return None if all blocks have stacks, so there's nothing to infer, or if no event has a stack
    to infer from.
    """
    if not snap.has_events or not snap.events_with_stack:
        return None
    if not _before.any_stackless(replay.native):
        return None
    if replay.likely is None:
        replay.likely = _before.likely(replay.native, only_python, _marks(snap))
    return replay.likely
