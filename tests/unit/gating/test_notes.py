"""Tests of gating/notes.py."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.gating.notes import gate_notes
from tests.unit.gating.gates import KEPT, PEAK, SKIPPED, TRUST, WHOLE, gated, report


def test_what_is_worth_a_note() -> None:
    first, second, third, fourth, fifth = WHOLE.files[0].notes
    assert first.startswith("device 0, 1: the recorder's ring buffer was full, or probably full")
    assert second.startswith("the category rules differ from the baseline's")
    assert third == "no-leaks was not judged: no steps were found"
    assert fourth.startswith("held bytes cannot be trusted, but counts anyway")
    assert fifth == "no-leaks could not be judged: 1 step is too few to tell a leak from a start-up"
    assert report(PEAK, KEPT, TRUST).files[0].notes == ()
    assert report(SKIPPED).files[0].notes == (third,)
    only = replace(SKIPPED, message="as it is said")
    assert gate_notes(gated("x"), [PEAK, only]) == ("as it is said",)
