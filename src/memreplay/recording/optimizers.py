"""Track optimizer steps and mark optimizer state."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Literal

from memreplay.engine.record import _tracker
from memreplay.engine.record._living import living
from memreplay.engine.record._tracker import STATE, mark
from memreplay.recording.modules import Modules
from memreplay.recording.steps import Steps
from memreplay.recording.tensors import own

MOST_SEARCHES = 32  # maximum number of searches for the models of an optimizer's parameters
# Step counts after which to search for models that haven't run, such as averages of weights.
# Otherwise, models that are destroyed before the snapshot would be missed.
LOOKED = {2, 16, 128, 1024}
SURE = 3  # after this many steps, an optimizer only adds state if it gets more parameters


class Known:
    """State kept about one optimizer."""

    def __init__(self, of: weakref.ref[Any], number: int) -> None:
        self.of, self.number = of, number

    steps = 0
    entries = 0
    """Number of entries in its state at the last check."""
    parameters = 0
    """Number of parameters when its last step began."""
    hooked: Literal["all", "one", "all again"] = "all"
    """Which of its parameters have hooks."""
    seen = False
    """Whether the hooked parameter got a gradient since the last step began."""


class Optimizers:
    """Tracks all optimizers that step."""

    def __init__(self, torch: Any, modules: Modules, steps: Steps) -> None:
        self.torch, self.modules, self.steps, self.guard = torch, modules, steps, modules.guard
        modules.left_behind = self.left_behind
        # by id while they exist, because a class may override equality and hash
        self.optimizers: dict[int, Known] = {}
        self.count = 0  # number of optimizers seen so far
        self.ended_steps = self.searches = 0
        # ids of optimizers that have stepped since their GradScaler's last update
        self.since: set[int] = set()
        # Each thread's running step, as its frame's id and code. Holding the frame would keep its
        # locals alive.
        self.inside: dict[int, tuple[int, CodeType]] = {}
        self.handles: list[Any] = []

    def install(self) -> None:
        """Patch optimizer steps."""
        of = importlib.import_module("torch.optim.optimizer")
        self.handles += [
            of.register_optimizer_step_pre_hook(self.began),
            of.register_optimizer_step_post_hook(self.ended),
        ]
        scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        if scaler is not None:
            self.modules.patch(scaler, "update", self.scaled)

    def known(self, optimizer: Any) -> Known:
        key = id(optimizer)
        found = self.optimizers.get(key)
        if found is None or found.of() is not optimizer:
            self.count += 1
            gone = functools.partial(self.forget, key)
            found = self.optimizers[key] = Known(weakref.ref(optimizer, gone), self.count)
        return found

    def began(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle PyTorch's hook before a step."""
        step = sys._getframe(1)
        self.guard.run("noting that an optimizer steps", self.begin, optimizer, step)
        _tracker.optimize(True)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            return None
        evaluated = self.evaluating(optimizer, closure)
        if len(args) > 1:
            return (args[0], evaluated, *args[2:]), kwargs
        return args, {**kwargs, "closure": evaluated}

    def begin(self, optimizer: Any, step: FrameType) -> None:
        self.left_behind(step.f_back)
        if not _tracker.optimizing():
            self.inside[threading.get_ident()] = id(step), step.f_code
        self.mark_gradients(optimizer)
        self.reduce_hooks(optimizer)

    def evaluating(self, optimizer: Any, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a closure: its allocations belong to the model, not the optimizer."""

        def evaluated(*args: Any, **kwargs: Any) -> Any:
            steps = _tracker.evaluate(0)
            try:
                return closure(*args, **kwargs)
            finally:
                _tracker.evaluate(steps)
                self.guard.run("noting gradients", self.mark_gradients, optimizer)

        # Copy the closure's metadata within the guard, because an error here would end the program.
        self.guard.run("wrapping a closure", functools.update_wrapper, evaluated, closure)
        return evaluated

    def ended(self, optimizer: Any, *_: Any) -> None:
        """Handle PyTorch's hook after a step."""
        self.guard.run("noting an optimizer's state", self.mark, optimizer, False)
        _tracker.optimize(False)
        if not _tracker.optimizing():
            self.inside.pop(threading.get_ident(), None)
        self.guard.run("noting a step", self.stepped, optimizer)
        self.ended_steps += 1
        if self.ended_steps in LOOKED:
            self.guard.run("looking for models", self.modules.search)

    def stepped(self, optimizer: Any) -> None:
        self.since.add(id(optimizer))
        # If an optimizer steps in an autograd hook, it's in the middle of a training step.
        later = self.after_backward if _tracker.in_backward() else None
        self.steps.stepped(self.known(optimizer).number, later)

    def after_backward(self, call: Callable[[], None]) -> None:
        """Schedule a call for when this thread's current backward pass has ended."""
        engine = self.torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: self.guard.run("noting that a backward pass ended", call))

    def mark_gradients(self, optimizer: Any) -> None:
        """Mark the gradients that are about to be used, and new parameters."""
        parameters = parameters_of(optimizer)
        known = self.known(optimizer)
        if known.parameters != len(parameters):
            known.parameters = len(parameters)
            self.parameters(optimizer)
        self.modules.gradients.mark_all(parameters)

    def reduce_hooks(self, optimizer: Any) -> None:
        """Reduce the parameter hooks to one.

        Hooks cost microseconds per parameter and backward pass. One hook is enough while every pass
        gives all parameters gradients, because all gradients are then marked at the end of the
        pass. It isn't enough if optimizers step in hooks of their own.
        """
        known = self.known(optimizer)
        parameters = parameters_of(optimizer)
        if known.hooked == "one" and not known.seen:
            # The hooked parameter's layer was frozen or skipped, so passes may reach different
            # parameters.
            known.hooked = "all again"
            self.modules.hook_all(parameters)
        elif known.hooked == "all" and known.steps >= SURE and not _tracker.in_backward():
            done = self.modules.hook_one_of(parameters, functools.partial(self.in_pass, known))
            known.hooked = "one" if done else "all again"
        known.seen = False

    def in_pass(self, known: Known, parameter: Any) -> None:
        """Mark all gradients after this backward pass, because the program may clear them without a
        step.
        """
        known.seen = True
        self.modules.gradients(parameter)
        end = functools.partial(self.passed, known)
        self.guard.run("noting gradients", self.after_backward, end)

    def passed(self, known: Known) -> None:
        optimizer = known.of()
        if optimizer is not None:
            self.mark_gradients(optimizer)

    def forget(self, key: int, gone: weakref.ref[Any]) -> None:
        """Forget a destroyed optimizer; its id may be reused."""
        found = self.optimizers.get(key)
        if found is not None and found.of is gone:
            del self.optimizers[key]
            if found.hooked == "one" and self.handles:
                self.guard.run("noting gradients", self.modules.hook_all)

    def left_behind(self, frame: FrameType | None) -> None:
        """Close steps that ended with an exception. `frame`: a running frame."""
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

    def mark(self, optimizer: Any, always: bool = True) -> None:
        """Mark an optimizer's state at its current address."""
        known = self.known(optimizer)
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
        """Mark parameters that don't belong to a known model."""
        given = parameters_of(optimizer)
        if not all(map(self.modules.knows, given)) and self.searches < MOST_SEARCHES:
            self.searches += 1
            self.modules.search()
        for parameter in given:
            if not self.modules.knows(parameter):
                self.modules.mark_parameter(parameter)

    def mark_all(self) -> None:
        """Mark everything at its current address, and search for models."""
        models, optimizers = living(self.torch.nn.Module, self.torch.optim.Optimizer)
        self.modules.look(models)
        for optimizer in optimizers:
            whole = own(optimizer, "state") is not None and own(optimizer, "param_groups")
            if whole:  # otherwise its __init__ is still running
                self.look_at(optimizer)

    def look_at(self, optimizer: Any) -> None:
        """Mark an optimizer's parameters and state at their current addresses."""
        self.guard.run("looking at an optimizer", self.parameters, optimizer)
        self.guard.run("looking at an optimizer", self.mark, optimizer)

    def scaled(self, scaler: Any) -> None:
        """Count steps that a GradScaler skipped because gradients weren't finite, and mark those
        gradients.
        """
        asked = own(scaler, "_per_optimizer_states") or {}
        for key, state in list(asked.items()):
            found = self.optimizers.get(key)
            # For optimizers that never stepped, only the id is known.
            left_out = (
                getattr(state.get("stage"), "name", "") == "STEPPED" and key not in self.since
            )
            if left_out:
                self.steps.stepped(found.number if found is not None else -key)
            self.since.discard(key)
        for known in list(self.optimizers.values()):
            optimizer = known.of()
            if optimizer is not None:
                self.mark_gradients(optimizer)

    def remove(self) -> None:
        """Remove all patches and hooks."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.inside.clear()


def parameters_of(optimizer: Any) -> list[Any]:
    """Return all of an optimizer's parameters."""
    return [one for group in optimizer.param_groups for one in group["params"]]
