"""Categorize the memory of FSDP2 and DDP: unsharded parameters and communication buffers.

PyTorch has no hooks for these, so its functions are wrapped during a recording.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.engine.record._tracker import COMMUNICATION, UNSHARDED, UNSHARDED_GRADIENT, mark
from memreplay.recording.modules import is_hooked
from memreplay.recording.tensors import Addresses

# PyTorch 2.6 moved the package.
FSDP = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")
SENT = ("foreach_all_gather", "foreach_all_gather_copy_out", "foreach_reduce")
WHOLE = ("init_all_gather_outputs", "alloc_all_gather_outputs", "init_unsharded_param")
DDP = "torch.nn.parallel.distributed"


class Distributed:
    """Wrap the functions of FSDP2 and DDP as soon as they are loaded."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses, self.guard = addresses, addresses.guard
        self.followed: dict[int, Any] = {}  # each parameter's hooks, by the parameter's id
        # Maps (owner's id, name) to the owner, the original and the wrapper.
        self.wrapped: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self.on = True
        self.loaded = 0  # number of Python modules that were loaded at the last check

    def look(self) -> None:
        """Wrap the functions that were loaded since the last call."""
        if self.loaded == len(sys.modules):
            return
        self.loaded = len(sys.modules)
        for package in FSDP:
            group = sys.modules.get(f"{package}._fsdp_param_group")
            one = getattr(sys.modules.get(f"{package}._fsdp_param"), "FSDPParam", None)
            for name in SENT:
                self.wrap(group, name, self.giving(COMMUNICATION))
            for name in WHOLE:
                self.wrap(one, name, self.giving(UNSHARDED))
            self.wrap(one, "init_unsharded_param", self.following)
        ddp = getattr(sys.modules.get(DDP), "DistributedDataParallel", None)
        for name in ("_ddp_init_helper", "_pre_forward"):
            self.wrap(ddp, name, self.giving(COMMUNICATION))

    def wrap(self, of: Any, name: str, how: Callable[[Any], Any]) -> None:
        theirs = getattr(of, name, None)
        key = getattr(of, "__qualname__", getattr(of, "__name__", "")), f"{name} {how.__qualname__}"
        if theirs is None or key in self.wrapped:
            return
        made = functools.wraps(theirs)(how(theirs))
        setattr(of, name, made)
        self.wrapped[key] = of, theirs, made

    def giving(self, category: int) -> Callable[[Any], Any]:
        """Return a wrapper that gives allocations inside the function this category."""

        def how(theirs: Any) -> Any:
            def gives(*args: Any, **kwargs: Any) -> Any:
                if not self.on:
                    return theirs(*args, **kwargs)
                before = _tracker.give(category)
                try:
                    return theirs(*args, **kwargs)
                finally:
                    _tracker.give(before)

            return gives

        return how

    def following(self, theirs: Any) -> Any:
        """Wrap the initialization of unsharded parameters, to follow their gradients."""

        def made(one: Any, *args: Any, **kwargs: Any) -> Any:
            result = theirs(one, *args, **kwargs)
            if self.on:
                self.guard.run("following a whole parameter", self.follow, one)
            return result

        return made

    def follow(self, one: Any) -> None:
        parameter = getattr(one, "_unsharded_param", None)
        if parameter is None or is_hooked(self.followed.get(id(parameter))):
            return
        if parameter.requires_grad and parameter.is_leaf:
            hook = parameter.register_post_accumulate_grad_hook(self.accumulating)
            self.followed[id(parameter)] = hook

    def accumulating(self, parameter: Any) -> None:
        """Handle autograd's hook."""
        self.guard.run("noting a gradient", self.accumulated, parameter)

    def accumulated(self, parameter: Any) -> None:
        if parameter.grad is not None:
            for address in self.addresses.all(parameter.grad):
                mark(address, UNSHARDED_GRADIENT, 0)

    def remove(self) -> None:
        """Restore the wrapped functions."""
        self.on = False
        for (_, key), (of, theirs, made) in reversed(self.wrapped.items()):
            name = key.partition(" ")[0]
            if getattr(of, name, None) is made:  # otherwise, the program wrapped the function again
                setattr(of, name, theirs)
        self.wrapped.clear()
        for hook in self.followed.values():
            hook.remove()
        self.followed.clear()
