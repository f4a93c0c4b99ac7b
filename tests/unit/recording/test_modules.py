"""Tests of recording/modules.py, without PyTorch: wrappers around methods, and names."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

from memreplay.recording.guarding import Guard
from memreplay.recording.module_names import within
from memreplay.recording.modules import Modules
from memreplay.recording.tensors import Addresses


class Scaler:
    """A class whose method is patched."""

    def update(self, by: int) -> int:
        return by + 1


class Grown(Scaler):
    """A class that inherits the patched method."""


def modules() -> Modules:
    addresses: Any = Addresses.__new__(Addresses)
    return Modules(None, addresses, Guard())


def handed_back(of: Modules) -> None:
    for handle in of.handles:
        handle.remove()


def test_patched_method_is_restored() -> None:
    for kind in (Scaler, Grown):
        theirs, known, heard = vars(kind).get("update"), modules(), list[Any]()
        one = kind()
        known.patch(kind, "update", heard.append)
        assert (one.update(3), heard) == (4, [one])
        handed_back(known)
        assert (one.update(3), heard) == (4, [one])
        assert vars(kind).get("update") is theirs


def test_wrappers_of_the_program_are_kept() -> None:
    theirs, known, heard = Scaler.update, modules(), list[int]()
    known.patch(Scaler, "update", lambda _: heard.append(1))
    ours = Scaler.update
    around: Any = lambda self, by: ours(self, by) * 10  # noqa: E731
    try:
        Scaler.update = around  # type: ignore[method-assign]
        assert (Scaler().update(3), heard) == (40, [1])
        handed_back(known)
        assert Scaler.update is around
        assert (Scaler().update(3), heard) == (40, [1])  # and nothing is reported any more
    finally:
        Scaler.update = theirs  # type: ignore[method-assign]


def test_recreated_modules_share_a_name() -> None:
    known = modules()
    first, second, other = Scaler(), Scaler(), Grown()
    known.register_shared(first, "Model.Scaler")
    known.register_shared(second, "Model.Scaler")
    known.register_shared(other, "Model.Grown")
    assert known.names == ["", "Model.Scaler", "Model.Grown"]
    assert [known.numbers[id(one)] for one in (first, second, other)] == [1, 1, 2]
    gone = id(first)
    del first
    gc.collect()
    assert gone not in known.numbers
    assert set(known.kept) == {id(second), id(other)}


def test_patched_method_works_if_the_recorder_fails() -> None:
    known = modules()

    def fails(_: object) -> None:
        raise ValueError("no")

    theirs = Scaler.update
    known.patch(Scaler, "update", fails)
    try:
        assert Scaler().update(3) == 4
    finally:
        handed_back(known)
    assert Scaler.update is theirs
    assert known.guard.failures() == [
        {"doing": "noting a call of Scaler.update", "error": "ValueError: no", "count": 1}
    ]


class Module:
    """A fake torch.nn.Module: accessing anything but `_modules` is an error."""

    def __init__(self, **inner: Any) -> None:
        self.__dict__["_modules"] = inner

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    __hash__ = None  # type: ignore[assignment]


class DataParallel(Module):
    """A fake of PyTorch's wrapper with this name."""


def named_modules(module: Any, seen: list[int], prefix: str = "") -> list[tuple[str, int]]:
    """Like torch.nn.Module."""
    if id(module) in seen:
        return []
    seen.append(id(module))
    found = [(prefix, id(module))]
    for name, one in vars(module)["_modules"].items():
        if one is not None:
            found += named_modules(one, seen, f"{prefix}.{name}" if prefix else name)
    return found


def test_nested_modules_have_the_names_of_named_modules() -> None:
    shared = Module(deep=Module())
    loop = Module(shared=shared, none=None)
    vars(loop)["_modules"]["itself"] = loop
    # Programs use the name `module`, too.
    wrapper = Module(module=Module(mid=loop, again=shared), last=Module(module=Module()))
    found = [(name, id(one)) for name, one in within(wrapper)]
    assert found == named_modules(wrapper, [])
    assert "module.mid.shared.deep" in dict(found)


def test_modules_are_renamed_if_one_turns_out_to_be_part_of_a_model() -> None:
    known = modules()
    vars(known)["mark"] = lambda root: None
    part, another, third = Module(), Module(mid=Module()), Module()
    for one in (part, another, third):
        known.root(one)
    assert known.names[1:] == ["Module", "Module#2", "Module#2.mid", "Module#3"]

    class Model(Module):
        """A model whose forward() never runs."""

    model = Model(encoder=part)
    known.root(model)
    known.rename([model, part, another, third])
    assert known.names[1:] == ["Model.encoder", "Module", "Module.mid", "Module#2", "Model"]
    # And remains so.
    known.rename([model, part, another, third])
    assert known.names[1:] == ["Model.encoder", "Module", "Module.mid", "Module#2", "Model"]


def test_pytorch_wrappers_are_left_out_of_names() -> None:
    inner = Module(module=Module(), layer=Module(_checkpoint_wrapped_module=Module(mid=Module())))
    names = [name for name, _ in within(DataParallel(module=inner))]
    assert names == ["", "", "module", "layer", "layer", "layer.mid"]


class Parameter:
    """A fake torch.nn.Parameter."""

    requires_grad = is_leaf = True
    grad = None

    def __init__(self) -> None:
        self.swap()

    def swap(self) -> None:
        """Swap a parameter as torch.utils.swap_tensors does for parameters without hooks."""
        assert not weakref.getweakrefs(self)
        self.hooks = Hooks()

    def register_post_accumulate_grad_hook(self, call: Any) -> Any:
        handle = SimpleNamespace(id=len(self.hooks), hooks_dict_ref=weakref.ref(self.hooks))
        self.hooks[handle.id] = call
        return handle


class Hooks(dict[int, Any]):
    """A dict that allows weak references, like an OrderedDict."""


def linear() -> tuple[Modules, Any, Parameter]:
    """Return a model with one module and one parameter, both known."""
    known = modules()
    known.addresses.all = lambda tensor: []  # type: ignore[method-assign]
    module: Any = Module()
    parameter = Parameter()
    vars(module)["_parameters"] = {"weight": parameter}
    known.root(module)
    return known, module, parameter


def test_swapped_parameter_is_identified_by_its_place() -> None:
    known, module, parameter = linear()
    assert (known.knows(parameter), known.owner(parameter)) == (True, 1)
    parameter.swap()
    assert (known.knows(parameter), known.owner(parameter)) == (True, 1)
    assert not known.hooked(parameter)
    known.hook_all()
    known.hook_all()
    assert len(parameter.hooks) == 1
    vars(module)["_parameters"]["weight"] = Parameter()
    assert known.owner(parameter) == 0


def test_place_of_a_parameter_is_empty_after_its_module_is_gone() -> None:
    known, module, parameter = linear()
    place, _ = known.owners[id(parameter)]
    assert place() is parameter
    del module
    gc.collect()
    assert known.owner(parameter) == 0


def test_parameter_outside_modules_is_identified_by_its_hook() -> None:
    known, *_ = linear()
    loose = Parameter()
    known.mark_parameter(loose)
    assert (known.knows(loose), known.owner(loose), len(loose.hooks)) == (True, 0, 1)
    loose.swap()
    assert not known.knows(loose)
    known.hook_all([loose])
    assert known.knows(loose)
    assert known.guard.failures() == []
