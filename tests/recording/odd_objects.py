"""A program whose objects raise an error on almost any access.

It runs without a recorder, so it must also run with one. tests/integration/test_dryrun.py runs it.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

seen: list[str] = []
ready = False


class Raising(torch.Tensor):
    """Raises if it's passed to a torch function."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if ready:
            raise AssertionError(f"asked for {func}")
        return super().__torch_function__(func, types, args, kwargs or {})


class Angry:
    """Raises on any access."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    def __bool__(self) -> bool:
        raise AssertionError("bool")

    def __iter__(self) -> Any:
        raise AssertionError("iter")

    __hash__ = None  # type: ignore[assignment]


class AngryDict(dict[str, Any]):
    def values(self) -> Any:
        raise AssertionError("values")

    def __iter__(self) -> Any:
        raise AssertionError("iter")


class Wrapper(torch.Tensor):
    """A wrapper, like a DTensor, that doesn't report its inner tensor."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"dispatched {func}")

    def __tensor_flatten__(self) -> Any:
        raise AssertionError("flatten")


class Odd(nn.Module):
    """Overrides every hook and attribute that a recorder might call or read."""

    done = False

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16, device="cuda")
        ones = torch.ones(4, device="cuda")
        self.raising = nn.Parameter(ones.as_subclass(Raising))
        self.register_buffer("wrapped", Wrapper(ones))
        self.register_buffer("meta", torch.ones(4, device="meta"))
        self.register_buffer("sparse", torch.eye(4, device="cuda").to_sparse(), persistent=False)
        self.register_buffer("rows", torch.eye(4).to_sparse_csr(), persistent=False)
        quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
        self.register_buffer("quantized", quantized, persistent=False)
        self.done = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self.done:
            raise AssertionError("set")
        super().__setattr__(name, value)

    def parameters(self, recurse: bool = True) -> Any:
        raise AssertionError("parameters")

    def buffers(self, recurse: bool = True) -> Any:
        raise AssertionError("buffers")

    def modules(self) -> Any:
        raise AssertionError("modules")

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("named_modules")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    def __bool__(self) -> bool:
        raise AssertionError("bool")

    def __hash__(self) -> int:
        raise AssertionError("hash")

    def forward(self, x: Any, *_: Any, **__: Any) -> Any:
        return self.inner(x)


class OddOptimizer(torch.optim.SGD):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("eq")

    def __hash__(self) -> int:
        raise AssertionError("hash")


class Broken(nn.Module):
    """A module whose attributes hold values that don't belong in a module."""

    def forward(self, x: Any) -> Any:
        return x * 2


class Functions(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(str(func))
        return func(*args, **(kwargs or {}))


class MineError(Exception):
    pass


class Failing(nn.Module):
    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        raise self.kind("mine")


def fail(kind: type[BaseException]) -> None:
    raise kind("mine")


def passes(kind: type[BaseException], call: Any) -> None:
    """Check that a call raises the program's own error, unchanged."""
    found: BaseException | None = None
    try:
        call()
    except BaseException as error:
        found = error
    assert type(found) is kind, found
    assert found.args == ("mine",)
    assert found.__cause__ is None
    assert found.__context__ is None


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    odd = Odd()
    fake_mode = FakeTensorMode()
    with fake_mode:
        fake, fake_module = torch.ones(16, 16, device="cuda"), nn.Linear(16, 16, device="cuda")
    raising = torch.ones(3).as_subclass(Raising)
ready = True
lazy = nn.Sequential(nn.LazyLinear(16), nn.LazyBatchNorm1d()).cuda()
embedding = nn.Embedding(100, 16, sparse=True).cuda()
broken = Broken()
for held in ("_modules", "_buffers", "_parameters"):
    broken.__dict__[held] = {"number": 5, "text": "text", "angry": Angry()}
optimizer = OddOptimizer(odd.inner.parameters(), lr=0.1, momentum=0.9)
sparse_optimizer = torch.optim.SparseAdam(embedding.parameters())

warnings.simplefilter("error")  # a recorder must not cause warnings, either
for _ in range(4):
    x = torch.ones(8, 16, device="cuda")
    y = odd(x, Angry(), AngryDict(a=torch.ones(3, device="cuda")), raising, angry=Angry())
    rows = embedding(torch.tensor([1, 2], device="cuda"))
    (lazy(y).sum() + rows.sum()).backward()
    optimizer.step()
    sparse_optimizer.step()
    optimizer.zero_grad()
    embedding.weight.grad = None
    with contextlib.suppress(AttributeError):
        broken(x)  # some versions of torch inspect the module's contents
    with fake_mode:
        fake_module(fake)
    with Functions(), Operators(), torch.no_grad():
        odd(x)
# A module's parameters may be non-leaves.
values = {"weight": odd.inner.weight * 2, "bias": odd.inner.bias * 2}
torch.func.functional_call(odd.inner, values, (x,)).sum().backward()

for kind in (MineError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
    model = nn.Sequential(nn.Linear(16, 16).cuda(), Failing(kind))
    passes(kind, functools.partial(model, x))
    passes(kind, functools.partial(optimizer.step, functools.partial(fail, kind)))
print("seen:", *sorted(set(seen)))
print("the program has ended well")
