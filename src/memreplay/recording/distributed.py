"""What FSDP2 and DDP allocate: copies of parameters that are whole again, and what they send.

PyTorch has no hooks for it. Its own functions are wrapped while the recording runs, where a torch
has them.
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

# The package moved in PyTorch 2.6.
FSDP = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")
SENT = ("foreach_all_gather", "foreach_all_gather_copy_out", "foreach_reduce")
WHOLE = ("init_all_gather_outputs", "alloc_all_gather_outputs", "init_unsharded_param")
DDP = "torch.nn.parallel.distributed"


class Distributed:
    """Wraps them as soon as they are loaded."""

    def __init__(self, addresses: Addresses) -> None:
        self.addresses, self.guard = addresses, addresses.guard
        self.followed: dict[int, Any] = {}  # hooks of parameters, by their ids
        # By what has it, and its name: that, what it was, and what it is now.
        self.wrapped: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self.on = True
        self.loaded = 0  # modules of Python, when they were looked at last

    def look(self) -> None:
        """Wraps what has been loaded since."""
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
        """What is allocated in a function is of this category."""

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
        """A parameter that is whole, made once: its gradients are, too."""

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
        """Autograd's hook."""
        self.guard.run("noting a gradient", self.accumulated, parameter)

    def accumulated(self, parameter: Any) -> None:
        if parameter.grad is not None:
            for address in self.addresses.all(parameter.grad):
                mark(address, UNSHARDED_GRADIENT, 0)

    def remove(self) -> None:
        """Everything as it was."""
        self.on = False
        for (_, key), (of, theirs, made) in reversed(self.wrapped.items()):
            name = key.partition(" ")[0]
            if getattr(of, name, None) is made:  # else a program has put its own around it
                setattr(of, name, theirs)
        self.wrapped.clear()
        for hook in self.followed.values():
            hook.remove()
        self.followed.clear()
