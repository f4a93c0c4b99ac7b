"""Compare the memory of a program's own objects with the recorder's categories.

This runs in the process of a program in `tests/truth/recorded`, along with `told`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from memreplay.recording.recorder import Recorder
from tests.truth import told


@contextlib.contextmanager
def recorded(**options: Any) -> Iterator[Recorder]:
    """Run the recorder, which writes PID.recorded.pickle."""
    folder = os.environ["MEMREPLAY_DRYRUN"]
    torch.cuda.init()
    sys.setprofile(None)  # take no moments while the recorder starts
    with Recorder(f"{folder}/{os.getpid()}.recorded.pickle", quiet=True, **options) as recorder:
        told.begin()
        try:
            yield recorder
        finally:
            told.moment(kept=True)
            sys.setprofile(None)


def take(*models: Any, optimizers: Any = (), **more: int) -> None:
    """Compare the exact bytes that these models and optimizers hold on the GPU with the recorder's
    notes. `more` adds or replaces categories.
    """
    if not isinstance(optimizers, Iterable):
        optimizers = (optimizers,)
    parameters = {id(p): p for model in models for p in model.parameters()}
    for optimizer in optimizers:
        parameters |= {id(p): p for group in optimizer.param_groups for p in group["params"]}
    sums = {
        "parameters": held(parameters.values()),
        "buffers": held(b for model in models for b in model.buffers()),
        "gradients": held(p.grad for p in parameters.values()),
        "optimizer_state": held(tensors_in([one.state for one in optimizers])),
    }
    told.categories(**{**sums, **more})


def take_states(optimizers: Any) -> None:
    """Compare only the optimizer state."""
    told.categories(optimizer_state=held(tensors_in([one.state for one in optimizers])))


def held(tensors: Any) -> int:
    """Return the bytes in these tensors' storages on the GPU, counting each storage once."""
    return told.nbytes(plain for one in tensors for plain in plain_tensors(one) if plain.is_cuda)


def plain_tensors(tensor: Any) -> Iterator[Any]:
    if tensor is None:
        return
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        yield from plain_tensors(local)
    elif tensor.is_sparse:
        yield from (tensor._indices(), tensor._values())
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from plain_tensors(getattr(tensor, name))
    else:
        yield tensor


def tensors_in(thing: Any) -> Iterator[Any]:
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, Mapping):
        for one in thing.values():
            yield from tensors_in(one)
    elif isinstance(thing, (list, tuple)):
        for one in thing:
            yield from tensors_in(one)
