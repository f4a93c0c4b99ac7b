"""When optimizers step, and which memory is their state."""

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
from memreplay.engine.record._tracker import STATE, mark
from memreplay.recording.modules import Modules
from memreplay.recording.steps import Steps
from memreplay.recording.tensors import living, own

MOST_SEARCHES = 32  # for the models of an optimizer's parameters
# Steps of optimizers after which models are looked for that have not run, such as averages: one
# that is gone when the snapshot is taken would never be seen.
LOOKED = {2, 16, 128, 1024}
SURE = 3  # steps after which an optimizer makes no more state, unless it has more parameters


class Known:
    """What is known of one optimizer."""

    def __init__(self, of: weakref.ref[Any], number: int) -> None:
        self.of, self.number = of, number

    steps = 0
    entries = 0
    """How many its state had when it was looked at last."""
    parameters = 0
    """How many it had when its step began last."""
    hooked: Literal["all", "one", "all again"] = "all"
    """Which of its parameters have hooks."""
    seen = False
    """Whether the one that has a hook got a gradient since the last step began."""


class Optimizers:
    """All optimizers that step."""

    def __init__(self, torch: Any, modules: Modules, steps: Steps) -> None:
        self.torch, self.modules, self.steps, self.guard = torch, modules, steps, modules.guard
        modules.left_behind = self.left_behind
        # By id, while they live: what an optimizer says of equality and hashes is its own.
        self.optimizers: dict[int, Known] = {}
        self.count = 0  # of those that were known
        self.ended_steps = self.searches = 0
        # By id, those that have stepped since a GradScaler that has them was updated.
        self.since: set[int] = set()
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

    def known(self, optimizer: Any) -> Known:
        key = id(optimizer)
        found = self.optimizers.get(key)
        if found is None or found.of() is not optimizer:
            self.count += 1
            gone = functools.partial(self.forget, key)
            found = self.optimizers[key] = Known(weakref.ref(optimizer, gone), self.count)
        return found

    def began(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """PyTorch's hook before a step."""
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
        """The model, evaluated as often as a step asks for it: what that allocates is not the
        optimizer's."""

        def evaluated(*args: Any, **kwargs: Any) -> Any:
            steps = _tracker.evaluate(0)
            try:
                return closure(*args, **kwargs)
            finally:
                _tracker.evaluate(steps)
                self.guard.run("noting gradients", self.mark_gradients, optimizer)

        # As a hook's error would end the program, what the closure says of itself is copied so.
        self.guard.run("wrapping a closure", functools.update_wrapper, evaluated, closure)
        return evaluated

    def ended(self, optimizer: Any, *_: Any) -> None:
        """PyTorch's hook after a step."""
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
        # A hook of autograd that steps does so in the middle of a step of the program.
        later = self.after_backward if _tracker.in_backward() else None
        self.steps.stepped(self.known(optimizer).number, later)

    def after_backward(self, call: Callable[[], None]) -> None:
        """Let this be called when the backward pass that this thread is in has ended."""
        engine = self.torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: self.guard.run("noting that a backward pass ended", call))

    def mark_gradients(self, optimizer: Any) -> None:
        """The gradients that it is about to use, and its parameters where they are new."""
        parameters = parameters_of(optimizer)
        known = self.known(optimizer)
        if known.parameters != len(parameters):
            known.parameters = len(parameters)
            self.parameters(optimizer)
        self.modules.gradients.mark_all(parameters)

    def reduce_hooks(self, optimizer: Any) -> None:
        """A hook takes microseconds for each parameter in each backward pass. One is enough as long
        as each pass gives all parameters gradients, unless optimizers step in hooks of their own:
        at the end of a pass all gradients are marked."""
        known = self.known(optimizer)
        parameters = parameters_of(optimizer)
        if known.hooked == "one" and not known.seen:
            # Its layer was frozen, or is left out: other passes may be of other parameters, too.
            known.hooked = "all again"
            self.modules.hook_all(parameters)
        elif known.hooked == "all" and known.steps >= SURE and not _tracker.in_backward():
            done = self.modules.hook_one_of(parameters, functools.partial(self.in_pass, known))
            known.hooked = "one" if done else "all again"
        known.seen = False

    def in_pass(self, known: Known, parameter: Any) -> None:
        """Mark all gradients when this backward pass has ended: the program may clear them without
        a step of the optimizer."""
        known.seen = True
        self.modules.gradients(parameter)
        end = functools.partial(self.passed, known)
        self.guard.run("noting gradients", self.after_backward, end)

    def passed(self, known: Known) -> None:
        optimizer = known.of()
        if optimizer is not None:
            self.mark_gradients(optimizer)

    def forget(self, key: int, gone: weakref.ref[Any]) -> None:
        """An optimizer is gone; another may have its id by now."""
        found = self.optimizers.get(key)
        if found is not None and found.of is gone:
            del self.optimizers[key]
            if found.hooked == "one" and self.handles:
                self.guard.run("noting gradients", self.modules.hook_all)

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

    def mark(self, optimizer: Any, always: bool = True) -> None:
        """Its state, where it is now."""
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
        """Its parameters, of a model that is not known."""
        given = parameters_of(optimizer)
        if not all(map(self.modules.knows, given)) and self.searches < MOST_SEARCHES:
            self.searches += 1
            self.modules.search()
        for parameter in given:
            if not self.modules.knows(parameter):
                self.modules.mark_parameter(parameter)

    def again(self) -> None:
        """All that there is, where it is now; models are looked for at the same time."""
        models, optimizers = living(self.torch.nn.Module, self.torch.optim.Optimizer)
        self.modules.look(models)
        for optimizer in optimizers:
            whole = own(optimizer, "state") is not None and own(optimizer, "param_groups")
            if whole:  # else its __init__ is still running
                self.look_at(optimizer)

    def look_at(self, optimizer: Any) -> None:
        """Its parameters and its state, where they are now."""
        self.guard.run("looking at an optimizer", self.parameters, optimizer)
        self.guard.run("looking at an optimizer", self.mark, optimizer)

    def scaled(self, scaler: Any) -> None:
        """A GradScaler leaves steps out whose gradients are not finite. They are steps all the
        same, and the gradients would go unseen."""
        asked = own(scaler, "_per_optimizer_states") or {}
        for key, state in list(asked.items()):
            found = self.optimizers.get(key)
            # Of one that has never stepped nothing is known but its id.
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
        """Hears of nothing more."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.inside.clear()


def parameters_of(optimizer: Any) -> list[Any]:
    """Return all parameters of an optimizer."""
    return [one for group in optimizer.param_groups for one in group["params"]]
