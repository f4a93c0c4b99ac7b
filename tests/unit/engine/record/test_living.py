"""Tests of _living.pyx: live objects are found by type, and other threads don't notice."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from memreplay.engine.record._living import living


class Model:
    """A model whose `__class__` runs code of the program."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise AssertionError("the program's code was run")


class Layer(Model):
    pass


class Optimizer:
    pass


def test_objects_of_each_kind_and_its_subclasses_are_found() -> None:
    model, layer, optimizer = Model(), Layer(), Optimizer()
    models, layers, optimizers = living(Model, Layer, Optimizer)
    assert sorted(map(id, models)) == sorted((id(model), id(layer)))
    assert [id(one) for one in layers] == [id(layer)]
    assert [id(one) for one in optimizers] == [id(optimizer)]
    assert living() == []


def test_found_objects_are_not_kept_alive() -> None:
    model = Model()
    before = sys.getrefcount(model)
    living(Model)
    assert sys.getrefcount(model) == before


@pytest.fixture
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_threads_can_build_tuples_meanwhile() -> None:
    """Python resizes a tuple that it's building only if nothing else refers to it."""
    done, errors = threading.Event(), []

    def build() -> None:
        try:
            while not done.is_set():
                tuple(number for number in range(100))
        except SystemError as error:
            errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        living(Model)
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
