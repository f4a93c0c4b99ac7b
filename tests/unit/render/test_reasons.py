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

# What else stands in quotes in analysis/trust/trust.py.
OTHER_NAMES = {"max_entries", "trace_alloc_overflowed", "trace_alloc_max_entries"}
OTHER_NAMES |= {"without_totals", "reserved_peak_bytes"}  # of what is noted of a trace
OTHER_NAMES |= {"segment_alloc", "segment_map", "short_events", "release_lock_on_cudamalloc"}
OTHER_NAMES |= {"free_requested"}


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_says_what_and_what_to_do(name: str) -> None:
    what, remedy = REASONS[name].what, REASONS[name].remedy
    level: Level = "note" if name in REMARKS else "warning"
    text = f"{what}; next time, {remedy}" if remedy else what
    assert reason_notes((name,), trusted=False) == (Note(text, level),)


def test_the_names_are_those_of_the_analysis() -> None:
    source = (ROOT / "src/memreplay/analysis/trust/trust.py").read_text(encoding="utf-8")
    named = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', source)) | {"truncated"}
    assert (named - OTHER_NAMES) | OF_SIMULATIONS == set(REASONS)


def test_every_reason_is_in_the_documents() -> None:
    for page in ("numbers.md", "json.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert [name for name in REASONS if f"`{name}`" not in text] == []


def test_nothing_is_doubted_for_want_of_a_remedy() -> None:
    without = {name for name, reason in REASONS.items() if not reason.remedy}
    # No recording says what a program does that nobody ran.
    assert without - OF_SIMULATIONS <= REMARKS


def test_the_same_remedy_is_given_once() -> None:
    first, second = reason_notes(("unmatched_frees", "double_allocs"), trusted=False)
    assert first.text.endswith("; next time, record without a pause and without skip_actions")
    assert second.text == REASONS["double_allocs"].what


def test_what_was_said_is_not_said_again() -> None:
    (note,) = reason_notes(("no_events",), trusted=False, said=frozenset(("no_events",)))
    assert note.level == "note"
    assert note.text == f"next time, {REASONS['no_events'].remedy}"


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert reason_notes(("made_up_later",), trusted=False) == (Note("made up later", "warning"),)


def test_distrust_without_a_reason_is_still_said() -> None:
    assert reason_notes((), trusted=False) == (Note("these numbers may be inexact", "warning"),)
    assert reason_notes((), trusted=True) == ()


def test_what_a_reason_means_to_a_report_of_something_else() -> None:
    words = {"ring_overflow": "not all is counted"}
    (note,) = reason_notes(("ring_overflow",), trusted=False, instead=words)
    assert note.text == f"not all is counted; next time, {REASONS['ring_overflow'].remedy}"
