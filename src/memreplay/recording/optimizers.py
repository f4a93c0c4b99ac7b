"""When optimizers step, and which memory is their state."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from memreplay.engine.record import _calls, _tracker
from memreplay.engine.record._tracker import GRADIENT, STATE, mark
from memreplay.recording.modules import Modules

SURE = 3  # steps after which an optimizer makes no more state, unless it has more parameters


class Optimizers:
    """All optimizers that step."""

    def __init__(self, torch: Any, modules: Modules, stepped: Callable[[], None]) -> None:
        self.torch, self.modules, self.stepped = torch, modules, stepped
        self.known: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self.first: weakref.ref[Any] | None = None  # of several its steps are those of the program
        # The frame of the step that runs, by its id: to keep it would keep all that it has.
        self.inside = 0
        self.handles: list[Any] = []

    def install(self) -> None:
        """Hears of each step."""
        of = importlib.import_module("torch.optim.optimizer")
        self.handles += [
            of.register_optimizer_step_pre_hook(self.began),
            of.register_optimizer_step_post_hook(self.ended),
        ]
        scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        if scaler is not None:
            self.modules.patch(scaler, "update", self.scaled)

    def began(self, optimizer: Any, *_: Any) -> None:
        step = sys._getframe(1)
        self.left_behind(step.f_back)
        if not _tracker.optimizing():
            self.inside = id(step)
        self.mark_gradients(optimizer)
        _tracker.optimize(True)

    def ended(self, optimizer: Any, *_: Any) -> None:
        self.mark(optimizer, always=False)
        _tracker.optimize(False)
        if not _tracker.optimizing():
            self.inside = 0
        if self.first is None or self.first() is None:
            self.first = weakref.ref(optimizer)
        if self.first() is optimizer:
            self.stepped()

    def mark_gradients(self, optimizer: Any) -> None:
        """The gradients that it is about to use."""
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        owner = self.modules.owner
        for one in _calls.mark_gradients(parameters, GRADIENT, [owner(p) for p in parameters]):
            self.modules.accumulated(one)
        self.modules.unhook(parameters)

    def left_behind(self, frame: FrameType | None) -> None:
        """A step that an exception has ended is none any more. `frame` is one that runs."""
        if not _tracker.optimizing():
            return
        while frame is not None:
            if id(frame) == self.inside:
                return
            frame = frame.f_back
        while _tracker.optimizing():
            _tracker.optimize(False)
        self.inside = 0

    def mark(self, optimizer: Any, *, always: bool = True) -> None:
        """Its state, where it is now."""
        steps, entries = self.known.get(optimizer, (0, 0))
        self.known[optimizer] = steps + 1, len(optimizer.state)
        if not always and steps >= SURE and entries == len(optimizer.state):
            return
        addresses = self.modules.addresses
        for parameter, state in optimizer.state.items():
            owner = self.modules.owner(parameter)
            for tensor in addresses.found_in(state):
                for address in addresses.all(tensor):
                    mark(address, STATE, owner)

    def parameters(self, optimizer: Any) -> None:
        """Its parameters, of a model that is not known."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if not self.modules.knows(parameter):
                    self.modules.mark_parameter(parameter, 0)

    def again(self) -> None:
        """All that is known, where it is now."""
        for optimizer in list(self.known):
            self.mark(optimizer)

    def scaled(self) -> None:
        """A GradScaler may leave a step out, and then gradients go unseen."""
        for optimizer in list(self.known):
            self.mark_gradients(optimizer)

    def remove(self) -> None:
        """Hears of nothing more."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.inside = 0
