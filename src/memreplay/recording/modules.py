"""Track which module is running, and mark the memory of parameters, buffers and gradients."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from memreplay.engine.record import _calls, _tracker
from memreplay.engine.record._living import living
from memreplay.engine.record._tracker import BUFFER, GRADIENT, INPUT, OTHER, PARAMETER, mark
from memreplay.recording.guarding import Guard
from memreplay.recording.module_names import title_of, within
from memreplay.recording.tensors import Addresses, own

_left: list[Any] = []  # our wrappers that a program has wrapped again


class Back:
    """A handle that undoes something, similar to PyTorch's hook handles."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove


class Modules:
    """The known modules, each with a number and a name.

    Modules are inspected only through `__dict__`: the program may override `named_modules()`,
    `parameters()`, `__eq__` and `__getattr__`.
    """

    def __init__(self, torch: Any, addresses: Addresses, guard: Guard | None = None) -> None:
        self.torch, self.addresses = torch, addresses
        self.guard = guard or Guard(torch)
        self.names = [""]  # indexed by module number; 0 is outside modules
        self.numbers: dict[int, int] = {}  # by id; an entry is removed when its module is destroyed
        # parameter id -> its place and module number
        self.owners: dict[int, tuple[_calls.Place, int]] = {}
        # model id -> place, type and blocks of its first parameter, as of the last marking
        self.first: dict[int, tuple[_calls.Place, type, list[int]]] = {}
        self.kept: dict[int, weakref.ref[Any]] = {}  # live modules by id
        # numbers of modules that the program creates again in each step
        self.made: dict[str, int] = {}
        self.roots: list[weakref.ref[Any]] = []
        self.handles: list[Any] = []
        self.hooks: dict[int, Any] = {}  # gradient hooks by parameter id
        tensor = getattr(torch, "Tensor", object)
        self.gradients = _calls.Gradients(GRADIENT, self.owners, tensor, self.accumulating)
        # Called with a running frame, before an outermost module runs.
        self.before: Callable[[], None] = lambda: None
        self.left_behind: Callable[[FrameType], None] = lambda _: None

    # --- hooks ------------------------------------------------------------------------------------

    def install(self) -> None:
        """Patch module calls."""
        for address in self.addresses.there():
            mark(address, OTHER, 0)  # until it's known what the module belongs to
        module = self.torch.nn.Module
        theirs = module.__call__
        # If the program wrapped our wrapper in an earlier recording, our wrapper still gets called.
        around = bool(_left) and theirs is not _left[0]
        _calls.begin(None if around else theirs, self.numbers, self.called)
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
            self.patch(recomputing, "__enter__", lambda _: _tracker.recompute(True))
            self.patch(recomputing, "__exit__", lambda _: _tracker.recompute(False))

    def patch(self, of: type, name: str, call: Callable[[Any], None]) -> None:
        """Patch a method so that it calls `call` with its object first."""
        theirs = getattr(of, name)
        own = name in vars(of)
        on = True

        def both(*args: Any, **kwargs: Any) -> Any:
            if on:
                self.guard.run(f"noting a call of {of.__name__}.{name}", call, args[0])
            return theirs(*args, **kwargs)

        def back() -> None:
            nonlocal on
            on = False
            if vars(of).get(name) is not both:
                return  # the program has wrapped the method again
            if own:
                setattr(of, name, theirs)
            else:
                delattr(of, name)

        setattr(of, name, both)
        self.handles.append(Back(back))

    def called(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Handle a module's call, outermost or nested. Return its number, or 0 if it can't be
        inspected.
        """
        work = self.found, module, args, kwargs
        return self.guard.run("noting a module's call", *work, otherwise=0)

    def found(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        if _tracker.depth() == 0:
            self.before()
            if _tracker.optimizing():
                self.left_behind(sys._getframe())
            self.mark_inputs((args, kwargs))
        if id(module) not in self.numbers:
            if _tracker.depth():
                self.register_shared(
                    module, f"{self.names[_tracker.module()]}.{type(module).__name__}"
                )
            elif not any(own(module, held) for held in ("_modules", "_parameters", "_buffers")):
                self.register_shared(module, type(module).__name__)  # a loss function, for example
            else:
                self.root(module)
        elif _tracker.depth() == 0 and self.moved(module):
            self.mark(module)
        return self.numbers[id(module)]

    def moved(self, root: Any) -> bool:
        """Return whether a model's parameters moved since the model was marked, as after `.half()`
        or `.cuda()`.
        """
        if id(root) not in self.first:
            return False
        place, kind, addresses = self.first[id(root)]
        parameter = place()
        # FSDP2 replaces a shard with an unsharded parameter that isn't marked as a parameter.
        return type(parameter) is kind and self.addresses.all(parameter) != addresses

    def mark_inputs(self, given: object) -> None:
        for tensor in self.addresses.found_in(given):
            if type(tensor) is not self.torch.nn.Parameter and tensor.grad_fn is None:
                for address in self.addresses.all(tensor):
                    mark(address, INPUT, 0)

    # --- names ------------------------------------------------------------------------------------

    def root(self, module: Any) -> None:
        """Register a model: its modules, parameters and buffers."""
        title = title_of(module, {name.partition(".")[0] for name in self.names})
        self.roots.append(weakref.ref(module))
        for name, one in within(module):
            self.named(one, f"{title}.{name}" if name else title)
        self.mark(module)

    def named(self, module: Any, name: str) -> None:
        key = id(module)
        if key in self.numbers:
            return
        self.keep(module, len(self.names))
        self.names.append(name)

    def register_shared(self, module: Any, name: str) -> None:
        """Register a module under a number that it shares with similar ones, of which there may be
        thousands.
        """
        if name in self.made:
            self.keep(module, self.made[name])
        else:
            self.named(module, name)
            self.made[name] = self.numbers[id(module)]

    def keep(self, module: Any, number: int) -> None:
        """Remember a module's number until the module is destroyed."""
        key, numbers, kept = id(module), self.numbers, self.kept

        def gone(_: object) -> None:
            numbers.pop(key, None)
            kept.pop(key, None)

        kept[key] = weakref.ref(module, gone)
        numbers[key] = number

    # --- parameters and buffers ------------------------------------------------------------------

    def mark(self, root: Any) -> None:
        """Mark a model's parameters and buffers at their current addresses, and its gradients."""
        first = None
        for _, module in within(root):
            number = self.numbers.get(id(module), 0)
            for name, parameter in dict.items(own(module, "_parameters") or {}):
                if parameter is not None:
                    place = _calls.Place(weakref.ref(module), name)
                    first = first or (place, parameter)
                    self.mark_parameter(parameter, number, place)
            for buffer in tensors_of(module, "_buffers"):
                for address in self.addresses.all(buffer):
                    mark(address, BUFFER, number)
        if first is not None:
            place, parameter = first
            self.first[id(root)] = place, type(parameter), self.addresses.all(parameter)

    def mark_parameter(
        self, parameter: Any, number: int = 0, place: _calls.Place | None = None
    ) -> None:
        """Mark a parameter, and its gradient each time one is created. `place`: where a module
        holds the parameter.
        """
        self.guard.run("noting a parameter", self.mark_one, parameter, number, place)

    def mark_one(self, parameter: Any, number: int, place: _calls.Place | None) -> None:
        for address in self.addresses.all(parameter):
            mark(address, PARAMETER, number)
        if place is not None and not self.owner(parameter):
            self.owners[id(parameter)] = place, number
        self.hook(parameter)
        self.accumulated(parameter)

    def hook(self, parameter: Any) -> None:
        """Mark this parameter's gradient whenever autograd writes it."""
        hook = getattr(parameter, "register_post_accumulate_grad_hook", None)
        if (
            hook is not None
            and parameter.requires_grad
            and parameter.is_leaf
            and not self.hooked(parameter)
        ):
            self.hooks[id(parameter)] = hook(self.gradients)

    def hooked(self, parameter: Any) -> bool:
        """Return whether we hooked this parameter."""
        return is_hooked(self.hooks.get(id(parameter)))

    def hook_one_of(self, parameters: list[Any], call: Callable[[Any], None]) -> bool:
        """If all these parameters have gradients now, replace their hooks with a single one, on the
        last parameter. That hook calls `call(parameter)`.

        Return whether the hooks were replaced.
        """
        trained = [one for one in parameters if self.hooked(one)]
        if len(trained) < len(parameters) or any(one.grad is None for one in trained):
            return False
        for one in trained:
            self.hooks.pop(id(one)).remove()
        last = trained[-1]
        self.hooks[id(last)] = last.register_post_accumulate_grad_hook(call)
        return True

    def hook_all(self, more: Collection[Any] = ()) -> None:
        """Hook every known parameter that has no hook, and the parameters in `more`."""
        for place, _ in list(self.owners.values()):
            parameter = place()
            if parameter is not None:
                self.hook(parameter)
        for parameter in more:
            self.hook(parameter)

    def knows(self, parameter: Any) -> bool:
        """Return whether a parameter is known."""
        found = self.owners.get(id(parameter))
        return self.hooked(parameter) or (found is not None and found[0]() is parameter)

    def owner(self, parameter: Any) -> int:
        """Return the number of a parameter's module, or 0 if unknown."""
        found = self.owners.get(id(parameter))
        return found[1] if found is not None and found[0]() is parameter else 0

    def accumulating(self, parameter: Any) -> None:
        """Handle autograd's hook: the gradient exists now."""
        self.guard.run("noting a gradient", self.accumulated, parameter)

    def accumulated(self, parameter: Any) -> None:
        if not parameter.is_leaf and not parameter.retains_grad:
            return  # without a gradient, accessing `grad` prints a warning
        gradient = parameter.grad
        if gradient is not None:
            for address in self.addresses.all(gradient):
                mark(address, GRADIENT, self.owner(parameter))

    def mark_all(self) -> None:
        """Mark everything known at its current address."""
        for root in self.roots:
            module = root()
            if module is not None:
                self.guard.run("looking at a model", self.mark, module)

    def search(self) -> None:
        """Search for models that haven't run, such as averages of weights."""
        self.look(living(self.torch.nn.Module)[0])

    def look(self, modules: list[Any]) -> None:
        """Search these modules for models that haven't run."""
        whole = [one for one in modules if own(one, "_modules") is not None]
        new = [one for one in whole if id(one) not in self.numbers]
        inner = {id(one) for module in new for one in tensors_of(module, "_modules")}
        for module in new:
            if id(module) not in inner and id(module) not in self.numbers:
                self.guard.run("looking at a model", self.root, module)
        self.guard.run("naming modules", self.rename, whole)

    def rename(self, modules: list[Any]) -> None:
        """Rename submodules that were first taken for models.

        This happens if they ran before the model, or if the model never calls them.
        """
        inner = {id(one) for module in modules for one in tensors_of(module, "_modules")}
        self.roots = [one for one in self.roots if id(one()) not in inner]
        shared = {0, *self.made.values()}
        roots = [root for one in self.roots if (root := one()) is not None]
        roots = [root for root in roots if self.numbers.get(id(root), 0) not in shared]
        roots.sort(key=lambda root: self.numbers[id(root)])
        parts = [
            [(name, self.numbers.get(id(one), 0)) for name, one in within(root)] for root in roots
        ]
        mine = {number for names in parts for _, number in names} - shared
        taken = {name.partition(".")[0] for i, name in enumerate(self.names) if i not in mine}
        # If the first model with a name turns out to be part of another one, the next model of that
        # type gets the name.
        for root, names in zip(roots, parts, strict=True):
            title = title_of(root, taken)
            taken.add(title)
            for name, number in names:
                if number in mine:
                    self.names[number] = f"{title}.{name}" if name else title

    def remove(self) -> None:
        """Remove all patches and hooks."""
        for handle in (*self.handles, *self.hooks.values()):
            handle.remove()
        self.handles.clear()
        self.hooks.clear()
        _calls.end()


def is_hooked(handle: Any) -> bool:
    """Return whether this hook handle's parameter still has the hook.

    It doesn't if the tensor was destroyed or swapped.
    """
    hooks = handle.hooks_dict_ref() if handle is not None else None
    return hooks is not None and handle.id in hooks


def tensors_of(module: Any, held: str) -> list[Any]:
    """Return a module's `_parameters`, `_buffers` or `_modules`; empty if it's half-initialized."""
    found = own(module, held)
    return [one for one in dict.values(found) if one is not None] if found else []
