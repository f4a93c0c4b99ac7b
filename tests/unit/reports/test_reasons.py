"""Tests of reports/reasons.py."""

from __future__ import annotations

import pytest

from memreplay.reports.document import Note
from memreplay.reports.reasons import REASONS, reason_notes


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_says_what_and_what_to_do(name: str) -> None:
    what, remedy = REASONS[name]
    assert reason_notes((name,), trusted=False) == (
        Note(f"{what}; next time, {remedy}", "warning"),
    )


def test_the_names_are_those_of_the_analysis() -> None:
    assert set(REASONS) == {
        "truncated",
        "no_events",
        "no_allocations",
        "no_segments",
        "ring_overflow",
        "unmatched_frees",
        "double_allocs",
        "size_mismatches",
        "segments_disagree",
        "no_requested_sizes",
    }


def test_a_reason_of_trusted_numbers_is_no_warning() -> None:
    (note,) = reason_notes(("no_requested_sizes",), trusted=True)
    assert note.level == "note"


def test_what_was_said_is_not_said_again() -> None:
    (note,) = reason_notes(("no_events",), trusted=False, said=frozenset(("no_events",)))
    assert note.level == "note"
    assert note.text == f"next time, {REASONS['no_events'].remedy}"


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert reason_notes(("made_up_later",), trusted=False) == (Note("made up later", "warning"),)


def test_distrust_without_a_reason_is_still_said() -> None:
    assert reason_notes((), trusted=False) == (Note("these numbers may be inexact", "warning"),)
    assert reason_notes((), trusted=True) == ()
