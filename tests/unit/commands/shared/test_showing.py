"""Tests of commands/shared/showing.py: showing a result as text or JSON."""

from __future__ import annotations

import pytest

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.peak.text import headlines, peak_document
from memreplay.commands.shared.showing import Shown, ShownFrames, folded, text_of
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests.unit.commands.results import PEAK


def test_result_is_shown_as_json() -> None:
    as_json = Shown(format="json")
    assert text_of(PEAK, as_json, peak_document) == render_json(PEAK)
    assert text_of(PEAK, as_json, peak_document, indent=None) == render_json(PEAK, indent=None)


def test_result_is_shown_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert text_of(PEAK, Shown(), peak_document) == render_plain(peak_document(PEAK), width=90)
    whole = render_plain(peak_document(PEAK, all_frames=True), width=90)
    assert text_of(PEAK, ShownFrames(all_frames=True), peak_document) == whole


def test_summary_repeats_below_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr("memreplay.commands.shared.output._is_too_long", lambda *_: True)
    shown = text_of(PEAK, Shown(), peak_document, last=headlines)
    assert shown == render_plain((*peak_document(PEAK), *headlines(PEAK)), width=90)


@pytest.mark.parametrize(
    "shown, fold",
    [
        (ShownFrames(), True),
        (ShownFrames(all_frames=True), False),
        (ShownFrames(format="json"), False),
    ],
)
def test_indistinguishable_stacks_are_merged_in_text(shown: ShownFrames, fold: bool) -> None:
    assert folded(Selection(), shown).fold is fold
