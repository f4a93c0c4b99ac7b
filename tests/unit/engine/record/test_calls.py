"""Tests of _calls.pyx: modules are called as they would be, and gradients marked where they lie."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from memreplay.engine.record import _calls, _tracker
from tests.unit.engine.record.world import World


class Module:
    """Stands for torch.nn.Module."""

    inner: Any = None

    def plainly(self, *args: Any, **kwargs: Any) -> Any:
        assert args != ("fails",), "it fails"
        if self.inner is not None:
            _calls.call(self.inner)
        return args, kwargs, _tracker.module(), _tracker.depth()


class Gradient:
    """Stands for a tensor; without an address for one that is made of others."""

    def __init__(self, address: int | None) -> None:
        self.address = address

    def data_ptr(self) -> int:
        if self.address is None:
            raise RuntimeError
        return self.address


class Parameter:
    """Stands for one with this gradient."""

    def __init__(self, grad: Gradient | None) -> None:
        self.grad = grad


def test_a_module_is_called_as_it_is_inside_of_its_number() -> None:
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
        # One that runs by itself is always asked about; inside of others only when it is new.
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
    # A program that has kept it calls its modules as ever, in a later recording, too.
    model.inner = None
    assert call(model, 3) == ((3,), {}, 0, 0)
    world = World()
    _calls.begin(None, numbers, found)  # around it is what the program has put there
    try:
        assert call(model, 4) == ((4,), {}, 7, 1)
    finally:
        _calls.end()
        world.close()


def test_gradients_that_are_none_or_elsewhere() -> None:
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
        # The number of one that is gone, whose place another has.
        owners[id(gone)] = weakref.ref(known), 4
        others: list[Any] = []
        gradients = _calls.Gradients(_tracker.GRADIENT, owners, Gradient, others.append)
        gradients.mark_all(parameters)
        assert others == [made_of_others, gone]
        # Those of another type, and what has none, are somebody else's to look at.
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
