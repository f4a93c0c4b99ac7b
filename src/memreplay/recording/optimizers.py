"""When optimizers step, and which memory is their state."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from memreplay.engine.record import _calls, _tracker
from memreplay.engine.record._tracker import GRADIENT, STATE, mark
from memreplay.recording.modules import Modules
from memreplay.recording.tensors import living

SURE = 3  # steps after which an optimizer makes no more state, unless it has more parameters


class Known:
    """What is known of one optimizer."""

    steps = 0
    entries = 0
    """How many its state had when it was looked at last."""
    parameters = 0
    """How many it had when its step began last."""


class Optimizers:
    """All optimizers that step."""

    def __init__(self, torch: Any, modules: Modules, stepped: Callable[[], None]) -> None:
        self.torch, self.modules, self.stepped = torch, modules, stepped
        modules.left_behind = self.left_behind
        self.known: weakref.WeakKeyDictionary[Any, Known] = weakref.WeakKeyDictionary()
        self.first: weakref.ref[Any] | None = None  # of several its steps are those of the program
        # Of each thread the frame of the step that runs, by its id and code: to keep it would keep
        # all that it has.
        self.inside: dict[int, tuple[int, CodeType]] = {}
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

    def began(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step = sys._getframe(1)
        self.left_behind(step.f_back)
        if not _tracker.optimizing():
            self.inside[threading.get_ident()] = id(step), step.f_code
        self.mark_gradients(optimizer)
        _tracker.optimize(True)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            return None
        evaluated = self.evaluating(optimizer, closure)
        if len(args) > 1:
            return (args[0], evaluated, *args[2:]), kwargs
        return args, {**kwargs, "closure": evaluated}

    def evaluating(self, optimizer: Any, closure: Callable[..., Any]) -> Callable[..., Any]:
        """The model, evaluated as often as a step asks for it: what that allocates is not the
        optimizer's."""

        @functools.wraps(closure)
        def evaluated(*args: Any, **kwargs: Any) -> Any:
            steps = _tracker.evaluate(0)
            try:
                return closure(*args, **kwargs)
            finally:
                _tracker.evaluate(steps)
                self.mark_gradients(optimizer)

        return evaluated

    def ended(self, optimizer: Any, *_: Any) -> None:
        self.mark(optimizer, always=False)
        _tracker.optimize(False)
        if not _tracker.optimizing():
            self.inside.pop(threading.get_ident(), None)
        if self.first is None or self.first() is None:
            self.first = weakref.ref(optimizer)
        if self.first() is optimizer:
            self.stepped()

    def mark_gradients(self, optimizer: Any) -> None:
        """The gradients that it is about to use, and its parameters where they are new."""
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        known = self.known.setdefault(optimizer, Known())
        if known.parameters != len(parameters):
            known.parameters = len(parameters)
            self.parameters(optimizer)
        for one in _calls.mark_gradients(parameters, GRADIENT, self.modules.owners):
            self.modules.accumulated(one)
        self.modules.unhook(parameters)

    def left_behind(self, frame: FrameType | None) -> None:
        """A step that an exception has ended is none any more. `frame` is one that runs."""
        if not _tracker.optimizing():
            return
        inside = self.inside.get(threading.get_ident())
        while frame is not None:
            if (id(frame), frame.f_code) == inside:
                return
            frame = frame.f_back
        while _tracker.optimizing():
            _tracker.optimize(False)
        self.inside.pop(threading.get_ident(), None)

    def mark(self, optimizer: Any, *, always: bool = True) -> None:
        """Its state, where it is now."""
        known = self.known.setdefault(optimizer, Known())
        entries, known.entries = known.entries, len(optimizer.state)
        if not always:
            known.steps += 1
            if known.steps > SURE and entries == known.entries:
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
        """All that there is, where it is now; models are looked for at the same time."""
        models, optimizers = living(self.torch.nn.Module, self.torch.optim.Optimizer)
        self.modules.look(models)
        for optimizer in optimizers:
            if hasattr(optimizer, "state") and hasattr(optimizer, "param_groups"):  # it is whole
                self.parameters(optimizer)
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
        self.inside.clear()
