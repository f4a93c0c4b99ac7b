"""Record in torchtune: `optimizer._component_=memreplay.integrations.torchtune.optimizer
optimizer.of=torch.optim.AdamW` in the configuration.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memreplay.integrations.running import Recording


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
    Recording(**dict(memreplay or {})).begin(optimizer=made)
    return made
