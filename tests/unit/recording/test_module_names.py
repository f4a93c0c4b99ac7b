"""Tests of recording/module_names.py."""

from __future__ import annotations

from typing import Any

from memreplay.recording.module_names import submodules, title_of, within


class Module:
    def __init__(self, **inner: Any) -> None:
        self._modules = inner


class Layer(Module):
    pass


class OptimizedModule(Module):
    pass


class DistributedDataParallel(Module):
    pass


class Refusing(Module):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def names(root: Module) -> list[str]:
    return [name for name, _ in within(root)]


def test_names_are_those_of_named_modules() -> None:
    shared = Layer()
    root = Module(first=shared, layers=Module(**{"0": Layer(up=Layer()), "1": shared}), none=None)
    assert names(root) == ["", "first", "layers", "layers.0", "layers.0.up"]


def test_wrappers_have_no_names() -> None:
    inner = Layer(module=Layer())
    assert names(DistributedDataParallel(module=inner)) == ["", "", "module"]
    assert names(Module(a=OptimizedModule(_orig_mod=inner))) == ["", "a", "a", "a.module"]
    assert title_of(DistributedDataParallel(module=OptimizedModule(_orig_mod=inner)), ()) == "Layer"


def test_titles_are_numbered() -> None:
    assert title_of(Layer(), {"Layer", "Module"}) == "Layer#2"
    assert title_of(Layer(), {"Layer", "Layer#2"}) == "Layer#3"


def test_half_initialized_modules_have_no_submodules() -> None:
    half = Refusing.__new__(Refusing)
    assert submodules(half) == {}
    assert names(half) == [""]
