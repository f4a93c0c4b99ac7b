"""Tests of commands/gate/notes.py."""

from __future__ import annotations

from memreplay.commands.gate.notes import gate_notes
from memreplay.commands.gate.result import GatedFile
from tests.unit.commands.gate.gates import KEPT, PEAK, SKIPPED, TRUST, WHOLE


def test_what_is_worth_a_note() -> None:
    first, second, third, fourth, fifth = gate_notes(WHOLE.files[0])
    assert first.startswith("device 0, 1: the recorder's ring buffer was full")
    assert second.startswith("the category rules differ from the baseline's")
    assert third == "no-leaks was not judged: no steps were found"
    assert fourth.startswith("held bytes cannot be trusted, but counts anyway")
    assert fifth == "no-leaks could not be judged: 1 step is too few to tell a leak from a start-up"
    assert gate_notes(GatedFile("x", None, (PEAK, KEPT, TRUST))) == ()
    assert gate_notes(GatedFile("x", None, (SKIPPED,))) == (third,)
