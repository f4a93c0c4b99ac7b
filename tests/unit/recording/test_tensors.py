"""Tests of recording/tensors.py, with stand-ins for tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording.tensors import DEEPEST, Addresses


class Tensor:
    """Stands for torch.Tensor: on a device, its storage at an address."""

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
    """Stands for a DTensor: this rank's part is a tensor."""

    def __init__(self, local: Tensor) -> None:
        super().__init__(None)
        self._local_tensor = local


class Quantized(Tensor):
    """Stands for one that is made of others."""

    def __init__(self, data: Tensor, scale: Tensor) -> None:
        super().__init__(None)
        self.data, self.scale = data, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data", "scale"], None


@pytest.fixture(params=["with buffers", "without"])
def addresses(request: pytest.FixtureRequest) -> Addresses:
    nn = SimpleNamespace(Parameter=Parameter)
    if request.param == "with buffers":
        nn.Buffer = Buffer
    return Addresses(SimpleNamespace(Tensor=Tensor, nn=nn), "cuda")


def test_where_a_storage_begins(addresses: Addresses) -> None:
    assert addresses.of(Tensor(512)) == 512
    assert addresses.of(Tensor(512, "cpu")) == 0
    assert addresses.of(Tensor(None)) == 0


def test_of_tensors_that_are_made_of_others(addresses: Addresses) -> None:
    made = Local(Quantized(Tensor(512), Local(Parameter(1024))))
    assert list(addresses.all(made)) == [512, 1024]
    for plain in (Tensor(512), Parameter(512), Buffer(512)):
        assert list(addresses.all(plain)) == [512]


def test_the_tensors_in_what_a_caller_gives(addresses: Addresses) -> None:
    one, two, three = Tensor(1), Parameter(2), Tensor(3)
    given = ((one, 5, "x"), {"mask": [two, None], "deep": {"er": (three,)}})
    assert list(addresses.found_in(given)) == [one, two, three]
    assert list(addresses.found_in({1, 2})) == []


def test_what_holds_itself_has_an_end(addresses: Addresses) -> None:
    one = Tensor(1)
    ring: list[Any] = [one]
    ring.append(ring)
    assert list(addresses.found_in(ring)) == [one] * DEEPEST
