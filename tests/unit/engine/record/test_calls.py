"""Tests of _calls.pyx: modules are called unchanged, and gradients are marked by address."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from memreplay.engine.record import _calls, _tracker
from tests.unit.engine.record.world import World


class Module:
    """A fake torch.nn.Module."""

    inner: Any = None

    def plainly(self, *args: Any, **kwargs: Any) -> Any:
        assert args != ("fails",), "it fails"
        if self.inner is not None:
            _calls.call(self.inner)
        return args, kwargs, _tracker.module(), _tracker.depth()


class Gradient:
    """A fake tensor. It has no address if it's made of other tensors."""

    def __init__(self, address: int | None) -> None:
        self.address = address

    def data_ptr(self) -> int:
        if self.address is None:
            raise RuntimeError
        return self.address


class Parameter:
    """A fake parameter with this gradient."""

    def __init__(self, grad: Gradient | None) -> None:
        self.grad = grad


def test_module_call_is_recorded_under_its_number() -> None:
    world = World()
    model, inner = Module(), Module()
    numbers: dict[int, int] = {}
    asked: list[Any] = []

    def found(module: Any, args: Any, kwargs: Any) -> int:
        asked.append((module, args, kwargs))
        return numbers.setdefault(id(module), 7 + len(numbers))

    _calls.begin(Module.plainly, numbers, found)
    call = _calls.call
    try:
        assert call(model, 1, a=2) == ((1,), {"a": 2}, 7, 1)
        # A top-level module is always checked, a nested one only if it's new.
        assert call(model) == ((), {}, 7, 1)
        model.inner = inner
        assert call(model) == ((), {}, 7, 1)
        assert call(model) == ((), {}, 7, 1)
        assert [module for module, _, _ in asked] == [model, model, model, inner, model]
        assert asked[0] == (model, (1,), {"a": 2})
        with pytest.raises(AssertionError, match="it fails"):
            call(model, "fails")
        assert _tracker.depth() == 0
    finally:
        _calls.end()
        world.close()
    # If a program kept the wrapper, its modules still work as usual, also in a later recording.
    model.inner = None
    assert call(model, 3) == ((3,), {}, 0, 0)
    world = World()
    _calls.begin(None, numbers, found)  # the program's own wrapper is around it
    try:
        assert call(model, 4) == ((4,), {}, 7, 1)
    finally:
        _calls.end()
        world.close()


def test_missing_gradients_and_other_devices_are_skipped() -> None:
    world = World()
    try:
        world.taken("main", 512)
        known, made_of_others, gone = (
            Parameter(Gradient(512)),
            Parameter(Gradient(None)),
            Parameter(Gradient(1024)),
        )
        parameters = [Parameter(None), known, made_of_others, gone]
        owners = {id(one): (weakref.ref(one), i) for i, one in enumerate(parameters, 1)}
        # This number belongs to a deleted module whose memory another module now uses.
        owners[id(gone)] = weakref.ref(known), 4
        others: list[Any] = []
        gradients = _calls.Gradients(_tracker.GRADIENT, owners, Gradient, others.append)
        gradients.mark_all(parameters)
        assert others == [made_of_others, gone]
        # Objects of another type are passed on.
        odd: Any = object()
        others.clear()
        _calls.Gradients(_tracker.GRADIENT, owners, int, others.append).mark_all([known, odd])
        assert others == [known, odd]
        gradients(known)
        world.program.tell_live(512, "gradients", 2)
        trace = [{"action": "alloc", "addr": 512}]
        assert world.joined("main", [trace], 1) == world.program.joined("main", [trace], 1)
        assert world.joined("main", [trace], 1)[0] == [[("gradients", "start", 2)]]
    finally:
        world.close()
