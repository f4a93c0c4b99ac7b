"""Which module runs, and which memory is its parameters, buffers and gradients."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from memreplay.engine.record import _calls, _tracker
from memreplay.engine.record._tracker import BUFFER, GRADIENT, INPUT, OTHER, PARAMETER, mark
from memreplay.recording.tensors import Addresses

# Modules that stand between others and say nothing: PyTorch's wrappers.
WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
WRAPPING = ("DistributedDataParallel", "DataParallel", "OptimizedModule")

_left: list[Any] = []  # what modules were called by, before a program put its own around ours


class Back:
    """Takes something back, as PyTorch's handles of hooks do."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove


class Modules:
    """All modules that are known, each by a number and a name."""

    def __init__(self, torch: Any, addresses: Addresses) -> None:
        self.torch, self.addresses = torch, addresses
        self.names = [""]  # by number; 0 is no module
        self.numbers: dict[int, int] = {}  # by id: that of a module which is gone is taken away
        # Of parameters, by id: the parameter, and the number of its module.
        self.owners: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.kept: dict[int, weakref.ref[Any]] = {}  # by id, while they live
        self.made: dict[str, int] = {}  # numbers of modules that programs make anew each step
        self.roots: list[weakref.ref[Any]] = []
        self.handles: list[Any] = []
        self.hooks: dict[int, Any] = {}  # of parameters' gradients, by id
        # What is done before a module runs by itself; the second is given a frame that runs.
        self.before: Callable[[], None] = lambda: None
        self.left_behind: Callable[[FrameType], None] = lambda _: None

    # --- hooks ------------------------------------------------------------------------------------

    def install(self) -> None:
        """Hears of each module that runs."""
        for address in self.addresses.there():
            mark(address, OTHER, 0)  # until somebody says what it is
        module = self.torch.nn.Module
        theirs = module.__call__
        # What a program has put around ours in an earlier recording calls it still.
        around = bool(_left) and theirs is not _left[0]
        _calls.begin(None if around else theirs, self.numbers, self.found)
        if not around:
            module.__call__ = _calls.call

        def back() -> None:
            if module.__call__ is _calls.call:
                module.__call__ = _left[0] if _left else theirs
                _left.clear()
            elif not _left:
                _left.append(theirs)

        self.handles.append(Back(back))
        checkpoint = sys.modules.get("torch.utils.checkpoint")
        recomputing = getattr(checkpoint, "_recomputation_hook", None)
        if recomputing is not None:
            self.patch(recomputing, "__enter__", lambda: _tracker.recompute(True))
            self.patch(recomputing, "__exit__", lambda: _tracker.recompute(False))

    def patch(self, of: type, name: str, call: Callable[[], None]) -> None:
        """Let a method do this first."""
        theirs = getattr(of, name)
        own = name in vars(of)
        on = True

        def both(*args: Any, **kwargs: Any) -> Any:
            if on:
                call()
            return theirs(*args, **kwargs)

        def back() -> None:
            nonlocal on
            on = False
            if vars(of).get(name) is not both:
                return  # a program has put its own around it
            if own:
                setattr(of, name, theirs)
            else:
                delattr(of, name)

        setattr(of, name, both)
        self.handles.append(Back(back))

    def found(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """A module that runs first, or by itself."""
        if _tracker.depth() == 0:
            self.before()
            if _tracker.optimizing():
                self.left_behind(sys._getframe())
            self.mark_inputs((args, kwargs))
        if id(module) not in self.numbers:
            if _tracker.depth():
                self.anew(module, f"{self.names[_tracker.module()]}.{type(module).__name__}")
            elif not (module._modules or module._parameters or module._buffers):
                self.anew(module, type(module).__name__)  # such as a loss function
            else:
                self.root(module)
        return self.numbers[id(module)]

    def mark_inputs(self, given: object) -> None:
        for tensor in self.addresses.found_in(given):
            if type(tensor) is not self.torch.nn.Parameter and tensor.grad_fn is None:
                for address in self.addresses.all(tensor):
                    mark(address, INPUT, 0)

    # --- names ------------------------------------------------------------------------------------

    def root(self, module: Any) -> None:
        """A model: it, all in it, and their parameters and buffers are known from now on."""
        inner = module
        while type(inner).__name__ in WRAPPING and len(inner._modules) == 1:
            (inner,) = inner._modules.values()
        title = type(inner).__name__
        taken = {name.partition(".")[0] for name in self.names}
        count = 1
        while title in taken:
            count += 1
            title = f"{type(inner).__name__}#{count}"
        self.roots.append(weakref.ref(module))
        for name, one in module.named_modules():
            self.named(
                one, ".".join([title, *(p for p in name.split(".") if p and p not in WRAPPERS)])
            )
        self.mark(module)

    def named(self, module: Any, name: str) -> None:
        key = id(module)
        if key in self.numbers:
            return
        self.keep(module, len(self.names))
        self.names.append(name)

    def anew(self, module: Any, name: str) -> None:
        """One of perhaps thousands that are the same: all have one number."""
        if name in self.made:
            self.keep(module, self.made[name])
        else:
            self.named(module, name)
            self.made[name] = self.numbers[id(module)]

    def keep(self, module: Any, number: int) -> None:
        """Its number, until it is gone."""
        key, numbers, kept = id(module), self.numbers, self.kept

        def gone(_: object) -> None:
            numbers.pop(key, None)
            kept.pop(key, None)

        kept[key] = weakref.ref(module, gone)
        numbers[key] = number

    # --- what is theirs ---------------------------------------------------------------------------

    def mark(self, root: Any) -> None:
        """Parameters and buffers of a model, where they are now, and gradients."""
        for module in root.modules():
            number = self.numbers.get(id(module), 0)
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.mark_parameter(parameter, number)
            for buffer in module._buffers.values():
                if buffer is not None:
                    for address in self.addresses.all(buffer):
                        mark(address, BUFFER, number)

    def mark_parameter(self, parameter: Any, number: int) -> None:
        """One parameter, and its gradient, from now on each time that there is one."""
        for address in self.addresses.all(parameter):
            mark(address, PARAMETER, number)
        if not self.knows(parameter):
            self.owners[id(parameter)] = weakref.ref(parameter), number
            self.hook(parameter)
        self.accumulated(parameter)

    def hook(self, parameter: Any) -> None:
        """Until an optimizer steps, which looks at gradients by itself."""
        hook = getattr(parameter, "register_post_accumulate_grad_hook", None)
        if hook is not None and parameter.requires_grad and parameter.is_leaf:
            self.hooks[id(parameter)] = hook(self.accumulated)

    def unhook(self, parameters: list[Any]) -> None:
        if self.hooks:
            for parameter in parameters:
                hook = self.hooks.pop(id(parameter), None)
                if hook is not None:
                    hook.remove()

    def knows(self, parameter: Any) -> bool:
        """Whether it is a known one."""
        found = self.owners.get(id(parameter))
        return found is not None and found[0]() is parameter

    def owner(self, parameter: Any) -> int:
        """The number of its module; 0: not known."""
        found = self.owners.get(id(parameter))
        return found[1] if found is not None and found[0]() is parameter else 0

    def accumulated(self, parameter: Any) -> None:
        """Its gradient is there."""
        gradient = parameter.grad
        if gradient is not None:
            for address in self.addresses.all(gradient):
                mark(address, GRADIENT, self.owner(parameter))

    def again(self) -> None:
        """All that is known, where it is now."""
        for root in self.roots:
            module = root()
            if module is not None:
                self.mark(module)

    def look(self, living: list[Any]) -> None:
        """Models that have not run, such as averages of others. `living`: all modules."""
        new = [one for one in living if id(one) not in self.numbers and "_modules" in vars(one)]
        inner = {id(one) for module in new for one in module._modules.values()}
        for module in new:
            if id(module) not in inner and id(module) not in self.numbers:
                with contextlib.suppress(AttributeError):  # of one that is not whole yet
                    self.root(module)

    def remove(self) -> None:
        """Hears of nothing more."""
        for handle in (*self.handles, *self.hooks.values()):
            handle.remove()
        self.handles.clear()
        self.hooks.clear()
        _calls.end()
