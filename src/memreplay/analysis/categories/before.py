"""What was there before the recording without a stack, told apart by what the trace shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.categories.origins import EXIT
from memreplay.engine.query import _before

if TYPE_CHECKING:
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# How many tensors of each parameter's size an optimizer keeps, at least, by the name of its file:
# PyTorch's, and Adam's wherever it is.
ONE_STATE = frozenset({"sgd.py", "rmsprop.py", "adagrad.py", "asgd.py"})
TWO_STATES = frozenset({"adadelta.py", "rprop.py"})
ADAM = frozenset(
    f"{kind}{name}.py" for kind in ("", "n", "r", "sparse_") for name in ("adam", "adamw", "adamax")
)
NO_OPTIMIZERS = frozenset({"lr_scheduler.py", "swa_utils.py"})
# What `Optimizer.step` is wrapped in.
AROUND_STEPS = frozenset({"wrapper", "_use_grad"})


def marks_of(file: str, function: str) -> int:
    """The marks of a frame. Regular expressions would say it in fewer words, and take longer to be
    compiled than all else that a small file asks here."""
    name = function.rpartition(".")[2]
    folder, _, base = file.rpartition("/")
    found = 0
    if function.startswith("torch::autograd::Engine::"):
        found = _before.IN_BACKWARD
    elif name == "zero_grad":
        found = _before.AT_ZERO_GRAD
    elif folder.endswith("/torch/autograd"):
        # `loss.backward()` and `torch.autograd.grad` wait here for autograd's threads. Those begin,
        # where stacks are Python's, with a function of one's own, or a checkpoint's hook; in other
        # threads these are called.
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
    if "autocast" in file + function and EXIT.search(f"{file}:{function}"):
        found |= _before.AT_EXIT
    return found


def _marks(snap: Snapshot) -> bytes:
    """Of each frame; those of one function are looked at once."""
    code = snap.code
    known: dict[tuple[int, int], int] = {}
    found = bytearray()
    for i in range(code.frames):
        function, file, _ = code.frame(i)
        marks = known.get((function, file))
        if marks is None:
            marks = marks_of(code.string(file), code.string(function))
            known[function, file] = marks
        found.append(marks)
    return bytes(found)


def likely(snap: Snapshot, replay: Replay, only_python: bool) -> Column | None:
    """Of each carried block the number of ORIGINS that it likely has. None where nothing can be
    told: all have stacks, or no event has."""
    if not snap.has_events or not snap.events_with_stack:
        return None
    if not _before.any_stackless(replay.native):
        return None
    if replay.likely is None:
        replay.likely = _before.likely(replay.native, only_python, _marks(snap))
    return replay.likely
