"""Tests of render/trust.py: trust is described in the same words everywhere."""

from __future__ import annotations

import pytest

from memreplay.analysis.trust.trust import REMARKS, UNSEEN, graded
from memreplay.render.reasons import REASONS
from memreplay.render.trust import label_of, trust_label, trust_mark, trust_text
from memreplay.snapshot.model import SIMULATION_REASONS, Verdict


class Numbers(Verdict, frozen=True):
    """A verdict, with its events."""

    trace_events: int = 0


def of(*reasons: str, events: int = 1000) -> Numbers:
    found = graded(reasons)
    return Numbers(found.trusted, found.exactness, found.reasons, events)


MISSING = "so an earlier, higher peak may be missing."


@pytest.mark.parametrize(
    "found, label, words",
    [
        (of(), "exact", "Exact: the snapshot is consistent."),
        (of("recording_begun_late"), "exact", "Exact: the snapshot is consistent."),
        (
            of("blocks_assumed"),
            "estimated",
            "Estimated: the snapshot is consistent, but lacks some of the data these numbers need.",
        ),
        (
            of("ring_overflow"),
            "exact for the last 1,000 events",
            f"Exact for the last 1,000 events only: the ring buffer was full, {MISSING}",
        ),
        (
            of("ring_overflow_likely"),
            "exact for the last 1,000 events",
            f"Exact for the last 1,000 events only: the ring buffer was probably full, {MISSING}",
        ),
        (
            of("ring_overflow", "blocks_assumed", events=0),
            "estimated for the last events",
            f"Estimated for the last events only: the ring buffer was full, {MISSING}",
        ),
        (
            of("no_events"),
            "exact for the final state",
            f"Exact for the final state only: no events were recorded, {MISSING}",
        ),
        (
            of("no_allocations", "ring_overflow_likely"),
            "exact for the final state",
            f"Exact for the final state only: no allocation was recorded, {MISSING}",
        ),
        (
            of("unmatched_frees"),
            "not trustworthy",
            "Not trustworthy: blocks were freed that were not live, so events are missing.",
        ),
        (of("made_up_later"), "not trustworthy", "Not trustworthy: made up later."),
    ],
)
def test_verdict_has_its_label_and_words(found: Numbers, label: str, words: str) -> None:
    assert (trust_label(found), trust_text(found)) == (label, words)


@pytest.mark.parametrize(
    "found, mark",
    [
        (of(), ""),
        (of("recording_begun_late"), ""),
        (of("blocks_assumed"), "~"),
        (of("ring_overflow", "blocks_assumed"), "+"),
        (of("no_events"), "+"),
        (of("ring_overflow", "unmatched_frees"), "?"),
    ],
)
def test_verdict_has_its_mark(found: Numbers, mark: str) -> None:
    assert trust_mark(found) == mark


@pytest.mark.parametrize("reason", sorted(SIMULATION_REASONS))
def test_estimated_simulation_is_not_a_doubt(reason: str) -> None:
    assert label_of("estimated", [reason]) == "estimated"
    assert label_of("estimated", [reason, "ring_overflow"], 7) == "estimated for the last 7 events"
    assert label_of("estimated", [reason, "unmatched_frees"]) == "not trustworthy"


def test_at_most_two_doubts_are_printed() -> None:
    found = of("truncated", "ring_overflow", "blocks_assumed", "skip_actions", "tail_race")
    words = trust_text(found)
    assert words.startswith(f"Not trustworthy: {REASONS['truncated'].what}; ")
    assert words.endswith(", and 2 more reasons (summary lists them).")


@pytest.mark.parametrize("reason", sorted(set(REASONS) - SIMULATION_REASONS))
def test_only_trustworthy_verdicts_are_worded_as_such(reason: str) -> None:
    """A verdict that fails `--strict` is never worded like one that passes."""
    found = graded([reason])
    assert found.trusted is (reason in REMARKS)
    assert (label_of(found.exactness, [reason]) in ("exact", "estimated")) is found.trusted
    assert (reason in UNSEEN) <= (not found.trusted)
