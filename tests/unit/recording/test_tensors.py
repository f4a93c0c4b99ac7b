"""Tests of recording/tensors.py, with stand-ins for tensors."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording.tensors import (
    DEEPEST,
    Addresses,
    dict_of,
    of_type,
    own,
    pools_of,
    sizes_of,
)


class Tensor:
    """A fake torch.Tensor: on a device, its storage at an address."""

    layout = "torch.strided"

    def __init__(self, address: int | None, device: str = "cuda") -> None:
        self.address = address
        self.device = SimpleNamespace(type=device)

    def untyped_storage(self) -> Any:
        if self.address is None:
            raise NotImplementedError
        return SimpleNamespace(data_ptr=lambda: self.address)


class Parameter(Tensor):
    pass


class Buffer(Tensor):
    pass


class Local(Tensor):
    """A fake DTensor: this rank's part is a tensor."""

    def __init__(self, local: Tensor) -> None:
        super().__init__(None)
        self._local_tensor = local


class Quantized(Tensor):
    """A fake tensor made up of others."""

    def __init__(self, data: Tensor, scale: Tensor) -> None:
        super().__init__(None)
        self.data, self.scale = data, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data", "scale"], None


@pytest.fixture(params=["with buffers", "without"])
def addresses(request: pytest.FixtureRequest) -> Addresses:
    nn = SimpleNamespace(Parameter=Parameter)
    core = SimpleNamespace()
    if request.param == "with buffers":
        nn.Buffer = Buffer
    return Addresses(SimpleNamespace(Tensor=Tensor, nn=nn, _C=core), "cuda")


def test_address_is_the_start_of_the_storage_on_the_device(addresses: Addresses) -> None:
    assert addresses.of(Tensor(512)) == [512]
    assert addresses.of(Tensor(512, "cpu")) == []
    assert addresses.of(Tensor(None)) == []
    assert addresses.of(Tensor(0)) == []  # this tensor has no memory


def test_inner_tensors_are_located(addresses: Addresses) -> None:
    made = Local(Quantized(Tensor(512), Local(Parameter(1024))))
    assert addresses.all(made) == [512, 1024]
    for plain in (Tensor(512), Parameter(512), Buffer(512)):
        assert addresses.all(plain) == [512]


def test_tensors_are_found_in_nested_arguments(addresses: Addresses) -> None:
    one, two, three = Tensor(1), Parameter(2), Tensor(3)
    given = ((one, 5, "x"), {"mask": [two, None], "deep": {"er": (three,)}})
    assert list(addresses.found_in(given)) == [one, two, three]
    assert list(addresses.found_in({1, 2})) == []


def test_self_references_terminate(addresses: Addresses) -> None:
    one = Tensor(1)
    ring: list[Any] = [one]
    ring.append(ring)
    assert list(addresses.found_in(ring)) == [one] * DEEPEST


class Sparse(Tensor):
    """A fake sparse tensor, which has no storage itself."""

    def __init__(self, layout: str, **parts: Tensor) -> None:
        super().__init__(None)
        self.layout = f"torch.{layout}"
        for name, part in parts.items():
            setattr(self, name, lambda part=part: part)


def test_sparse_tensors_are_located_by_their_values(addresses: Addresses) -> None:
    coo = Sparse("sparse_coo", _indices=Tensor(512), _values=Tensor(1024))
    assert addresses.all(coo) == [512, 1024]
    rows = Sparse(
        "sparse_csr", crow_indices=Tensor(1), col_indices=Tensor(2, "cpu"), values=Tensor(3)
    )
    assert addresses.all(rows) == [1, 3]
    assert addresses.all(Sparse("mkldnn")) == []


class Wrapper(Tensor):
    """A wrapper that doesn't report its inner tensor."""

    def __init__(self, inner: Tensor) -> None:
        super().__init__(None)
        self.inner = inner


class FakeTensor(Tensor):
    """A fake of PyTorch's FakeTensor, which has no memory and warns on access."""

    def untyped_storage(self) -> Any:
        raise AssertionError("asked")


class Raising(Tensor):
    """Any access raises an error."""

    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else ValueError(name)


class Angry:
    """Any access raises an error; this one isn't a tensor."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)

    def __bool__(self) -> bool:
        raise ValueError("bool")

    def __eq__(self, other: object) -> bool:
        raise ValueError("eq")

    __hash__ = None  # type: ignore[assignment]


class AngryDict(dict[str, Any]):
    def values(self) -> Any:
        raise ValueError("values")


def test_wrappers_are_followed_and_fake_tensors_left_out(addresses: Addresses) -> None:
    assert addresses.all(Wrapper(Wrapper(Tensor(512)))) == [512]
    around = Wrapper(Tensor(512))
    around.inner = around  # holds itself
    assert addresses.all(around) == []
    assert addresses.all(FakeTensor(512)) == []


def test_exceptions_of_tensors_are_counted_and_swallowed(addresses: Addresses) -> None:
    said: list[str] = []
    addresses.guard.say = said.append
    assert addresses.all(Raising(512)) == addresses.all(Raising(512)) == []
    assert addresses.guard.failures() == [
        {"doing": "finding a tensor's memory", "error": "ValueError: device", "count": 2}
    ]
    assert len(said) == 1
    one, two = Tensor(1), Tensor(2)
    given = [Angry(), AngryDict(a=one, b=Angry()), (two, Angry())]
    assert list(addresses.found_in(given)) == [one, two]


def test_sizes_are_those_of_blocks_in_use() -> None:
    block = {"address": 512, "size": 1024, "requested_size": 1000, "state": "active_allocated"}
    old = {"size": 512, "state": "active_allocated"}
    free = {"address": 4096, "size": 512, "requested_size": 400, "state": "inactive"}
    segments = [
        {"address": 512, "blocks": [block]},
        {"address": 2048, "blocks": [{"size": 512, "state": "inactive"}, old]},
        {"address": 4096, "blocks": [free]},
    ]
    assert sizes_of(segments) == {512: 1000, 2560: 512}


def test_private_pools_reserve_what_they_do_not_use() -> None:
    def segment(pool: tuple[int, int], *blocks: tuple[str, int]) -> dict[str, Any]:
        return {
            "segment_pool_id": pool,
            "total_size": sum(size for _, size in blocks),
            "blocks": [{"state": state, "size": size} for state, size in blocks],
        }

    segments = [
        segment((0, 0), ("inactive", 100)),
        segment((1, 0), ("inactive", 20), ("active_allocated", 5), ("inactive", 7)),
        segment((1, 0), ("inactive", 3), ("active_pending_free", 4)),
        segment((0, 2), ("active_allocated", 9)),
        {"total_size": 8, "blocks": []},
    ]
    assert pools_of(segments) == {(1, 0): 30}


def test_attributes_are_read_without_the_programs_code() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

    class Failing(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Replaced:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError

    class Slots:
        __slots__ = ()

    thing = Failing()
    object.__getattribute__(thing, "__dict__")["x"] = 1
    assert dict_of(thing) == {"x": 1}
    assert of_type(Failing, "__name__") == "Failing"
    assert dict_of(Replaced()) is None
    assert dict_of(Slots()) is None
    assert dict_of(math) is vars(math)
    assert own(Replaced(), "__dict__") is None
