"""Programs, each of which asks who holds its memory before it ends."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Ask = Callable[[], dict[str, Any]]
PROGRAMS: dict[str, Callable[[Ask], dict[str, Any]]] = {}
MIB = 1 << 20
KEPT: list[torch.Tensor] = []


def program(function: Callable[[Ask], dict[str, Any]]) -> Callable[[Ask], dict[str, Any]]:
    PROGRAMS[function.__name__] = function
    return function


def empty(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()


def batch(rows: int = 512) -> torch.Tensor:
    return torch.randn(rows, 512, device="cuda")


class Node:
    """An object of a program."""

    def __init__(self) -> None:
        self.data = empty(8)
        self.me = self


CALLED: list[str] = []


class Failing(type):
    """A class whose attributes can't be read."""

    def __getattribute__(cls, name: str) -> Any:
        CALLED.append(f"{name} of a class")
        raise RuntimeError(name)


class Hostile(metaclass=Failing):
    """An object whose methods fail."""

    def __init__(self) -> None:
        object.__getattribute__(self, "__dict__")["data"] = empty(1)

    def __hash__(self) -> int:
        CALLED.append("__hash__")
        return id(self)

    def fail(self, *_: Any) -> Any:
        CALLED.append("a method")
        raise RuntimeError

    __getattribute__ = __eq__ = __repr__ = __len__ = __bool__ = __iter__ = fail


class HostileModule(types.ModuleType):
    """A module whose attributes can't be read."""

    def __getattribute__(self, name: str) -> Any:
        if name not in ("__spec__", "__file__"):  # PyTorch reads these
            CALLED.append(f"{name} of a module")
        raise RuntimeError(name)


class Linked:
    """A part of a linked list."""

    def __init__(self, before: Linked | None) -> None:
        self.before = before
        self.data = torch.empty(1024, device="cuda")


class Cache:
    """Keys and values of earlier tokens."""

    def __init__(self) -> None:
        self.layers: dict[str, list[torch.Tensor]] = {"keys": [], "values": []}


def leaking() -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Return objects that hold memory, after some that don't any longer."""
    _ = [empty(1) for _ in range(3)]
    net = model()
    losses = [net(batch()).square().mean() for _ in range(3)]
    return losses, {"first": empty(2), "second": empty(3)}


# ---- leaks ---------------------------------------------------------------------------------------


@program
def losses(ask: Ask) -> dict[str, Any]:
    """Add up losses without .item()."""
    net = model()
    history = []
    for _ in range(5):
        loss = net(batch()).square().mean()
        history.append(loss)
    del loss
    return ask()


@program
def total_loss(ask: Ask) -> dict[str, Any]:
    """Add each loss to a variable, with its graph."""
    net = model()
    total = torch.zeros((), device="cuda")
    for _ in range(5):
        total = total + net(batch()).square().mean()
    return ask()


def fail(held: torch.Tensor) -> None:
    work = held + 1
    raise ValueError(f"{work.dim()} dimension")


@program
def exception(ask: Ask) -> dict[str, Any]:
    """Keep an exception, and with its traceback the variables of the functions that it left."""
    errors = []
    try:
        fail(empty(8))
    except ValueError as error:
        errors.append(error)
    return ask()


@program
def hook(ask: Ask) -> dict[str, Any]:
    """Register a hook with a closure."""
    net = nn.Linear(4, 4)

    def register() -> None:
        seen = empty(8)

        def look(*_: object) -> None:
            seen.sum()

        net.register_forward_hook(look)

    register()
    return ask()


@program
def cycle(ask: Ask) -> dict[str, Any]:
    """Drop an object that refers to itself."""
    Node()
    return ask()


@program
def cached_outputs(ask: Ask) -> dict[str, Any]:
    """Cache a function's outputs."""

    @functools.cache
    def computed(number: int) -> torch.Tensor:
        return empty(2)

    for number in range(4):
        computed(number)
    return ask()


@program
def kv_cache(ask: Ask) -> dict[str, Any]:
    """Keep keys and values of all requests."""
    cache = Cache()
    for _ in range(4):
        cache.layers["keys"].append(empty(1))
        cache.layers["values"].append(empty(1))
    return ask()


@program
def view(ask: Ask) -> dict[str, Any]:
    """Keep a small view of a large tensor."""
    first = empty(8)[:10].detach()
    return {**ask(), "first": first.numel()}


@program
def module_variable(ask: Ask) -> dict[str, Any]:
    """Keep tensors in a variable of the module."""
    KEPT.extend(empty(2) for _ in range(4))
    found = ask()
    KEPT.clear()
    return found


@program
def generator(ask: Ask) -> dict[str, Any]:
    """Keep a suspended generator."""

    def batches() -> Iterator[int]:
        prefetched = empty(8)
        yield 1
        prefetched.sum()

    running = batches()
    next(running)
    return ask()


@program
def attribute(ask: Ask) -> dict[str, Any]:
    """Keep an activation as an attribute of a module, for a look at it later."""
    net = model()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.inner.last = self.inner(x)
            return self.inner.last.mean()

    outer = Outer()
    outer(batch())
    return ask()


@program
def custom_function(ask: Ask) -> dict[str, Any]:
    """Keep tensors in the context of an autograd function."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.mask = empty(8)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return gradients[0]

    output = Twice.apply(torch.ones(4, device="cuda", requires_grad=True))
    return {**ask(), "output": output.numel()}


@program
def loop(ask: Ask) -> dict[str, Any]:
    """Loop over a generator without a name."""

    def batches() -> Iterator[int]:
        prefetched = empty(8)
        yield 1
        yield len(prefetched)

    for _ in batches():
        return ask()
    raise AssertionError


@program
def linked(ask: Ask) -> dict[str, Any]:
    """Keep a long linked list."""
    newest: Linked | None = None
    for _ in range(2000):
        newest = Linked(newest)
    found = ask()
    while newest is not None:  # otherwise, Python would free it recursively
        newest = newest.before
    return found


@program
def hostile(ask: Ask) -> dict[str, Any]:
    """Keep objects whose methods fail, in modules and classes that also do."""
    kept = Hostile()
    many = {Hostile(): batch(1) for _ in range(3)}
    sys.modules["hostile"] = HostileModule("hostile")
    CALLED.clear()
    before = sys.getrefcount(kept), sys.getrefcount(many), sys.getrefcount(sys.modules["hostile"])
    found = ask()
    after = sys.getrefcount(kept), sys.getrefcount(many), sys.getrefcount(sys.modules["hostile"])
    del sys.modules["hostile"]
    assert not CALLED, CALLED
    assert before == after
    return found


@program
def large_dict(ask: Ask) -> dict[str, Any]:
    """Keep many tensors by name."""
    kept = {f"layer {i}": torch.empty(1024, device="cuda") for i in range(20_000)}
    found = ask()
    assert len(kept) == 20_000
    assert found["seconds"] < 30  # each search in the dict once took a while
    return found


# ---- harmless ------------------------------------------------------------------------------------


@program
def clean_training(ask: Ask) -> dict[str, Any]:
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        net(batch()).square().mean().backward()
        optimizer.step()
    return ask()


@program
def clean_zeroed(ask: Ask) -> dict[str, Any]:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    history = []
    for _ in range(3):
        loss = net(batch()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(loss.detach())
    return ask()


@program
def clean_inference(ask: Ask) -> dict[str, Any]:
    net = model()
    with torch.no_grad():
        for _ in range(3):
            output = net(batch())
    return {**ask(), "output": output.dim()}


@program
def clean_checkpointed(ask: Ask) -> dict[str, Any]:
    """Saved-tensor hooks mustn't be called, because they would recompute."""
    net = model()
    x = batch()
    output = checkpoint(net, x, use_reentrant=False)
    return {**ask(), "output": output.dim()}


@program
def clean_buffers(ask: Ask) -> dict[str, Any]:
    net = nn.BatchNorm1d(MIB).cuda()
    return {**ask(), "features": net.num_features}


@program
def clean_tied(ask: Ask) -> dict[str, Any]:
    net = model()
    net[2].weight = net[0].weight
    return ask()
