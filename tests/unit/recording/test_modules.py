"""Tests of recording/modules.py, without PyTorch: what is put around methods, and names."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

from memreplay.recording.guarding import Guard
from memreplay.recording.modules import Modules, within
from memreplay.recording.tensors import Addresses


class Scaler:
    """A class whose method is patched."""

    def update(self, by: int) -> int:
        return by + 1


class Grown(Scaler):
    """One that has it from above."""


def modules() -> Modules:
    addresses: Any = Addresses.__new__(Addresses)
    return Modules(None, addresses, Guard())


def handed_back(of: Modules) -> None:
    for handle in of.handles:
        handle.remove()


def test_a_patched_method_does_that_first_until_it_is_handed_back() -> None:
    for kind in (Scaler, Grown):
        theirs, known, heard = vars(kind).get("update"), modules(), list[Any]()
        one = kind()
        known.patch(kind, "update", heard.append)
        assert (one.update(3), heard) == (4, [one])
        handed_back(known)
        assert (one.update(3), heard) == (4, [one])
        assert vars(kind).get("update") is theirs


def test_what_a_program_has_put_around_it_stays() -> None:
    theirs, known, heard = Scaler.update, modules(), list[int]()
    known.patch(Scaler, "update", lambda _: heard.append(1))
    ours = Scaler.update
    around: Any = lambda self, by: ours(self, by) * 10  # noqa: E731
    try:
        Scaler.update = around  # type: ignore[method-assign]
        assert (Scaler().update(3), heard) == (40, [1])
        handed_back(known)
        assert Scaler.update is around
        assert (Scaler().update(3), heard) == (40, [1])  # and nothing is heard any more
    finally:
        Scaler.update = theirs  # type: ignore[method-assign]


def test_modules_that_are_made_anew_have_one_name() -> None:
    known = modules()
    first, second, other = Scaler(), Scaler(), Grown()
    known.anew(first, "Model.Scaler")
    known.anew(second, "Model.Scaler")
    known.anew(other, "Model.Grown")
    assert known.names == ["", "Model.Scaler", "Model.Grown"]
    assert [known.numbers[id(one)] for one in (first, second, other)] == [1, 1, 2]
    gone = id(first)
    del first
    gc.collect()
    assert gone not in known.numbers
    assert set(known.kept) == {id(second), id(other)}


def test_a_patched_method_goes_on_when_the_recorder_fails() -> None:
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
    """Stands for torch.nn.Module: what is asked of it but for `_modules` is an error."""

    def __init__(self, **inner: Any) -> None:
        self.__dict__["_modules"] = inner

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    __hash__ = None  # type: ignore[assignment]


class DataParallel(Module):
    """Stands for PyTorch's wrapper of this name."""


def named_modules(module: Any, seen: list[int], prefix: str = "") -> list[tuple[str, int]]:
    """As torch.nn.Module has it."""
    if id(module) in seen:
        return []
    seen.append(id(module))
    found = [(prefix, id(module))]
    for name, one in vars(module)["_modules"].items():
        if one is not None:
            found += named_modules(one, seen, f"{prefix}.{name}" if prefix else name)
    return found


def test_modules_within_others_have_the_names_of_named_modules() -> None:
    shared = Module(deep=Module())
    loop = Module(shared=shared, none=None)
    vars(loop)["_modules"]["itself"] = loop
    # `module` is a name that programs give, too.
    wrapper = Module(module=Module(mid=loop, again=shared), last=Module(module=Module()))
    found = [(name, id(one)) for name, one in within(wrapper)]
    assert found == named_modules(wrapper, [])
    assert "module.mid.shared.deep" in dict(found)


def test_the_name_of_a_part_that_ran_before_its_model_is_free_again() -> None:
    known = modules()
    vars(known)["mark"] = lambda root: None
    part, another, third = Module(), Module(mid=Module()), Module()
    for one in (part, another, third):
        known.root(one)
    assert known.names[1:] == ["Module", "Module#2", "Module#2.mid", "Module#3"]

    class Model(Module):
        """Its forward() never runs."""

    model = Model(encoder=part)
    known.root(model)
    known.rename([model, part, another, third])
    assert known.names[1:] == ["Model.encoder", "Module", "Module.mid", "Module#2", "Model"]
    # And stays so.
    known.rename([model, part, another, third])
    assert known.names[1:] == ["Model.encoder", "Module", "Module.mid", "Module#2", "Model"]


def test_names_of_pytorchs_wrappers_are_left_out() -> None:
    inner = Module(module=Module(), layer=Module(_checkpoint_wrapped_module=Module(mid=Module())))
    names = [name for name, _ in within(DataParallel(module=inner))]
    assert names == ["", "", "module", "layer", "layer", "layer.mid"]


class Parameter:
    """Stands for torch.nn.Parameter."""

    requires_grad = is_leaf = True
    grad = None

    def __init__(self) -> None:
        self.swap()

    def swap(self) -> None:
        """As torch.utils.swap_tensors does, for one that has no hooks."""
        assert not weakref.getweakrefs(self)
        self.hooks = Hooks()

    def register_post_accumulate_grad_hook(self, call: Any) -> Any:
        handle = SimpleNamespace(id=len(self.hooks), hooks_dict_ref=weakref.ref(self.hooks))
        self.hooks[handle.id] = call
        return handle


class Hooks(dict[int, Any]):
    """A dict that may have weak references, as an OrderedDict."""


def linear() -> tuple[Modules, Any, Parameter]:
    """A model of one module with one parameter, which are known."""
    known = modules()
    known.addresses.all = lambda tensor: []  # type: ignore[method-assign]
    module: Any = Module()
    parameter = Parameter()
    vars(module)["_parameters"] = {"weight": parameter}
    known.root(module)
    return known, module, parameter


def test_a_parameter_may_be_swapped_and_is_known_by_where_it_is() -> None:
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


def test_the_place_of_a_parameter_is_empty_when_its_module_is_gone() -> None:
    known, module, parameter = linear()
    place, _ = known.owners[id(parameter)]
    assert place() is parameter
    del module
    gc.collect()
    assert known.owner(parameter) == 0


def test_a_parameter_of_no_module_is_known_by_its_hook() -> None:
    known, *_ = linear()
    loose = Parameter()
    known.mark_parameter(loose)
    assert (known.knows(loose), known.owner(loose), len(loose.hooks)) == (True, 0, 1)
    loose.swap()
    assert not known.knows(loose)
    known.hook_all([loose])
    assert known.knows(loose)
    assert known.guard.failures() == []
