"""Tests of render/reasons.py."""

from __future__ import annotations

import re

import pytest

from memreplay.analysis.trust.trust import REMARKS
from memreplay.render.document import Level, Note
from memreplay.render.reasons import REASONS, reason_notes
from memreplay.snapshot.model import SIMULATION_REASONS
from tests.conftest import ROOT

OF_SIMULATIONS = set(SIMULATION_REASONS)

# Quoted strings in analysis/trust/trust.py that aren't reasons.
OTHER_NAMES = {"max_entries", "trace_alloc_overflowed", "trace_alloc_max_entries"}
OTHER_NAMES |= {"without_totals", "reserved_peak_bytes"}  # from the notes on a trace
OTHER_NAMES |= {"segment_alloc", "segment_map", "short_events", "release_lock_on_cudamalloc"}
OTHER_NAMES |= {"free_requested", "free_completed", "bare_list"}


@pytest.mark.parametrize("name", REASONS)
def test_every_reason_says_what_is_wrong_and_what_to_do(name: str) -> None:
    what, remedy = REASONS[name].what, REASONS[name].remedy
    level: Level = "note" if name in REMARKS else "warning"
    text = f"{what}; next time, {remedy}" if remedy else what
    assert reason_notes((name,), trusted=False) == (Note(text, level),)


def test_names_match_the_analysis() -> None:
    source = (ROOT / "src/memreplay/analysis/trust/trust.py").read_text(encoding="utf-8")
    named = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', source)) | {"truncated"}
    assert (named - OTHER_NAMES) | OF_SIMULATIONS == set(REASONS)


def test_every_reason_is_documented() -> None:
    text = (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    assert [name for name in REASONS if f"`{name}`" not in text] == []
    text = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    assert [name for name in OF_SIMULATIONS if f"| `{name}` |" not in text] == []


def test_every_doubt_has_a_remedy() -> None:
    without = {name for name, reason in REASONS.items() if not reason.remedy}
    # A recording doesn't show how the program behaves in a run that never happened.
    assert without - OF_SIMULATIONS <= REMARKS


def test_same_remedy_is_printed_once() -> None:
    first, second = reason_notes(("unmatched_frees", "double_allocs"), trusted=False)
    assert first.text.endswith("; next time, record without a pause and without skip_actions")
    assert second.text == REASONS["double_allocs"].what


def test_printed_reasons_are_not_repeated() -> None:
    (note,) = reason_notes(("no_events",), trusted=False, said=frozenset(("no_events",)))
    assert note.level == "note"
    assert note.text == f"next time, {REASONS['no_events'].remedy}"


def test_unknown_reason_is_printed_unchanged() -> None:
    assert reason_notes(("made_up_later",), trusted=False) == (Note("made up later", "warning"),)


def test_distrust_without_a_reason_is_still_reported() -> None:
    assert reason_notes((), trusted=False) == (Note("these numbers may be inexact", "warning"),)
    assert reason_notes((), trusted=True) == ()


def test_reason_may_be_reworded_for_another_report() -> None:
    words = {"ring_overflow": "not all is counted"}
    (note,) = reason_notes(("ring_overflow",), trusted=False, instead=words)
    assert note.text == f"not all is counted; next time, {REASONS['ring_overflow'].remedy}"
