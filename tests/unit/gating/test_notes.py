"""Tests of gating/notes.py."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.gating.notes import gate_notes
from tests.unit.gating.gates import KEPT, PEAK, SKIPPED, TRUST, WHOLE, gated, report


def test_each_note_is_worded() -> None:
    first, second, third, fourth, fifth = WHOLE.files[0].notes
    assert first.startswith("device 0, 1: the recorder's ring buffer was full, or probably full")
    assert second.startswith("the category rules differ from the baseline's")
    assert third == "forbid-leaks wasn't checked: no steps were found"
    assert fourth.startswith("held bytes can't be trusted, but are checked anyway: ")
    assert (
        fifth
        == "forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak from warm-up"
    )
    assert report(PEAK, KEPT, TRUST).files[0].notes == ()
    assert report(SKIPPED).files[0].notes == (third,)
    only = replace(SKIPPED, message="as it is said")
    assert gate_notes(gated("x"), [PEAK, only]) == ("as it is said",)
