"""Record in torchtune: `optimizer._component_=memreplay.integrations.torchtune.optimizer
optimizer.of=torch.optim.AdamW` in the configuration.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memreplay.integrations.running import Recording

_recordings: list[Recording] = []  # this process's recording


def optimizer(parameters: Any, *, of: str, memreplay: Any = None, **options: Any) -> Any:
    """Return an optimizer, and begin recording: recipes create it when the model exists.

    Parameters
    ----------
    parameters
        The model's parameters, from the recipe.
    of : str
        The optimizer's class, such as `torch.optim.AdamW`.
    memreplay : mapping, optional
        The options of `Recording`.
    **options
        The optimizer's own options.
    """
    module, _, name = of.rpartition(".")
    made = getattr(import_module(module), name)(parameters, **options)
    if not _recordings:  # with optimizer_in_bwd, each parameter has its own optimizer
        _recordings.append(Recording(**dict(memreplay or {})))
        _recordings[0].begin(optimizer=made)
    return made
