"""What was there before the recording without a stack, told apart by what the trace shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.categories.origins import EXIT
from memreplay.analysis.code.late import Late
from memreplay.analysis.code.patterns import bits_of_frames
from memreplay.engine.query import _before

if TYPE_CHECKING:
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# Where autograd runs. `loss.backward()` waits for it in the first three.
BACKWARD = Late(
    r":torch::autograd::Engine::|/torch/autograd/graph\.py:_engine_run_backward$"
    r"|/torch/autograd/__init__\.py:(?:backward|grad)$|/torch/_tensor\.py:(?:\w+\.)?backward$",
    (
        ":torch::autograd::engine::",
        "/torch/autograd/graph.py:_engine_run_backward",
        "/torch/autograd/__init__.py:",
        "/torch/_tensor.py:",
    ),
)
# What its own threads begin with, where stacks are Python's: in the others these are called.
THREAD = Late(
    r"/torch/autograd/function\.py:(?:\w+\.)?apply$"
    r"|/torch/utils/checkpoint\.py:(?:\S{1,64}\.)?unpack_hook$",
    ("/torch/autograd/function.py:", "/torch/utils/checkpoint.py:"),
)
ZERO_GRAD = Late(r":(?:\w+\.)?zero_grad$", ("zero_grad",))
STEP = Late(
    r"/torch/optim/(?!optimizer|lr_scheduler|swa_utils)\w+\.py:"
    r"|/torch/optim/optimizer\.py:(?:\S{1,64}\.)?(?:wrapper|_use_grad)$"
    r"|(?i:optim\w{0,64}\.py):(?:\w+\.)?step$",
    ("optim",),
)
# How many tensors of each parameter's size an optimizer keeps, at least.
ONE_STATE = Late(r"/torch/optim/(?:sgd|rmsprop|adagrad|asgd)\.py:", ("/torch/optim/",))
TWO_STATES = Late(
    r"/torch/optim/(?:adadelta|rprop)\.py:|(?i:/(?:n|r|sparse_)?adam(?:w|ax)?\.py:)",
    ("/torch/optim/", "adam"),
)
MARKS = (
    (_before.IN_BACKWARD, BACKWARD),
    (_before.OF_BACKWARD, THREAD),
    (_before.AT_ZERO_GRAD, ZERO_GRAD),
    (_before.AT_EXIT, EXIT),
    (_before.IN_OPTIMIZER, STEP),
    (_before.ONE_STATE, ONE_STATE),
    (_before.TWO_STATES, TWO_STATES),
)


def likely(snap: Snapshot, replay: Replay, only_python: bool) -> Column | None:
    """Of each carried block the number of ORIGINS that it likely has. None where nothing can be
    told: all have stacks, or no event has."""
    if not snap.has_events or not snap.events_with_stack:
        return None
    if not _before.any_stackless(replay.native):
        return None
    if replay.likely is None:
        marks = bytes(bits_of_frames(snap, MARKS).tolist())
        replay.likely = _before.likely(replay.native, only_python, marks)
    return replay.likely
