"""A seed's inputs are repeatable, and include every kind, valid and broken."""

from __future__ import annotations

import pytest

import memreplay as mr
from tests.fuzz import inputs
from tests.fuzz.check import attempt
from tests.fuzz.inputs import Inputs
from tests.fuzz.seeds import Seeds, seeds


@pytest.fixture(scope="module")
def found() -> Seeds:
    return seeds()


def test_a_seed_gives_the_same_inputs_in_any_order(found: Seeds) -> None:
    first = [Inputs(found, 7)(i) for i in range(300)]
    again = Inputs(seeds(), 7)
    assert [again(i) for i in reversed(range(300))] == first[::-1]
    assert [Inputs(found, 8)(i) for i in range(300)] != first


def test_every_kind_of_input_is_generated(found: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, (_, make) in inputs.MAKERS.items():
        monkeypatch.setattr(inputs, "KINDS", [kind])
        monkeypatch.setattr(inputs, "SHARES", [1])
        monkeypatch.setattr(inputs, "MAKERS", {kind: (1, make)})
        made = [Inputs(found, 0)(i) for i in range(30)]
        assert {name for name, _ in made} == {kind}
        assert len({data for _, data in made}) > 20


def test_readable_seeds_can_be_read(found: Seeds) -> None:
    for data in [*found.pickles, *found.texts, *found.large]:
        assert mr.open(data).native.stream_bytes


def test_many_inputs_are_accepted_and_many_rejected(found: Seeds) -> None:
    make = Inputs(found, 1)
    read = sum(isinstance(attempt(make(i)[1]), mr.Snapshot) for i in range(400))
    assert 40 < read < 300
