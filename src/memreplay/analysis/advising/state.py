"""Estimate what an optimizer's first step still has to allocate when one of its requests fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.analysis.advising.forms import BACKWARD
from memreplay.analysis.advising.lives import FOREACH
from memreplay.analysis.categories.rules import DEFAULT_RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.advising.lives import Lives
    from memreplay.snapshot.model import Frame

_STEP = re.compile(
    next(rule.frames for rule in DEFAULT_RULES if rule.name == "optimizer state" and rule.frames)
)
_PYTORCH = re.compile(r"/torch/optim/(\w{1,64})\.py:")
# How many state tensors of the parameter's size each PyTorch optimizer keeps per parameter.
STATES = {"adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "adadelta": 2, "lbfgs": 0}
SCALAR = 4096  # bytes; step counters and similar values are smaller


def remaining_state_bytes(lives: Lives, frames: Sequence[Frame], event: int) -> int:
    """Estimate the bytes that the step still allocates, including the request at `event`, whose
    stack is `frames`. Return 0 if this isn't an optimizer's first step. A parameter's state is as
    large as its gradient. PyTorch's default (foreach) kernels also need temporaries as large as all
    parameters together.
    """
    texts = [f"{frame.file}:{frame.function}" for frame in frames]
    if not any(map(_STEP.search, texts)):
        return 0
    code = lives.code()
    live = (lives.start < event) & (lives.end >= event)
    backward = lives.of("category", *BACKWARD)
    gradients = lives.bytes[live & lives.of("category", "gradients", "backward")].sum()
    after = lives.start[backward & (lives.start < event)].max(initial=-1)
    made = live & lives.of(
        "category", "optimizer state", "optimizer temporaries", "temporary", "unknown"
    )
    before = made & (lives.start <= after) & lives.of("category", "optimizer state")
    if after < 0 or not gradients or before.any():
        return 0
    step = made & (lives.start > after)
    temporary = step & ((code & FOREACH) > 0)
    state = step & ~temporary
    large = state & (lives.bytes > SCALAR)
    names = [match[1] for match in map(_PYTORCH.search, texts) if match]
    each = max(lives.lines(large), *(STATES.get(name, 1) for name in names), 1)
    # Fused optimizers, which need no temporaries, keep their step counters on the GPU.
    fused = (state & ~large).any()
    temporaries = gradients if names and not fused else 0
    held = lives.bytes[large].sum() + lives.bytes[temporary].sum()
    return max(0, each * gradients + temporaries - held)
