"""Change a program from outside, to measure the changed program in a dry run.

MEMREPLAY_DRYRUN_CHANGES has the changes: a JSON list of pairs, a name and a value. Each class here
makes one kind of change, and notes what it changed.
"""

from __future__ import annotations

import difflib
import functools
import gc
import inspect
import re
import sys
import threading
import weakref
from fnmatch import fnmatchcase

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# A pattern, and which of its matches: `h.*[::2]`.
SLICED = re.compile(r"(.*)\[(-?\d*):(-?\d*)(?::(-?\d*))?\]", re.DOTALL)
# Arguments of torch.utils.checkpoint.checkpoint(), which it doesn't pass on.
ITS_OWN = {"function", "use_reentrant", "preserve_rng_state", "context_fn", "determinism_check"}
ITS_OWN |= {"debug", "early_stop"}
MOST_SIMILAR = 3


def install(torch: Any, asked: list[list[str]], names: Any) -> Callable[[], list[dict[str, Any]]]:
    """Make the changes. Return a function that says what was changed so far.

    `names`: recording/module_names.py.
    """
    made = []
    for name, value in asked:
        change = CHANGES[name](torch, value, names)
        change.install()
        made.append(change)
    return lambda: [change.noted() for change in made]


class Change:
    """A change. `names` are the modules or optimizers that were changed, with how often."""

    def __init__(self, torch: Any, value: str, module_names: Any) -> None:
        self.torch, self.value, self.module_names = torch, value, module_names
        self.names: dict[str, int] = {}

    def install(self) -> None:
        raise NotImplementedError

    def noted(self) -> dict[str, Any]:
        return {"names": list(self.names), "calls": sum(self.names.values())}

    def note(self, name: str) -> None:
        self.names[name] = self.names.get(name, 0) + 1


class Checkpoint(Change):
    """Calls modules through torch.utils.checkpoint, as if the program's line did."""

    def __init__(self, torch: Any, value: str, module_names: Any) -> None:
        super().__init__(torch, value, module_names)
        self.patterns = value.split(",")
        self.met = dict.fromkeys(self.patterns, 0)  # number of matches
        self.local = threading.local()  # depth of calls, and the module that is recomputed
        self.kept: dict[int, weakref.ref[Any]] = {}  # known modules by id
        self.trees: dict[int, list[int]] = {}  # a model's modules, as of the last look
        self.titles: dict[int, str] = {}
        self.chosen: dict[int, str] = {}  # the names of modules to checkpoint, by id
        self.matched: dict[str, None] = {}  # all of these names, in order
        self.holding: dict[int, bool] = {}  # transformers' models that contain such modules, by id
        self.already: set[str] = set()
        self.compiled: set[str] = set()
        self.seen: dict[str, str] = {}  # all names, with modules' types

    def install(self) -> None:
        from torch.utils.checkpoint import checkpoint

        module = self.torch.nn.Module
        theirs, local, chosen = module.__call__, self.local, self.chosen
        self.checkpoint = checkpoint
        self.of_checkpoint = inspect.unwrap(checkpoint).__code__.co_filename

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            depth = getattr(local, "depth", 0)
            if not depth:
                self.look_from(module)
            local.depth = depth + 1
            try:
                if id(module) in chosen and self.applies(module, args, kwargs):
                    return self.checkpointed(theirs, module, args, kwargs)
                if id(module) in self.holding and uses_cache(module, kwargs):
                    kwargs["use_cache"] = False
                return theirs(module, *args, **kwargs)
            finally:
                local.depth = depth

        never_compile(self.torch, call)
        for one in (*vars(Checkpoint).values(), uses_cache, needs_grad):
            if inspect.isfunction(one):
                never_compile(self.torch, one)
        module.__call__ = call

    def checkpointed(
        self, theirs: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module, and call it again in the backward pass."""
        self.note(self.chosen[id(module)])
        args, kwargs = self.without_cache(module, args, kwargs)
        is_first = True

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                return theirs(module, *args, **kwargs)
            self.local.again = module  # the recorder, which is called first, notes the module
            return self.torch.nn.Module.__call__(module, *args, **kwargs)

        never_compile(self.torch, run)
        if ITS_OWN.intersection(kwargs):
            return self.checkpoint(functools.partial(run, **kwargs), *args, use_reentrant=False)
        return self.checkpoint(run, *args, use_reentrant=False, **kwargs)

    def applies(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether this call is part of training, and not checkpointed yet."""
        again, self.local.again = getattr(self.local, "again", None), None
        if again is module or not self.torch.is_grad_enabled():
            return False
        if not (module.training or needs_grad(self.torch, (args, kwargs))):
            return False
        if self.torch._C._get_tracing_state() is not None or self.in_backward():
            return False
        frame: Any = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == self.of_checkpoint:
                self.already.add(self.chosen[id(module)])
                return False
            frame = frame.f_back
        return True

    def in_backward(self) -> bool:
        """Return whether a backward pass runs, so that the program recomputes this module."""
        task = getattr(self.torch._C, "_current_graph_task_id", None)  # since PyTorch 2.1
        return task is not None and task() != -1

    def without_cache(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Leave out transformers' cache of keys and values, to which the recomputation would add
        them again. gradient_checkpointing_enable() does the same.
        """
        cache = getattr(sys.modules.get("transformers.cache_utils"), "Cache", None)
        if cache is None or getattr(module, "_can_checkpoint_with_cache", False):
            return args, kwargs
        kwargs = {name: None if isinstance(one, cache) else one for name, one in kwargs.items()}
        if kwargs.get("use_cache"):
            kwargs["use_cache"] = False
        return tuple(None if isinstance(one, cache) else one for one in args), kwargs

    # --- which modules ---------------------------------------------------------------------------

    def look_from(self, module: Any) -> None:
        """Choose modules in the models that contain a module, which isn't called by another one."""
        if id(module) in self.titles:
            self.look(module)
        elif id(module) not in self.kept and (
            self.module_names.submodules(module) or module.__dict__.get("_parameters")
        ):
            for root in self.roots_of(module):
                self.look(root)

    def roots_of(self, module: Any) -> list[Any]:
        """Return the outermost modules that contain this one."""
        kind = self.torch.nn.Module
        holders: dict[int, list[Any]] = {}
        for one in gc.get_objects():
            if issubclass(type(one), kind):
                for inner in self.module_names.submodules(one).values():
                    holders.setdefault(id(inner), []).append(one)
        found, waiting, seen = [], [module], set()
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                waiting += holders.get(id(one), ())
                if id(one) not in holders:
                    found.append(one)
        return found or [module]

    def look(self, root: Any) -> None:
        """Choose modules in a model, unless its modules are the same as before."""
        named = list(self.module_names.within(root))
        tree = [id(one) for _, one in named]
        if self.trees.get(id(root)) == tree:
            return
        self.trees[id(root)] = tree
        if id(root) not in self.titles:
            for inner in tree:  # they were taken for models until now
                self.titles.pop(inner, None)
            title = self.module_names.title_of(root, set(self.titles.values()))
            self.titles[id(root)] = title
        for _, one in named:
            self.keep(one)
        title = self.titles[id(root)]
        modules = self.callable_ones(named)
        for path, (one, _) in modules.items():
            self.seen[path or title] = type(one).__name__
        found = set()
        for pattern in self.patterns:
            paths = matching(pattern, title, modules)
            self.met[pattern] += len(paths)
            found.update(paths)
        for path in outermost(modules, found):
            one, is_compiled = modules[path]
            name = self.chosen[id(one)] = f"{title}.{path}" if path else title
            self.hold(path, named)
            self.matched[name] = None
            if is_compiled:
                self.compiled.add(name)

    def hold(self, path: str, named: list[tuple[str, Any]]) -> None:
        """Remember transformers' models that contain a chosen module."""
        kind = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", ())
        for at, one in named:
            if isinstance(one, kind) and (not at or path.startswith(f"{at}.")) and at != path:
                self.holding[id(one)] = True

    def callable_ones(self, named: list[tuple[str, Any]]) -> dict[str, tuple[Any, bool]]:
        """Return the modules to choose from by name, and whether they are compiled as a part of
        another one.

        Lists of modules aren't called. If a module wraps another one, take the wrapped one, which
        the wrapper calls. torch.compile's wrapper doesn't.
        """
        found: dict[str, tuple[Any, bool]] = {}
        compiled: list[str] = []
        for path, one in named:
            inside = any(not at or f"{path}.".startswith(f"{at}.") for at in compiled)
            is_wrapper = type(one).__name__ == "OptimizedModule"
            if is_wrapper or getattr(one, "_compiled_call_impl", None) is not None:
                compiled.append(path)
            forward = vars(one).get("forward") or type(one).forward
            if getattr(forward, "__name__", "") == "_forward_unimplemented":
                continue
            if path not in found or type(found[path][0]).__name__ != "OptimizedModule":
                found[path] = one, inside
        return found

    def keep(self, module: Any) -> None:
        """Remember a module until it is destroyed."""
        key = id(module)
        if key in self.kept:
            return
        tables: tuple[dict[int, Any], ...]
        tables = self.kept, self.chosen, self.holding, self.titles, self.trees

        def gone(_: object) -> None:
            for table in tables:
                table.pop(key, None)

        self.kept[key] = weakref.ref(module, gone)

    def noted(self) -> dict[str, Any]:
        missing = [pattern for pattern, count in self.met.items() if not count]
        unused = [name for name in self.matched if name not in self.names]
        return {
            **super().noted(),
            "missing": missing,
            "similar": similar(missing[0], self.seen) if missing else [],
            "unused": unused,
            "already": any(name in self.already for name in unused),
            "compiled": any(name in self.compiled for name in unused),
        }


def uses_cache(model: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether a model of transformers would make a cache of keys and values in training."""
    asked = kwargs.get("use_cache")
    if asked is None:
        asked = getattr(getattr(model, "config", None), "use_cache", False)
    if not (asked and model.training):
        return False
    return "use_cache" in inspect.signature(type(model).forward).parameters


def outermost(modules: dict[str, Any], chosen: set[str]) -> list[str]:
    """Return the chosen modules, in order, without those within another one."""
    found: list[str] = []
    for path in modules:
        if path in chosen and not any(not one or path.startswith(f"{one}.") for one in found):
            found.append(path)
    return found


def matching(pattern: str, title: str, modules: dict[str, Any]) -> list[str]:
    """Return the names of modules that match, without those within another one that does."""
    sliced = SLICED.fullmatch(pattern)
    word = sliced[1] if sliced else pattern
    matched = set()
    for path, (module, _) in modules.items():
        whole = f"{title}.{path}" if path else title
        if any(fnmatchcase(one, word) for one in (path, whole, type(module).__name__) if one):
            matched.add(path)
    found = outermost(modules, matched)
    if sliced:
        return found[slice(*(int(one) if one else None for one in sliced.groups()[1:]))]
    return found


def similar(pattern: str, seen: dict[str, str]) -> list[str]:
    """Return patterns like this one that would match modules. Numbers become `*`."""
    names = [re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) for name in seen]
    known = dict.fromkeys([*names, *seen.values()])
    sliced = SLICED.fullmatch(pattern)
    word = sliced[1] if sliced else pattern
    # the outermost lists of modules
    lists = [name for name in known if name.endswith("*") and name.count("*") == 1]
    if "*" in word and lists:
        return lists[:MOST_SIMILAR]
    close = difflib.get_close_matches(word, known, MOST_SIMILAR, cutoff=0.5)
    return close or lists[:MOST_SIMILAR] or list(known)[:1]


def never_compile(torch: Any, function: Any) -> None:
    """Let torch.compile compile what a function calls, but not the function itself."""
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "skip_code"):  # before PyTorch 2.7
        frames.skip_code(function.__code__)
    elif hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)


def needs_grad(torch: Any, given: Any) -> bool:
    """Return whether a tensor in these arguments requires a gradient."""
    if isinstance(given, torch.Tensor):
        return bool(given.requires_grad)
    if isinstance(given, dict):
        given = given.values()
    elif not isinstance(given, (list, tuple)):
        return False
    return any(needs_grad(torch, one) for one in given)


class OptimizerSetting(Change):
    """Sets `foreach` or `fused` in each parameter group, whatever the program chose."""

    def __init__(self, torch: Any, value: str, module_names: Any) -> None:
        super().__init__(torch, value, module_names)
        self.kept: dict[int, weakref.ref[Any]] = {}  # changed optimizers by id
        self.counts: dict[str, int] = {}  # how many were changed, by type

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        optimizer = self.torch.optim.Optimizer
        theirs = optimizer.add_param_group

        @functools.wraps(theirs)
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            done = theirs(optimizer, *args, **kwargs)
            self.set_all(optimizer)
            return done

        optimizer.add_param_group = add_param_group
        # A loaded state has its own settings.
        register_optimizer_step_pre_hook(lambda optimizer, *_: self.set_all(optimizer))

    def set_all(self, optimizer: Any) -> None:
        changed = [self.set(optimizer, group) for group in optimizer.param_groups]
        key = id(optimizer)
        if any(changed) and key not in self.kept:
            name = type(optimizer).__name__
            count = self.counts[name] = self.counts.get(name, 0) + 1
            self.kept[key] = weakref.ref(optimizer, lambda _: self.kept.pop(key, None))
            self.note(f"{name}#{count}" if count > 1 else name)

    def set(self, optimizer: Any, group: dict[str, Any]) -> bool:
        """Set it in a group. Return whether that makes a difference."""
        raise NotImplementedError


class Foreach(OptimizerSetting):
    """Turns `foreach` off, so that an optimizer updates one parameter after the other."""

    def set(self, optimizer: Any, group: dict[str, Any]) -> bool:  # noqa: ARG002 - of the base
        if group.get("foreach", False) is False:
            return False
        group["foreach"] = False
        return not group.get("fused")


class Fused(OptimizerSetting):
    """Turns `fused` on where CUDA has such a kernel."""

    def set(self, optimizer: Any, group: dict[str, Any]) -> bool:
        if group.get("fused", True) or isinstance(optimizer, self.torch.optim.Adagrad):
            return False
        group["fused"], group["foreach"] = True, False
        optimizer._step_supports_amp_scaling = True  # as the constructor does
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if isinstance(state.get("step"), self.torch.Tensor):
                state["step"] = state["step"].to(parameter.device)
        return True


class SetToNone(Change):
    """Frees gradients in `zero_grad()` instead of zeroing them."""

    def install(self) -> None:
        for kind in (self.torch.optim.Optimizer, self.torch.nn.Module):
            self.patch(kind)

    def patch(self, kind: Any) -> None:
        theirs = kind.zero_grad
        default = inspect.signature(theirs).parameters["set_to_none"].default

        @functools.wraps(theirs)
        def zero_grad(self_: Any, set_to_none: bool = default) -> Any:
            if not set_to_none:
                self.note(f"{type(self_).__name__}.zero_grad")
            return theirs(self_, set_to_none=True)

        kind.zero_grad = zero_grad


class AutocastCache(Change):
    """Turns autocast's cache of weights off."""

    def install(self) -> None:
        kind = self.torch.autocast
        theirs = kind.__enter__

        @functools.wraps(theirs)
        def entered(context: Any) -> Any:
            if getattr(context, "_enabled", False) and context._cache_enabled:
                context._cache_enabled = False
                self.note("autocast")
            return theirs(context)

        kind.__enter__ = entered


CHANGES: dict[str, type[Change]] = {
    "checkpoint": Checkpoint,
    "foreach": Foreach,
    "fused": Fused,
    "set-to-none": SetToNone,
    "autocast-cache": AutocastCache,
}
