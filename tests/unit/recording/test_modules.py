"""Tests of recording/modules.py, without PyTorch: what is put around methods, and names."""

from __future__ import annotations

import gc
from typing import Any

from memreplay.recording.modules import Modules
from memreplay.recording.tensors import Addresses


class Scaler:
    """A class whose method is patched."""

    def update(self, by: int) -> int:
        return by + 1


class Grown(Scaler):
    """One that has it from above."""


def modules() -> Modules:
    addresses: Any = Addresses.__new__(Addresses)
    return Modules(None, addresses)


def handed_back(of: Modules) -> None:
    for handle in of.handles:
        handle.remove()


def test_a_patched_method_does_that_first_until_it_is_handed_back() -> None:
    for kind in (Scaler, Grown):
        theirs, known, heard = vars(kind).get("update"), modules(), list[int]()
        known.patch(kind, "update", lambda heard=heard: heard.append(1))  # type: ignore[misc]
        assert (kind().update(3), heard) == (4, [1])
        handed_back(known)
        assert (kind().update(3), heard) == (4, [1])
        assert vars(kind).get("update") is theirs


def test_what_a_program_has_put_around_it_stays() -> None:
    theirs, known, heard = Scaler.update, modules(), list[int]()
    known.patch(Scaler, "update", lambda: heard.append(1))
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
